# SPDX-License-Identifier: GPL-2.0-only
#
# For build-for.sh and debug/kernel.sh: programs of a suite that was unpacked into a folder, as if the
# folder were the machine. Whoever sources it has set `module`, the folder of zmerge's sources, and `project`.

. "$project/xtask/scripts/cache.sh"

# A hash of what zmerge.ko is made of: clones share the cache and may differ.
sources_hash() {
	tar --create --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rw,go=r --exclude='*.o' \
		--exclude='.*.cmd' --directory "$module" Makefile Kbuild core glue probe | sha256sum | cut -c1-12
}

# All anew: another tree's may be there, and newer.
copy_sources() {	# FOLDER
	rm -rf "$1"
	mkdir -p "$1"
	cp -r "$module"/{Makefile,Kbuild,core,glue,probe} "$1/"
}

# Copies files into a folder that is whole or not there.
keep_whole() {	# FOLDER FILE...
	local folder=$1
	shift
	rm -rf "$folder" "$folder.part"
	mkdir -p "$folder.part"
	cp "$@" "$folder.part/"
	mv "$folder.part" "$folder"
}

# What maintainer scripts would have done of what a build needs.
complete() {	# ROOT
	[ -e "$1/usr/bin/awk" ] || ln -s mawk "$1/usr/bin/awk"
	# A make that was killed leaves its job server there, and the next one has the same number.
	rm -rf "$1/tmp"
	mkdir -p "$1/proc" "$1/tmp" "$1/dev"
	[ -e "$1/dev/null" ] || : >"$1/dev/null"
}

# A root of its own with the host's /dev and /proc. Users other than root get it in a user namespace.
inside() {	# ROOT COMMAND...
	local map=
	[ "$(id -u)" = 0 ] || map=--map-root-user
	unshare $map --mount --pid --fork sh -ec '
		mount --rbind /dev "$1/dev"
		mount -t proc proc "$1/proc"
		root=$1; shift
		exec env -i PATH=/usr/bin:/bin:/usr/sbin HOME=/tmp chroot "$root" "$@"' - "$@"
}
