#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Run in a guest: at and near mem_limit it does not depend on what is stored already whether a page
# can be written: on the disk, after a pass, after pages were freed, and for an unprivileged program
# that has its own pages swapped out. Exits with 1 at the first failure.
set -eu

insmod /zmerge.ko
cd /sys/block/zmerge0

die() {
	echo "not so: $*"
	exit 1
}

merge() {
	[ "$1" != off ] || return 0
	echo 1 >merge
	while [ "$(cat merge)" != 0 ]; do sleep 0.1; done
}

# accepted FILE PLACE: writes the pages of FILE until one fails, and prints how many were written.
accepted() {
	dd if="$1" of=/dev/zmerge0 bs=4k seek="$2" oflag=direct 2>&1 | sed -n 's/+0 records out//p'
}

# states MODE FILE: what can be written when 100 pages of the limit of 170 are stored, then at the
# limit, after a pass, and when 30 of the first pages and 20 of FILE are freed.
states() {
	[ "$(cat initstate)" = 0 ] || echo 1 >reset
	echo "$1" >merge_mode
	echo 32M >disksize
	[ "$(accepted /tmp/stored 0)" = 100 ] || die "$1: not all pages could be written without a limit"
	echo $((170 * 4096)) >mem_limit
	echo "near $(accepted "$2" 1000)"
	echo "at $(accepted "$2" 2000)"
	merge "$1"
	echo "merged $(accepted "$2" 3000)"
	blkdiscard -o 0 -l $((30 * 4096)) /dev/zmerge0
	echo "freed $(accepted "$2" 4000)"
	blkdiscard -o $((1000 * 4096)) -l $((20 * 4096)) /dev/zmerge0
	echo "freed again $(accepted /tmp/third 5000)"
}

for name in stored other third; do head -c 409600 /dev/urandom >/tmp/$name; done
for mode in off request inline adaptive; do
	states $mode /tmp/stored >/tmp/states.stored
	states $mode /tmp/other >/tmp/states.other
	cmp -s /tmp/states.stored /tmp/states.other ||
		die "$mode: with stored pages $(tr '\n' ' ' </tmp/states.stored), with others $(tr '\n' ' ' </tmp/states.other)"
	grep -qE '^near [67][0-9]$' /tmp/states.other || die "$mode: $(head -n 1 /tmp/states.other), expected about 70"
	grep -q '^at 0$' /tmp/states.other || die "$mode: the limit does not hold"
done

for mode in request inline adaptive; do
	echo 1 >reset
	echo $mode >merge_mode
	echo 256M >disksize
	echo 16M >mem_limit
	mkswap /dev/zmerge0 >/dev/null
	swapon /dev/zmerge0
	/hold anon /tmp/stored >/tmp/held &
	victim=$!
	until grep -q '^State:.T' /proc/$victim/status; do sleep 0.1; done
	merge $mode
	/hold guess /tmp/stored >/tmp/guessed
	kill -CONT $victim
	wait $victim || die "$mode: other bytes"
	echo "$mode: $(cat /tmp/held); $(tr '\n' ' ' </tmp/guessed)"
	grep -q 'full 1$' /tmp/guessed || die "$mode: the swap was never full"
	set -- $(sed -n 's/^left memory: \([0-9]*\) that are stored, \([0-9]*\) .*/\1 \2/p' /tmp/guessed)
	[ "$1" = "$2" ] || die "$mode: at the limit, $1 pages that are stored leave memory, and $2 others"
	swapoff /dev/zmerge0
done
echo 1 >reset
cd /
rmmod zmerge
echo limited
