#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Run in a guest with two CPUs and without zmerge: takes CPU 1 offline and online while programs
# compute, and counts the scheduler's warnings that the CPU was "not properly vacated". The warning
# is a bug of the kernel, not of zmerge: until commit 52d15521eb75 of 6.17 the kernel counts the
# deadline server for fair tasks as a running task, so if its timer expires while CPU 1 waits for
# the other CPU to stop, the count is 2.
#
#   offline.sh TIMES
set -eu

cpu=/sys/devices/system/cpu/cpu1/online
[ ! -e /sys/block/zmerge0 ] || { echo "not so: zmerge is loaded"; exit 1; }
dmesg -c >/dev/null
for program in 1 2 3; do
	while :; do :; done &
done
at=0
begin=$(cut -d. -f1 /proc/uptime)
while [ $at -lt "$1" ]; do
	echo 0 >$cpu
	echo 1 >$cpu
	at=$((at + 1))
	[ $((at % 50)) = 0 ] || continue
	seconds=$(($(cut -d. -f1 /proc/uptime) - begin))
	echo "offline $at times in $seconds s: $(dmesg | grep -c 'not properly vacated') warnings"
done
# The number of tasks that the kernel counted, and which they were.
dmesg | grep -A 3 'enqueued tasks' || true
