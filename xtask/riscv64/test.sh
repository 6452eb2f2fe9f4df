#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Tests the program on another architecture: built for RISC-V (riscv64) and run on Debian 13's
# kernel for it, emulated. Among QEMU's emulated CPUs only RISC-V counts TLB misses, so `thp
# --page-walks` is tested here.
#
# Needs root. Builds with Debian 13's compiler; everything except QEMU is unpacked in the cache
# (xtask/scripts/cache.sh).
set -euo pipefail

cd "$(dirname "$0")/../.."

die() {
	printf 'riscv64: %s\n' "$*" >&2
	exit 1
}

. xtask/scripts/trixie.sh

triple=riscv64gc-unknown-linux-gnu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

programs() {
	export CARGO_TARGET_RISCV64GC_UNKNOWN_LINUX_GNU_LINKER=riscv64-linux-gnu-gcc
	export CARGO_TARGET_RISCV64GC_UNKNOWN_LINUX_GNU_RUSTFLAGS="-C target-feature=+crt-static"
	export CC_riscv64gc_unknown_linux_gnu=riscv64-linux-gnu-gcc
	trixie cargo build --manifest-path "$PWD/Cargo.toml" --package pagewise \
		--locked --offline --target $triple
	mkdir -p "$work/root/bin"
	trixie riscv64-linux-gnu-strip -o "$work/root/bin/pagewise" "$PWD/target/oldest/$triple/debug/pagewise"
	trixie riscv64-linux-gnu-gcc -O2 -Wall -Wextra -static -o "$work/root/bin/chase" "$PWD/xtask/riscv64/chase.c"
}

initramfs() {
	cp "$guest/root/usr/bin/busybox" "$work/root/bin/"
	ln -s busybox "$work/root/bin/sh"
	cp xtask/riscv64/init.sh "$work/root/init"
	(cd "$work/root" && find . | cpio --quiet -o -H newc | gzip -1) >"$work/initramfs"
}

# opensbi is the firmware; cpio packs the initramfs of the guest
if ! { command -v qemu-system-riscv64 && command -v cpio; } >/dev/null; then
	export DEBIAN_FRONTEND=noninteractive
	apt-get update --quiet=2
	apt-get install --quiet=2 --yes --no-install-recommends qemu-system-misc opensbi cpio
fi
trixie_compiler riscv64-compiler gcc-riscv64-linux-gnu libc6-dev-riscv64-cross --alone libstd-rust-dev:riscv64
guest=$(xtask/scripts/debian-suite.sh trixie riscv64-guest linux-image-riscv64:riscv64 busybox-static:riscv64)
cache_lock --shared "$guest"
programs
initramfs

# 10 s to boot, and as much again for each test, on an otherwise idle machine
timeout 900 qemu-system-riscv64 -machine virt -cpu rv64,sscofpmf=true -m 1G -nographic -no-reboot \
	-kernel "$guest"/root/boot/vmlinux-* -initrd "$work/initramfs" \
	-append "console=ttyS0 quiet panic=-1 rdinit=/init PATH=/bin" </dev/null | tr -d '\r' | tee "$work/said"
grep -q "^riscv64: [1-9][0-9]* passed, 0 failed" "$work/said" || die "some failed, or the guest did not end"
