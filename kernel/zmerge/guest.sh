#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests zmerge on another architecture: cross-builds zmerge.ko for a Debian kernel, and runs a
# script of guest/ in a QEMU machine with that kernel. Exits with the status of the script.
#
#   guest.sh arm64|armhf|i386 [--count] [--memory SIZE] [--cpus N] [--file FILE:PATH]... SCRIPT [ARGUMENT]...
#   guest.sh arm64|armhf|i386      builds only, and prints the path of the module
#
#	arm64	trixie's cloud kernel		gcc-aarch64-linux-gnu, qemu-system-arm
#	armhf	trixie's kernel, 32 bits	gcc-arm-linux-gnueabihf, qemu-system-arm
#	i386	bookworm's, 32 bits with PAE	libc6-dev-i386, lib32gcc-*-dev, qemu-system-x86; above 896M memory is highmem
#
# The CPU is emulated. With --count it executes one instruction per nanosecond of its clock, so
# measure.c reads numbers of instructions; without it, times mean nothing. The guest contains
# /zmerge.ko, /measure, busybox and zram. Its /init is busybox as well, and is never run: keep.sh
# and cpus.sh only read it, and need a file of 6 MB or more there, for any architecture (--file
# FILE:/init). keep.sh must get no more than the 256 MiB that the guest has without --memory, so
# that something is swapped out. cpus.sh needs --cpus 2 (not with --count: on i386 a guest with both
# printed nothing within six minutes). Modpost fails for a module with an undefined symbol, as a
# 32-bit one has that divides 64-bit numbers by the operator. Packages are kept in the cache
# (xtask/scripts/cache.sh): those of the suite, with a cross compiler, and those of the
# architecture. Needs what build-for.sh needs, the packages above, cpio, kmod and xz.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
project=$(cd "$here/../.." && pwd)
module=$here
. "$here/inside.sh"

usage() { sed -n 's/^#   guest.sh/usage: guest.sh/p' "$0" >&2; exit 2; }

[ $# -ge 1 ] || usage
architecture=$1
shift
case $architecture in
arm64)
	suite=trixie flavour=cloud-arm64 entry=zmerge-arm64 cross=gcc-14-aarch64-linux-gnu
	make_options=(ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-)
	user=(aarch64-linux-gnu-gcc) console=ttyAMA0
	qemu=(qemu-system-aarch64 -M virt -cpu cortex-a35) ;;
armhf)
	suite=trixie flavour=armmp entry=zmerge-armhf cross=gcc-14-arm-linux-gnueabihf
	make_options=(ARCH=arm CROSS_COMPILE=arm-linux-gnueabihf-)
	user=(arm-linux-gnueabihf-gcc) console=ttyAMA0
	qemu=(qemu-system-arm -M virt,highmem=off -cpu cortex-a15) ;;
i386)
	suite=bookworm flavour=686-pae entry=zmerge-bookworm cross=	# build-for.sh's: its compiler has both
	make_options=(ARCH=i386)
	user=(gcc -m32 -idirafter "/usr/include/$(gcc -print-multiarch)") console=ttyS0
	qemu=(qemu-system-i386 -M pc -cpu coreduo) ;;
*) usage ;;
esac

count=
memory=256M
cpus=1
files=()
while [ $# -gt 0 ]; do
	case $1 in
	--count) count=yes; shift ;;
	--memory) memory=${2:?}; shift 2 ;;
	--cpus) cpus=${2:?}; shift 2 ;;
	--file) files+=("${2:?}"); shift 2 ;;
	-*) usage ;;
	*) break ;;
	esac
done
script=${1-}
[ $# = 0 ] || shift

fetch() {
	local unpack=$project/xtask/scripts/debian-suite.sh host
	host=$("$unpack" $suite "$entry" '?essential' make linux-headers-cloud-amd64 $cross)
	root=$host/root
	release=$(ls "$root/usr/src" | sed -n 's/^linux-headers-\(.*\)-cloud-amd64$/\1/p' | sort -V | tail -n 1)-$flavour
	machine=$("$unpack" $suite "zmerge-$architecture-guest" --alone "linux-headers-$release:$architecture" \
		"linux-image-$release:$architecture" "busybox-static:$architecture")
	cache_lock --exclusive "$host"
	cache_lock --exclusive "$machine"
	# The headers include common ones from a folder next to them, which amd64's package
	# contains.
	cp --recursive --no-clobber "$machine"/root/usr/src/* "$root/usr/src/"
}

build() {
	local built=$machine/built-$(sources_hash)
	ko=$built/zmerge.ko
	[ ! -e "$ko" ] || return 0
	complete "$root"
	copy_sources "$root/zmerge-$architecture"
	inside "$root" make -C "/zmerge-$architecture" KDIR="/usr/src/linux-headers-$release" "${make_options[@]}" \
		>"$machine/build.log" 2>&1 || {
		tail -n 40 "$machine/build.log" >&2
		return 1
	}
	keep_whole "$built" "$root/zmerge-$architecture/zmerge.ko"
}

# The modules that zram and zmerge need, in load order.
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
		mkdir /sys/fs/cgroup/pagewise-lab-job
		for module in $(cat /modules); do insmod $module; done
		echo $$ >/sys/fs/cgroup/pagewise-lab-job/cgroup.procs
		sh /script.sh $(cat /arguments)
		echo "guest: ended with $?"
		poweroff -f
	END
}

# The busybox programs that scripts in guests call.
programs="sh awk basename blkdiscard cat cmp dd diff dmesg echo grep head insmod kill ls md5sum mkdir mkswap mount mv
	poweroff printf rm rmdir rmmod seq sed sleep sort stat su swapoff swapon sync tail touch tr umount uname wc zcat"

initramfs() {
	local into=$work/root file module
	mkdir -p "$into"/{bin,dev,etc,proc,sys,tmp,modules.d}
	cp "$machine/root/usr/bin/busybox" "$into/bin/busybox"
	for file in $programs; do ln -s busybox "$into/bin/$file"; done
	for module in $(modules); do
		file=$(basename "${module%.xz}")
		case $module in *.xz) xz -dc "$module" ;; *) cat "$module" ;; esac >"$into/modules.d/$file"
		echo "/modules.d/$file"
	done >"$into/modules"
	cp "$ko" "$into/zmerge.ko"
	"${user[@]}" -O2 -static -o "$into/measure" "$here/guest/measure.c"
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
	timeout "${DEADLINE:-1h}" "${qemu[@]}" -m "$memory" -smp "$cpus" $steady \
		-nodefaults -display none -no-reboot -nic none -serial stdio -kernel "$kernel" -initrd "$work/initramfs" \
		-append "console=$console loglevel=2 panic=-1 rdinit=/start nokaslr norandmaps cgroup_no_v1=all" |
		sed -u 's/\r$//' | tee "$work/said"
}

fetch
build
[ -n "$script" ] || { echo "$ko"; exit; }
kernel=$machine/root/boot/vmlinuz-$release
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
initramfs "$@"
cache_unlock
run
status=$(sed -n 's/^guest: ended with //p' "$work/said")
exit "${status:-125}"
