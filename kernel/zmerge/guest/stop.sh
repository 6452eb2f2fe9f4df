#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Run in a guest: checks that a pass ends on request, through `merge`, `merge_mode`, a reset and a
# removal; that it is not faster than merge_rate, uses no more memory than its budget, and merges
# the same pages with a small budget. Exits with 1 at the first failure.
set -eu

insmod /zmerge.ko
cd /sys/block/zmerge0

die() {
	echo "not so: $*"
	exit 1
}

# 8,192 different pages that compress well, each twice.
awk 'BEGIN {
	for (at = 0; at < 511; at++) rest = rest "........"
	for (page = 0; page < 8192; page++) printf "%08d%s", page, rest
}' >/tmp/pages
fill() {
	[ "$(cat initstate)" = 0 ] || echo 1 >reset
	echo request >merge_mode
	echo 64M >disksize
	for seek in 0 512; do
		dd if=/tmp/pages of=/dev/zmerge0 bs=64k seek=$seek conv=fsync 2>/dev/null
	done
	[ "$(awk '{ print $1 }' mm_stat)" = 67108864 ] || die "filled: $(cat mm_stat)"
}
sum() {
	echo 1 >/proc/sys/vm/drop_caches
	md5sum </dev/zmerge0
}

fill
whole=$(sum)
[ "$(cat merge_budget) $(cat merge_rate)" = "1048576 0" ] || die "defaults: $(cat merge_budget) $(cat merge_rate)"
idle=$(cat index_bytes)

# With a budget of 16 KiB the pass takes about 24 rounds.
echo 16K >merge_budget
echo keep >merge
most=0
while [ "$(cat merge)" != 0 ]; do
	# The counters of shared objects remain: two bytes each.
	has=$(($(cat index_bytes) - idle))
	[ $has -le $most ] || most=$has
done
[ "$(cat merged_pages)" = 8192 ] || die "$(cat merged_pages) pages merged within 16 KiB"
[ $most -le $((16384 + 2 * 8192 + 8192)) ] || die "the pass had $most bytes"
[ $(($(cat index_bytes) - idle)) -le $((2 * 8192 + 8192)) ] || die "$(cat index_bytes) bytes are left"
[ "$(sum)" = "$whole" ] || die "other bytes after a pass in rounds"
echo "budget: at most $most bytes with the counters"

# ended WHAT: no pass is running, and not everything is merged.
ended() {
	[ "$(cat merge)" = 0 ] || die "$1: $(cat merge) slots left"
	[ "$(cat merged_pages)" -lt 8192 ] || die "$1: all was merged"
	[ $(($(cat index_bytes) - idle)) -le $((2 * 8192 + 8192)) ] || die "$1: $(cat index_bytes) bytes are left"
}

# At 1,024 slots per second the whole pass would take 16 s.
fill
echo 1024 >merge_rate
echo 1 >merge
sleep 2
[ "$(cat merge)" -gt 8192 ] || die "after 2 s $(cat merge) slots are left"
if echo 1 2>/dev/null >merge; then die "two passes at once"; fi
echo 0 >merge
ended "0"
echo 0 >merge || die "nothing to stop is an error"
echo 1 >merge
sleep 1
echo off >merge_mode
ended "off"
echo request >merge_mode
[ "$(sum)" = "$whole" ] || die "other bytes after a pass that was stopped"
# A pass that sleeps because of its rate continues as soon as the rate is raised.
echo 1 >merge_rate
echo 1 >merge
sleep 1
echo 0 >merge_rate
for second in $(seq 60); do
	[ "$(cat merge)" != 0 ] || break
	sleep 1
done
[ "$(cat merge) $(cat merged_pages)" = "0 8192" ] || die "$(cat merge) left, $(cat merged_pages) merged"
[ "$(sum)" = "$whole" ] || die "other bytes after a pass that waited"

fill
echo 1 >merge_rate
echo 1 >merge
echo 1 >reset
[ "$(cat merge) $(cat merge_rate) $(cat merge_budget)" = "0 0 1048576" ] || die "a reset during a pass"
fill
echo 1 >merge_rate
echo 1 >merge
cd /
echo 0 >/sys/class/zmerge-control/hot_remove
[ ! -e /sys/block/zmerge0 ] || die "a removal during a pass"
rmmod zmerge
if dmesg | grep -qE 'WARNING|BUG:|Oops|Call Trace'; then
	dmesg | grep -A 40 -m 1 -E 'WARNING|BUG:|Oops|Call Trace'
	die "the kernel complains"
fi
echo stopped
