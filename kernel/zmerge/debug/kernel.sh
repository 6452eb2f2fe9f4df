#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Builds a debugging kernel 6.12 from Debian's linux-source-6.12, debug/config and
# debug/config.VARIANT, and zmerge.ko for it, with trixie's compiler in a separate folder. Prints
# the folder that contains bzImage and zmerge.ko.
#
#   kernel.sh [VARIANT]      kasan (default): wrong accesses; kcsan: data races; rt: PREEMPT_RT
#
# With KASAN_ONLY=module in the environment, KASAN checks only accesses of zmerge, zsmalloc and the
# compressors, not of the rest of the kernel: that builds and runs faster.
#
# The result is kept in the cache (xtask/scripts/cache.sh), some 3 GB and 1 GB for each variant; a
# kernel is built again only if its configuration has changed. Needs root, or user namespaces.
set -euo pipefail

variant=${1:-kasan}
here=$(cd "$(dirname "$0")" && pwd)
module=$(dirname "$here")
project=$(cd "$module/../.." && pwd)
. "$module/inside.sh"

log() { printf 'debug kernel: %s\n' "$*" >&2; }
[ -e "$here/config.$variant" ] || { log "no such variant: $variant (kasan, kcsan, rt)"; exit 1; }

unpack_source() {
	[ ! -e "$root/linux/Makefile" ] || return 0
	rm -rf "$root/linux.part"
	mkdir -p "$root/linux.part"
	tar --extract --xz --strip-components=1 --directory "$root/linux.part" \
		--file "$(ls "$root"/usr/src/linux-source-6.12.tar.xz)"
	mv "$root/linux.part" "$root/linux"
}

wanted_config() {
	cat "$here/config" "$here/config.$variant"
	echo "# checked: $(checked)"
}

# Which objects are compiled with the variant's checks. With KCSAN, only the module is, with what it
# includes from the kernel's headers.
checked() {
	local file
	case $variant:${KASAN_ONLY-} in
	kcsan:*) echo KCSAN_SANITIZE=n ;;
	kasan:module)
		echo -n KASAN_SANITIZE=n
		for file in zsmalloc lz4_compress lz4_decompress lzo1x_compress lzo1x_compress_safe lzo1x_decompress_safe; do
			echo -n " KASAN_SANITIZE_$file.o=y"
		done
		;;
	esac
}

# Ends if .config lacks one of our lines: then Kconfig has refused it.
check_config() {
	local line bad=
	while read -r line; do
		case $line in
		*=n) ! grep -q "^${line%=n}=" "$build/.config" || bad+=" $line" ;;
		*) grep -qxF "$line" "$build/.config" || bad+=" $line" ;;
		esac
	done < <(wanted_config | grep ^CONFIG_)
	[ -z "$bad" ] || { log "not so in .config:$bad"; return 1; }
}

in_tree() { inside "$root" make -C /linux O="/build-$variant" ARCH=x86_64 $(checked) "$@"; }

build_kernel() {
	[ ! -e "$folder/bzImage" ] || ! wanted_config | cmp -s - "$folder/config" || return 0
	log "building $variant; the log is $folder/build.log"
	rm -f "$folder/bzImage"
	wanted_config >"$build/debug.config"
	in_tree KCONFIG_ALLCONFIG="/build-$variant/debug.config" allnoconfig >"$folder/build.log"
	check_config
	in_tree -j"${JOBS:-$(nproc)}" bzImage modules >>"$folder/build.log" 2>&1 || {
		tail -n 30 "$folder/build.log" >&2
		return 1
	}
	cp "$build/debug.config" "$folder/config"
	cp "$build/arch/x86/boot/bzImage" "$folder/bzImage"
}

# The module is up to date if it was built from these sources for this kernel.
module_key() { { sources_hash; wanted_config; } | sha256sum; }

build_module() {
	! module_key | cmp -s - "$folder/module.key" || return 0
	rm -f "$folder/module.key"
	copy_sources "$root/zmerge-$variant"
	inside "$root" make -C "/zmerge-$variant" KDIR="/build-$variant" >"$folder/module.log" 2>&1 || {
		tail -n 40 "$folder/module.log" >&2
		return 1
	}
	cp "$root/zmerge-$variant/zmerge.ko" "$folder/zmerge.ko"
	module_key >"$folder/module.key"
}

entry=$("$project/xtask/scripts/debian-suite.sh" trixie zmerge-debug \
	'?essential' make gcc libc6-dev linux-source-6.12 bc bison flex libelf-dev cpio perl xz-utils libssl-dev)
root=$entry/root
folder=$entry/$variant
build=$root/build-$variant
# Variants may be built at the same time: only a build that is alone in the root completes it.
exec {lock}>>"$entry.lock"
if flock --nonblock --exclusive "$lock"; then
	complete "$root"
	unpack_source
fi
flock --shared "$lock"
mkdir -p "$folder" "$build"
cache_lock --exclusive "$folder"
build_kernel
build_module
echo "$folder"
