#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# In a guest with two processors and without zmerge: CPU 1 goes offline and online, while programs compute, and the
# scheduler's warning of a CPU that is "not properly vacated" is counted. It is the kernel's own: where the kernel
# counts its server for fair tasks as a task that runs (until commit 52d15521eb75 of 6.17), and that server's timer
# expires while CPU 1 waits for the other CPU to stop, the count is 2.
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
# What the kernel counted, and which tasks there were.
dmesg | grep -A 3 'enqueued tasks' || true
