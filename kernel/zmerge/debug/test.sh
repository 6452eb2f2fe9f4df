#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# zmerge in a guest with the debugging kernel: unit tests of its glue, a soak, ext4, fio and swap on it.
#
#   test.sh PAGEWISE [OPERATIONS]      PAGEWISE: the static program, which runs the guest
#
# Needs what kernel.sh needs, gcc with a static libc, mke2fs and fio.
set -euo pipefail

pagewise=${1:?usage: test.sh PAGEWISE [OPERATIONS]}
operations=${2:-2000000}
here=$(cd "$(dirname "$0")" && pwd)
folder=$("$here/kernel.sh")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# This machine's fio with all that it is linked with, as a disk.
fio_disk() {
	mkdir -p "$work/fio"
	cp "$(command -v fio)" "$work/fio/"
	ldd "$work/fio/fio" | grep -o '/[^ ]*' | xargs -I{} cp -L {} "$work/fio/"
	/sbin/mke2fs -q -t ext4 -d "$work/fio" "$work/fio.img" 256M
}

gcc -O2 -static -pthread -o "$work/soak" "$here/../guest/soak.c"
gcc -O2 -static -o "$work/measure" "$here/../guest/measure.c"
/sbin/mke2fs -q -t ext4 -F "$work/ext4" 60M
gzip -9 "$work/ext4"
fio_disk
"$pagewise" lab guest --emulate --kernel "$folder/bzImage" --cpus 2 --memory 1G --deadline "${DEADLINE:-2h}" \
	--append "kunit.enable=1 log_buf_len=4M workqueue.watchdog_thresh=120" \
	--file "$folder/zmerge.ko:/zmerge.ko" --file "$work/soak:/soak" --file "$work/measure:/measure" \
	--file "$work/ext4.gz:/ext4.gz" --disk "$work/fio.img,ro" --file "$here/soak.sh:/soak.sh" -- \
	sh /soak.sh "$operations" "${EPOCH:-40000}"
