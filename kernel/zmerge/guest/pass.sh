#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Run in a guest that counts instructions: the instructions of a pass on request, and the memory
# that it saves.
#
#   pass.sh PAGES ALGORITHM [PERCENT...]      /base holds the pages; default: 0, 1, 25 and 50 % copies
set -eu

pages=$1
algorithm=$2
size=$((pages * 4096))
shift 2
percents=${*:-0 1 25 50}
insmod /zmerge.ko
cd /sys/block/zmerge0
for percent in $percents; do
	echo 1 >reset
	echo "$algorithm" >comp_algorithm
	echo $size >disksize
	written=$(/measure write /base "$pages" "$percent" /dev/zmerge0)
	set -- $(cat mm_stat)
	used=$3
	index=$(cat index_bytes)
	pass=$(/measure merge keep merge)
	grown=$(($(cat index_bytes) - index))
	compacting=$(/measure merge 1 merge)
	set -- $(cat mm_stat)
	/measure read /base "$pages" "$percent" /dev/zmerge0 >/dev/null
	echo "$percent write $((written * pages)) pass $pass again $compacting merged $(cat merged_pages)" \
		"used $used then $3 counters $grown slots $pages"
done
