# SPDX-License-Identifier: GPL-2.0-only
#
# For build-for.sh, debug/kernel.sh, dkms-for.sh and dkms-in-use.sh: runs programs of a suite that was
# unpacked into a folder, with that folder as the root. The script that sources this file sets `module`,
# the folder of zmerge's sources, and `project`.

. "$project/xtask/scripts/cache.sh"

# Prints the folder of a suite with its DKMS, compiler and headers, some 550 MB, which is fetched first if it is not cached.
dkms_suite() {	# SUITE
	"$project/xtask/scripts/debian-suite.sh" "$1" "dkms-$1" '?essential' make dkms openssl linux-headers-cloud-amd64
}

# A hash of the sources of zmerge.ko, because clones that share the cache may have different
# sources.
sources_hash() {
	tar --create --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rw,go=r --exclude='*.o' \
		--exclude='.*.cmd' --directory "$module" Makefile Kbuild core glue probe | sha256sum | cut -c1-12
}

# Copies all sources again: files there may be newer, but from another tree.
copy_sources() {	# FOLDER
	rm -rf "$1"
	mkdir -p "$1"
	cp -r "$module"/{Makefile,Kbuild,core,glue,probe} "$1/"
}

# Copies files into a new folder atomically: it is complete or does not exist.
keep_whole() {	# FOLDER FILE...
	local folder=$1
	shift
	rm -rf "$folder" "$folder.part"
	mkdir -p "$folder.part"
	cp "$@" "$folder.part/"
	mv "$folder.part" "$folder"
}

# Does what the packages' maintainer scripts would have done, as far as the build needs it.
complete() {	# ROOT
	[ -e "$1/usr/bin/awk" ] || ln -s mawk "$1/usr/bin/awk"
	# A killed make leaves its job server's files there, and the next make may have the same
	# process ID.
	rm -rf "$1/tmp"
	mkdir -p "$1/proc" "$1/tmp" "$1/dev"
	[ -e "$1/dev/null" ] || : >"$1/dev/null"
}

# Runs a command in this root with the host's /dev and /proc; for users other than root, in a user
# namespace.
inside() {	# ROOT COMMAND...
	local map=
	[ "$(id -u)" = 0 ] || map=--map-root-user
	unshare $map --mount --pid --fork sh -ec '
		mount --rbind /dev "$1/dev"
		mount -t proc proc "$1/proc"
		root=$1; shift
		exec env -i PATH=/usr/bin:/bin:/usr/sbin HOME=/tmp chroot "$root" "$@"' - "$@"
}
