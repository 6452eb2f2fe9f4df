#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Run in a guest: checks that `echo 0 > merge` ends a pass while memory is exhausted. The device is swap, and in use;
# again and again a program takes memory until the kernel kills it, and the pass is ended meanwhile. Each end may take
# two minutes, which only ends a test that hangs: then it prints where. Exits with 1 at the first failure.
#
#   exhaust.sh [ROUNDS]
set -eu

rounds=${1:-3}
insmod /zmerge.ko
cd /sys/block/zmerge0

die() {
	echo "not so: $*"
	exit 1
}
counter() { awk -v name="$1" '$1 == name { print $2 }' /proc/vmstat; }

# 8,192 different pages that compress well, each twice, in a file system of their own: what the guest was started with
# leaves little of the first one's size.
pages() {
	awk 'BEGIN {
		for (at = 0; at < 511; at++) rest = rest "........"
		for (page = 0; page < 8192; page++) printf "%08d%s", page, rest
	}'
}
echo request >merge_mode
echo 256M >disksize
mkswap /dev/zmerge0 >/dev/null
swapon /dev/zmerge0
mkdir /exhaust
mount -t tmpfs -o size=72M none /exhaust
{
	pages
	pages
} >/exhaust/more
whole=$(md5sum </exhaust/more)

ended=0
for round in $(seq "$rounds"); do
	killed=$(counter oom_kill)
	# Slow, so that the pass runs when it is ended; with the largest table, which is allocated while memory is short.
	echo 64M >merge_budget
	echo 1024 >merge_rate
	# The only program that the kernel may choose: tail keeps one endless line in memory.
	(
		echo 1000 >/proc/self/oom_score_adj
		exec tail -n 1 </dev/zero
	) >/dev/null 2>&1 &
	hog=$!
	# From here on memory is short: pages are swapped out.
	before=$(counter pswpout)
	waited=0
	while [ "$(counter pswpout)" -lt $((before + 4096)) ]; do
		[ -d /proc/$hog ] || break
		[ $waited -lt 1200 ] || die "round $round: nothing is swapped out"
		waited=$((waited + 1))
		sleep 0.05
	done
	echo 1 >merge 2>/dev/null || true
	[ "$(cat merge)" = 0 ] || ended=$((ended + 1))
	(echo 0 >merge) &
	end=$!
	waited=0
	while [ -d /proc/$end ] && [ "$(awk '{ print $3 }' /proc/$end/stat 2>/dev/null)" != Z ]; do
		if [ $waited = 1200 ]; then
			cat /proc/$end/stack || true
			dmesg | tail -n 20
			die "round $round: the pass does not end"
		fi
		waited=$((waited + 1))
		sleep 0.1
	done
	wait $end || die "round $round: ending the pass failed"
	[ "$(cat merge)" = 0 ] || die "round $round: $(cat merge) slots left"
	waited=0
	while [ -d /proc/$hog ] && [ "$(awk '{ print $3 }' /proc/$hog/stat 2>/dev/null)" != Z ]; do
		[ $waited -lt 3000 ] || die "round $round: memory is not exhausted"
		waited=$((waited + 1))
		sleep 0.1
	done
	wait $hog 2>/dev/null || true
	[ "$(counter oom_kill)" -gt "$killed" ] || die "round $round: nothing was killed"
done
[ $ended -gt 0 ] || die "no pass ran when it was ended"
[ "$(md5sum </exhaust/more)" = "$whole" ] || die "other bytes"
umount /exhaust
swapoff /dev/zmerge0
echo 1 >reset
cd /
rmmod zmerge
if dmesg | grep -qE 'WARNING|BUG:|Oops|blocked for more than'; then
	dmesg | grep -A 40 -m 1 -E 'WARNING|BUG:|Oops|blocked for more than'
	die "the kernel complains"
fi
echo "ended $ended passes that ran, in $rounds rounds without memory"
echo exhausted
