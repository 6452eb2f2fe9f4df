#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Builds a 6.12 that notices mistakes, from Debian's linux-source-6.12 and debug/config, and zmerge.ko
# against it, with trixie's compiler in a folder of their own. Prints the folder that has both, bzImage and zmerge.ko.
#
#   kernel.sh
#
# Kept in .cache/zmerge/debug (or $ZMERGE_CACHE/debug), some 4 GB; the kernel is built once, and again
# where debug/config has changed. Needs root, or user namespaces.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
module=$(dirname "$here")
project=$(cd "$module/../.." && pwd)
folder=${ZMERGE_CACHE:-$project/.cache/zmerge}/debug
root=$folder/root
tree=$root/linux
. "$module/inside.sh"

log() { printf 'debug kernel: %s\n' "$*" >&2; }

unpack_source() {
	[ ! -e "$tree/Makefile" ] || return 0
	mkdir -p "$tree"
	tar --extract --xz --strip-components=1 --directory "$tree" \
		--file "$(ls "$root"/usr/src/linux-source-6.12.tar.xz)"
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

# Whether the module is newer than the kernel and all that it is made of.
fresh() {
	[ -e "$folder/zmerge.ko" ] && [ "$folder/zmerge.ko" -nt "$folder/bzImage" ] &&
		[ -z "$(find "$module"/{Makefile,Kbuild,core,glue,probe} -newer "$folder/zmerge.ko" -print -quit)" ]
}

build_module() {
	! fresh || return 0
	rm -rf "$root/zmerge"
	mkdir -p "$root/zmerge"
	cp -r "$module"/{Makefile,Kbuild,core,glue,probe} "$root/zmerge/"
	inside "$root" make -C /zmerge KDIR=/linux >"$folder/module.log" 2>&1 || {
		tail -n 40 "$folder/module.log" >&2
		return 1
	}
	cp "$root/zmerge/zmerge.ko" "$folder/zmerge.ko"
}

mkdir -p "$folder"
exec 9>"$folder/lock"
flock 9
"$project/xtask/scripts/debian-suite.sh" --with-dependencies trixie "$folder" \
	'?essential' make gcc libc6-dev linux-source-6.12 bc bison flex libelf-dev cpio perl xz-utils libssl-dev >&2
complete "$root"
unpack_source
build_kernel
build_module
echo "$folder"
