#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# In a guest with several processors: four writers with a region each, who compare what they read back,
# while others merge, compact, switch modes and drop the cache.
#
#   soak.sh ROUNDS
set -eu

rounds=$1
insmod /zmerge.ko
cd /sys/block/zmerge0
echo inline >merge_mode
echo 64M >disksize
for n in 0 1 2 3 4 5; do head -c $((2097152 + n * 4096)) /init >"/tmp/$n"; done
head -c 2097152 /dev/urandom >/tmp/6
head -c 2097152 /dev/zero >/tmp/7

worker() {	# NUMBER
	round=0
	while [ $round -lt "$rounds" ]; do
		file=/tmp/$(((round * 3 + $1) % 8))
		dd if="$file" of=/dev/zmerge0 bs=4k seek=$(($1 * 1024)) conv=notrunc,fsync 2>/dev/null
		dd if=/dev/zmerge0 bs=4k skip=$(($1 * 1024)) count=$(($(stat -c %s "$file") / 4096)) 2>/dev/null |
			cmp - "$file" || echo "worker $1, round $round: other bytes"
		round=$((round + 1))
	done
}

others() {
	while [ ! -e /tmp/over ]; do
		for mode in request inline adaptive off inline; do
			echo $mode >merge_mode
			echo 1 >merge 2>/dev/null || true
			echo 1 >/proc/sys/vm/drop_caches
			echo 1 >compact
			cat mm_stat merge >/dev/null
		done
		echo x
	done >/tmp/turns
}

others &
for n in 0 1 2 3; do worker $n & pids="${pids-} $!"; done
wait $pids
touch /tmp/over
wait
echo "four writers, $rounds rounds, $(wc -l </tmp/turns) turns of all modes"
while [ "$(cat merge)" != 0 ]; do sleep 0.1; done
echo 1 >reset
[ "$(tr -s ' ' <mm_stat) $(cat index_bytes)" = " 0 0 0 0 0 0 0 0 0 0" ] || echo "a reset leaves $(cat mm_stat)"
cd /
rmmod zmerge
dmesg | grep -E 'WARNING|BUG:|Oops|Call Trace|stall' || echo quiet
