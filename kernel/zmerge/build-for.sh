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
. "$here/inside.sh"

log() { printf 'build-for: %s\n' "$*" >&2; }

headers_of() {
	ls "$root/usr/src" | sed -n 's/^linux-headers-\(.*-cloud-amd64\)$/\1/p' | sort -V | tail -n 1
}

# Whether the module is there and nothing that it is made of has changed since.
fresh() {
	local module=$folder/$release/zmerge.ko
	[ -e "$module" ] &&
		[ -z "$(find "$here"/{Makefile,Kbuild,core,glue,probe} -newer "$module" -print -quit)" ]
}

# All anew: another tree's may be there, and newer.
copy_sources() {
	rm -rf "$root/zmerge"
	mkdir -p "$root/zmerge"
	cp -r "$here"/{Makefile,Kbuild,core,glue,probe} "$root/zmerge/"
}

mkdir -p "$folder"
exec 9>"$folder/lock"
flock 9
log "$suite: headers and compiler"
"$project/xtask/scripts/debian-suite.sh" --with-dependencies "$suite" "$folder" \
	'?essential' make "linux-headers-${release:-cloud-amd64}" >&2
complete "$root"
release=${release:-$(headers_of)}
if fresh; then
	echo "$folder/$release/zmerge.ko"
	exit 0
fi
copy_sources
log "$suite: building for $release"
inside "$root" make -C /zmerge KDIR="/usr/src/linux-headers-$release" >"$folder/build.log" 2>&1 || {
	tail -n 40 "$folder/build.log" >&2
	log "$suite: the build failed ($folder/build.log)"
	exit 1
}
mkdir -p "$folder/$release"
cp "$root/zmerge/zmerge.ko" "$root/zmerge/generated/features.h" "$folder/$release/"
echo "$folder/$release/zmerge.ko"
