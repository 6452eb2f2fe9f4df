# SPDX-License-Identifier: GPL-2.0-only
#
# For build-for.sh and debug/kernel.sh: programs of a suite that was unpacked into a folder, as if the
# folder were the machine.

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
