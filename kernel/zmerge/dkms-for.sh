#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests this folder with DKMS of a Debian suite: adds, builds, signs, installs and removes the
# module in a folder that replaces the machine. Prints the output of DKMS, and exits with 1 if a
# module is missing or left over.
#
#   dkms-for.sh SUITE
#
# Packages are kept in the cache (xtask/scripts/cache.sh), some 550 MB. Needs root, or user namespaces.
set -euo pipefail

suite=${1:?usage: dkms-for.sh SUITE}
module=$(cd "$(dirname "$0")" && pwd)
project=$(cd "$module/../.." && pwd)
. "$module/inside.sh"

folder=$("$project/xtask/scripts/debian-suite.sh" "$suite" "dkms-$suite" \
	'?essential' make dkms openssl linux-headers-cloud-amd64)
root=$folder/root
cache_lock --exclusive "$folder"
complete "$root"
release=$(ls "$root/usr/src" | sed -n 's/^linux-headers-\(.*-cloud-amd64\)$/\1/p' | sort -V | tail -n 1)
version=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' "$module/dkms.conf")
source=$root/usr/src/zmerge-$version
# Otherwise DKMS would save the module of a killed run as the original one and restore it.
rm -rf "$source" "$root/var/lib/dkms" "$root/usr/lib/modules/$release/updates"
mkdir -p "$source" "$root/usr/lib/modules/$release" "$root/var/lib/dkms"
touch "$root/usr/lib/modules/$release"/modules.{order,builtin}
cp -r "$module"/{Makefile,Kbuild,LICENSE,dkms.conf,core,glue,probe} "$source/"

modules() { find "$root/usr/lib/modules" "$root/var/lib/dkms/zmerge" -name 'zmerge.ko*' -printf '%P\n' 2>/dev/null; }

inside "$root" dkms add "zmerge/$version"
inside "$root" dkms install "zmerge/$version" -k "$release"
inside "$root" dkms status
installed=$(find "$root/usr/lib/modules/$release" -name 'zmerge.ko*' -printf "/usr/lib/modules/$release/%P")
[ -n "$installed" ] || { echo "no module was installed" >&2; exit 1; }
inside "$root" modinfo "$installed" | grep -E '^(filename|version|license|vermagic|sig_hashalgo|signer):'
inside "$root" dkms remove "zmerge/$version" --all
[ -z "$(modules)" ] || { echo "left: $(modules)" >&2; exit 1; }
[ -z "$(inside "$root" dkms status)" ]
echo "installed and removed for $release"
