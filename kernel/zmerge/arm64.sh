#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# zmerge on arm64: zmerge.ko for trixie's cloud kernel, cross-built, and a script of guest/ in a machine of
# QEMU that has it. Ends as the script did.
#
#   arm64.sh [--count] [--memory SIZE] [--file FILE:PATH]... SCRIPT [ARGUMENT]...
#
# The processor is emulated: with --count it executes one instruction a nanosecond of its clock, which is what
# measure.c reads; without, nothing is told of speed. The guest has /zmerge.ko, /measure, busybox and zram; its /init
# is busybox, too, and never run: keep.sh wants a program of 4 MiB or more there, of whatever machine (--file FILE:/init).
# Packages are kept in the cache (xtask/scripts/cache.sh): trixie's, with a cross compiler, and arm64's.
# Needs what build-for.sh needs, qemu-system-aarch64, gcc-aarch64-linux-gnu, cpio, kmod and xz.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
project=$(cd "$here/../.." && pwd)
module=$here
. "$here/inside.sh"

usage() { sed -n 's/^#   arm64.sh/usage: arm64.sh/p' "$0" >&2; exit 2; }

count=
memory=512M
files=()
while [ $# -gt 0 ]; do
	case $1 in
	--count) count=yes; shift ;;
	--memory) memory=${2:?}; shift 2 ;;
	--file) files+=("${2:?}"); shift 2 ;;
	-*) usage ;;
	*) break ;;
	esac
done
[ $# -ge 1 ] || usage
script=$1
shift

fetch() {
	local suite=$project/xtask/scripts/debian-suite.sh compiler
	compiler=$("$suite" trixie zmerge-arm64 '?essential' make linux-headers-cloud-amd64 gcc-14-aarch64-linux-gnu)
	root=$compiler/root
	release=$(ls "$root/usr/src" | sed -n 's/^linux-headers-\(.*\)-cloud-amd64$/\1/p' | sort -V | tail -n 1)-cloud-arm64
	machine=$("$suite" trixie zmerge-arm64-guest \
		--alone "linux-headers-$release:arm64" "linux-image-$release:arm64" busybox-static:arm64)
	cache_lock --exclusive "$compiler"
	cache_lock --exclusive "$machine"
	# They include what all processors have in common from a folder beside them, which amd64's headers brought.
	cp --recursive --no-clobber "$machine"/root/usr/src/* "$root/usr/src/"
}

build() {
	local built=$machine/built-$(sources_hash)
	ko=$built/zmerge.ko
	[ ! -e "$ko" ] || return 0
	complete "$root"
	copy_sources "$root/zmerge-arm64"
	inside "$root" make -C /zmerge-arm64 KDIR="/usr/src/linux-headers-$release" ARCH=arm64 \
		CROSS_COMPILE=aarch64-linux-gnu- >"$machine/build.log" 2>&1 || {
		tail -n 40 "$machine/build.log" >&2
		return 1
	}
	keep_whole "$built" "$root/zmerge-arm64/zmerge.ko"
}

# What zram and zmerge need, in the order in which it is loaded.
modules() {
	local name
	depmod -b "$machine/root/usr" "$release"
	for name in zram lz4 lz4_compress zstd_compress lzo_compress lzo-rle ext4; do
		modprobe -d "$machine/root/usr" -S "$release" --show-depends "$name" 2>/dev/null || true
	done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }'
}

start_script() {
	cat <<-'END'
		#!/bin/sh
		export PATH=/bin
		mount -t proc none /proc
		mount -t sysfs none /sys
		mount -t devtmpfs none /dev
		mount -t debugfs none /sys/kernel/debug
		mount -t cgroup2 none /sys/fs/cgroup
		echo '+memory' >/sys/fs/cgroup/cgroup.subtree_control
		mkdir /sys/fs/cgroup/job
		for module in $(cat /modules); do insmod $module; done
		echo $$ >/sys/fs/cgroup/job/cgroup.procs
		sh /script.sh $(cat /arguments)
		echo "guest: ended with $?"
		poweroff -f
	END
}

# Of busybox: what scripts in guests call.
programs="sh awk basename blkdiscard cat cmp dd dmesg echo grep head insmod kill ls md5sum mkdir mkswap mount mv
	poweroff printf rm rmmod seq sed sleep sort stat swapoff swapon sync tail touch tr umount wc zcat"

initramfs() {
	local into=$work/root file module
	mkdir -p "$into"/{bin,dev,proc,sys,tmp,modules.d}
	cp "$machine/root/usr/bin/busybox" "$into/bin/busybox"
	for file in $programs; do ln -s busybox "$into/bin/$file"; done
	for module in $(modules); do
		file=$(basename "${module%.xz}")
		case $module in *.xz) xz -dc "$module" ;; *) cat "$module" ;; esac >"$into/modules.d/$file"
		echo "/modules.d/$file"
	done >"$into/modules"
	cp "$ko" "$into/zmerge.ko"
	aarch64-linux-gnu-gcc -O2 -static -o "$into/measure" "$here/guest/measure.c"
	for file in ${files[@]+"${files[@]}"}; do cp "${file%%:*}" "$into/${file#*:}"; done
	cp "$script" "$into/script.sh"
	echo "$@" >"$into/arguments"
	start_script >"$into/start"
	chmod +x "$into/start"
	[ -e "$into/init" ] || cp "$into/bin/busybox" "$into/init"
	(cd "$into" && find . | cpio --quiet -o -H newc) >"$work/initramfs"
}

run() {
	local steady=
	[ -z "$count" ] || steady="-icount shift=0,sleep=off"
	timeout "${DEADLINE:-1h}" qemu-system-aarch64 -M virt -cpu cortex-a35 -m "$memory" -smp 1 $steady \
		-nodefaults -display none -no-reboot -nic none -serial stdio -kernel "$kernel" -initrd "$work/initramfs" \
		-append "console=ttyAMA0 loglevel=2 panic=-1 rdinit=/start nokaslr norandmaps cgroup_no_v1=all" |
		tr -d '\r' | tee "$work/said"
}

fetch
build
kernel=$machine/root/boot/vmlinuz-$release
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
initramfs "$@"
cache_unlock
run
status=$(sed -n 's/^guest: ended with //p' "$work/said")
exit "${status:-125}"
