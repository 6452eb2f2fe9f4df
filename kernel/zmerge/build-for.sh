#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Builds zmerge.ko for a Debian suite's cloud kernel, with that suite's headers and compiler, in a
# folder of their own: nothing is installed. Prints the path of the module.
#
#   build-for.sh SUITE [RELEASE]      RELEASE as `uname -r` says it; the newest without
#
# Packages come from the mirror of this machine's apt, verified with the Debian keyring, and are
# kept in .cache/zmerge (or $ZMERGE_CACHE), some 430 MB for a suite. Needs root, or user namespaces.
set -euo pipefail

suite=${1:?usage: build-for.sh SUITE [RELEASE]}
release=${2-}
here=$(cd "$(dirname "$0")" && pwd)
project=$(cd "$here/../.." && pwd)
folder=${ZMERGE_CACHE:-$project/.cache/zmerge}/$suite
root=$folder/root

log() { printf 'build-for: %s\n' "$*" >&2; }

# What maintainer scripts would have done of what a build needs.
complete() {
	[ -e "$root/usr/bin/awk" ] || ln -s mawk "$root/usr/bin/awk"
	mkdir -p "$root/proc" "$root/tmp" "$root/dev"
	[ -e "$root/dev/null" ] || : >"$root/dev/null"
}

headers_of() {
	ls "$root/usr/src" | sed -n 's/^linux-headers-\(.*-cloud-amd64\)$/\1/p' | sort -V | tail -n 1
}

# Whether the module is there and nothing that it is made of has changed since.
fresh() {
	local module=$folder/$release/zmerge.ko
	[ -e "$module" ] &&
		[ -z "$(find "$here"/{Makefile,Kbuild,core,glue,probe} -newer "$module" -print -quit)" ]
}

copy_sources() {
	mkdir -p "$root/zmerge"
	cp -ru "$here"/{Makefile,Kbuild,core,glue,probe} "$root/zmerge/"
}

# A root of its own with the host's /dev and /proc. Users other than root get it in a user namespace.
inside() {
	local map=
	[ "$(id -u)" = 0 ] || map=--map-root-user
	unshare $map --mount --pid --fork sh -ec '
		mount --rbind /dev "$1/dev"
		mount -t proc proc "$1/proc"
		root=$1; shift
		exec env -i PATH=/usr/bin:/bin:/usr/sbin HOME=/tmp chroot "$root" "$@"' - "$root" "$@"
}

mkdir -p "$folder"
exec 9>"$folder/lock"
flock 9
log "$suite: headers and compiler"
"$project/xtask/scripts/debian-suite.sh" --with-dependencies "$suite" "$folder" \
	'?essential' make "linux-headers-${release:-cloud-amd64}" >&2
complete
release=${release:-$(headers_of)}
if fresh; then
	echo "$folder/$release/zmerge.ko"
	exit 0
fi
copy_sources
log "$suite: building for $release"
inside make -C /zmerge KDIR="/usr/src/linux-headers-$release" >"$folder/build.log" 2>&1 || {
	tail -n 40 "$folder/build.log" >&2
	log "$suite: the build failed ($folder/build.log)"
	exit 1
}
mkdir -p "$folder/$release"
cp "$root/zmerge/zmerge.ko" "$root/zmerge/generated/features.h" "$folder/$release/"
echo "$folder/$release/zmerge.ko"
