#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Run in a guest with less memory than the work needs: the same work to completion, swapping to zram
# and to zmerge.
#
#   swap.sh LIMIT PAGES ROUNDS PERCENT MODE...
#
# MODE: zram, or one of merge_mode's; +merge: with concurrent passes
set -eu

limit=$1
pages=$2
rounds=$3
percent=$4
shift 4
insmod /zmerge.ko
echo "$limit" >/sys/fs/cgroup/pagewise-lab-job/memory.max
for mode; do
	device=zmerge0
	[ "$mode" != zram ] || device=zram0
	cd "/sys/block/$device"
	echo 1 >reset
	echo lz4 >comp_algorithm
	[ "$mode" = zram ] || echo "${mode%+merge}" >merge_mode
	echo $((pages * 2 * 4096)) >disksize
	mkswap "/dev/$device" >/dev/null
	swapon "/dev/$device"
	passes=0
	if [ "$mode" != "${mode%+merge}" ]; then
		/measure swap /base "$pages" "$percent" "$rounds" >/said &
		while kill -0 $! 2>/dev/null; do
			/measure merge 1 merge >/dev/null
			passes=$((passes + 1))
		done
		wait $!
	else
		/measure swap /base "$pages" "$percent" "$rounds" >/said
	fi
	echo "$mode $percent: $(cat /said); passes $passes; swapped $(awk '/^pswp/ { printf "%s %s ", $1, $2 }' /proc/vmstat)"
	echo "  mm_stat $(cat mm_stat) io_stat $(cat io_stat)"
	[ "$mode" = zram ] || echo "  merged $(cat merged_pages) hits $(cat merge_hits) misses $(cat merge_misses)"
	swapoff "/dev/$device"
	echo "  after swapoff: $(cat mm_stat)"
done
dmesg | grep -iE "bug|warn|oops|zmerge|error" | tail -5 || true
