#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# In a guest that counts: instructions of a pass on request, and what it gives back.
#
#   pass.sh PAGES ALGORITHM      /base holds the pages
set -eu

pages=$1
size=$((pages * 4096))
insmod /zmerge.ko
cd /sys/block/zmerge0
for percent in 0 1 25 50; do
	echo 1 >reset
	echo "$2" >comp_algorithm
	echo $size >disksize
	written=$(/measure write /base "$pages" "$percent" /dev/zmerge0)
	set -- "$1" "$2" $(cat mm_stat)
	used=$5
	index=$(cat index_bytes)
	pass=$(/measure merge keep merge)
	grown=$(($(cat index_bytes) - index))
	compacting=$(/measure merge 1 merge)
	set -- "$1" "$2" $(cat mm_stat)
	/measure read /base "$pages" "$percent" /dev/zmerge0 >/dev/null
	echo "$percent write $((written * pages)) pass $pass again $compacting merged $(cat merged_pages) used $used then $5 counters $grown slots $pages"
done
