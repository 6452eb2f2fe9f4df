#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Builds zmerge.ko for the cloud kernel of a Debian suite, with that suite's headers and compiler,
# which are unpacked into a separate folder: nothing is installed. Prints the path of the module.
#
#   build-for.sh SUITE [RELEASE]      RELEASE as in `uname -r`; default: the newest
#
# Packages come from the mirror of this machine's apt, verified with the Debian keyring, and are
# kept in the cache (xtask/scripts/cache.sh), some 430 MB for a suite. Needs root, or user namespaces.
set -euo pipefail

suite=${1:?usage: build-for.sh SUITE [RELEASE]}
release=${2-}
module=$(cd "$(dirname "$0")" && pwd)
project=$(cd "$module/../.." && pwd)
. "$module/inside.sh"

log() { printf 'build-for: %s\n' "$*" >&2; }

headers_of() {
	ls "$root/usr/src" | sed -n 's/^linux-headers-\(.*-cloud-amd64\)$/\1/p' | sort -V | tail -n 1
}

log "$suite: headers and compiler"
folder=$("$project/xtask/scripts/debian-suite.sh" "$suite" "zmerge-$suite" \
	'?essential' make "linux-headers-${release:-cloud-amd64}")
root=$folder/root
cache_lock --exclusive "$folder"
complete "$root"
release=${release:-$(headers_of)}
built=$folder/built/$release-$(sources_hash)
if [ ! -e "$built/zmerge.ko" ]; then
	copy_sources "$root/zmerge"
	log "$suite: building for $release"
	inside "$root" make -C /zmerge KDIR="/usr/src/linux-headers-$release" >"$folder/build.log" 2>&1 || {
		tail -n 40 "$folder/build.log" >&2
		log "$suite: the build failed ($folder/build.log)"
		exit 1
	}
	keep_whole "$built" "$root/zmerge/zmerge.ko" "$root/zmerge/generated/features.h"
fi
echo "$built/zmerge.ko"
