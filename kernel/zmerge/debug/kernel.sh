#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Builds a 6.12 that notices mistakes, from Debian's linux-source-6.12 and debug/config, and zmerge.ko
# against it, with trixie's compiler in a folder of their own. Prints the folder that has both, bzImage and zmerge.ko.
#
#   kernel.sh
#
# Kept in the cache (xtask/scripts/cache.sh), some 4 GB; the kernel is built once, and again
# where debug/config has changed. Needs root, or user namespaces.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
module=$(dirname "$here")
project=$(cd "$module/../.." && pwd)
. "$module/inside.sh"

log() { printf 'debug kernel: %s\n' "$*" >&2; }

unpack_source() {
	[ ! -e "$tree/Makefile" ] || return 0
	rm -rf "$tree.part"
	mkdir -p "$tree.part"
	tar --extract --xz --strip-components=1 --directory "$tree.part" \
		--file "$(ls "$root"/usr/src/linux-source-6.12.tar.xz)"
	mv "$tree.part" "$tree"
}

# Every line of debug/config is in .config, or Kconfig has refused it.
check_config() {
	local line bad=
	while read -r line; do
		case $line in
		*=n) ! grep -q "^${line%=n}=" "$tree/.config" || bad+=" $line" ;;
		*) grep -qxF "$line" "$tree/.config" || bad+=" $line" ;;
		esac
	done < <(grep ^CONFIG_ "$here/config")
	[ -z "$bad" ] || { log "not so in .config:$bad"; return 1; }
}

in_tree() { inside "$root" make -C /linux ARCH=x86_64 "$@"; }

build_kernel() {
	[ ! -e "$folder/bzImage" ] || ! cmp -s "$here/config" "$folder/config" || return 0
	log "building; the log is $folder/build.log"
	cp "$here/config" "$tree/debug.config"
	in_tree KCONFIG_ALLCONFIG=debug.config allnoconfig >"$folder/build.log"
	check_config
	in_tree -j"${JOBS:-$(nproc)}" bzImage modules >>"$folder/build.log" 2>&1 || {
		tail -n 30 "$folder/build.log" >&2
		return 1
	}
	cp "$tree/arch/x86/boot/bzImage" "$folder/bzImage"
	cp "$here/config" "$folder/config"
}

# The module is the one of these sources and this kernel.
module_key() { { sources_hash; cat "$here/config"; } | sha256sum; }

build_module() {
	! module_key | cmp -s - "$folder/module.key" || return 0
	rm -f "$folder/module.key"
	copy_sources "$root/zmerge"
	inside "$root" make -C /zmerge KDIR=/linux >"$folder/module.log" 2>&1 || {
		tail -n 40 "$folder/module.log" >&2
		return 1
	}
	cp "$root/zmerge/zmerge.ko" "$folder/zmerge.ko"
	module_key >"$folder/module.key"
}

folder=$("$project/xtask/scripts/debian-suite.sh" trixie zmerge-debug \
	'?essential' make gcc libc6-dev linux-source-6.12 bc bison flex libelf-dev cpio perl xz-utils libssl-dev)
root=$folder/root
tree=$root/linux
cache_lock --exclusive "$folder"
complete "$root"
unpack_source
build_kernel
build_module
echo "$folder"
