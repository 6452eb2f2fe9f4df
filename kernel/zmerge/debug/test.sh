#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests zmerge in a guest with a debugging kernel: unit tests of its glue, a soak test, ext4, fio
# and swap.
#
#   test.sh PAGEWISE [PAGES] [VARIANT]      PAGEWISE: the static program, which runs the guest; PAGES: see soak.c,
#                                           2,000,000 if not given; VARIANT: see kernel.sh, kasan if not given
#
# With MINUTES in the environment, the soak test of the disk ends after that time. The kernel's log
# is kept next to the kernel, as kernel.log.
# Needs what kernel.sh needs, gcc with a static libc, mke2fs, fio and busybox-static.
set -euo pipefail

pagewise=${1:?usage: test.sh PAGEWISE [PAGES] [VARIANT]}
pages=${2:-2000000}
here=$(cd "$(dirname "$0")" && pwd)
folder=$("$here/kernel.sh" "${3:-kasan}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Puts this machine's fio and the libraries that it is linked with on a disk image.
fio_disk() {
	mkdir -p "$work/fio"
	cp "$(command -v fio)" "$work/fio/"
	ldd "$work/fio/fio" | grep -o '/[^ ]*' | xargs -I{} cp -L {} "$work/fio/"
	/sbin/mke2fs -q -t ext4 -d "$work/fio" "$work/fio.img" 256M
}

# An emulated CPU on a busy machine may stand still for seconds: raise the timeouts of the kernel's
# watchdogs.
patience="no_timer_check workqueue.watchdog_thresh=600 watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=300 sysctl.kernel.hung_task_timeout_secs=600"

gcc -O2 -static -pthread -o "$work/soak" "$here/../guest/soak.c"
gcc -O2 -static -o "$work/measure" "$here/../guest/measure.c"
/sbin/mke2fs -q -t ext4 -b 4096 -F "$work/ext4" 60M
gzip -9 "$work/ext4"
fio_disk
rm -f "$folder/kernel.log"
"$pagewise" lab guest --emulate --kernel "$folder/bzImage" --cpus 2 --memory 1G --start-deadline 1h --deadline "${DEADLINE:-2h}" \
	--kernel-log "$folder/kernel.log" --append "kunit.enable=1 log_buf_len=4M $patience" \
	--file "$folder/zmerge.ko:/zmerge.ko" --file "$work/soak:/soak" --file "$work/measure:/measure" \
	--file "$work/ext4.gz:/ext4.gz" --disk "$work/fio.img,ro" --file "$here/soak.sh:/soak.sh" -- \
	sh /soak.sh "$pages" "${EPOCH:-5000}" ${MINUTES:+"$MINUTES"}
