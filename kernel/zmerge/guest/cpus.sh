#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Run in a guest with two CPUs: the second one goes offline and online while pages are written, read
# and merged. Checks that the pages are read back unchanged and that the module leaves no memory
# behind. The second CPU stays offline. Exits with 1 at the first failure.
set -eu

die() {
	echo "not so: $*"
	exit 1
}

second=/sys/devices/system/cpu/cpu1/online
[ "$(cat $second)" = 1 ] || die "there is no second processor"
insmod /zmerge.ko
cd /sys/block/zmerge0
head -c 3072000 /init >/tmp/program
[ "$(wc -c </tmp/program)" = 3072000 ] || die "/init is too small"
cat /tmp/program /tmp/program >/tmp/twice

# set_up ALGORITHM
set_up() {
	[ "$(cat initstate)" = 0 ] || echo 1 >reset
	echo "$1" >comp_algorithm
	echo inline >merge_mode
	echo 32M >disksize
}

# io PLACE: writes and reads again and again, until /tmp/over exists.
io() {
	while [ ! -e /tmp/over ]; do
		dd if=/tmp/twice of=/dev/zmerge0 bs=64k seek="$1" conv=fsync 2>/dev/null
		echo 1 >/proc/sys/vm/drop_caches
		dd if=/dev/zmerge0 bs=4k skip=$(($1 * 16)) count=1500 2>/dev/null | cmp - /tmp/twice || echo "$1" >>/tmp/wrong
		echo "$1" >>/tmp/turns
	done
}

# A CPU that was offline when the device got its size is used like the other one.
for algorithm in lz4 zstd; do
	rm -f /tmp/over /tmp/turns
	echo 0 >$second
	set_up $algorithm
	echo 1 >$second
	io 0 &
	io 128 &
	for turn in 1 2 3; do
		echo 1 >merge 2>/dev/null || true
		echo 0 >$second
		sleep 0.2
		echo 1 >$second
		sleep 0.2
	done
	touch /tmp/over
	wait
	[ ! -e /tmp/wrong ] || die "$algorithm: other bytes at $(sort -u /tmp/wrong)"
	[ "$(sort -u /tmp/turns | wc -l)" = 2 ] || die "$algorithm: somebody did nothing"
done
# The device is reset while the CPU is offline, and the CPU comes online while there is no device.
echo 0 >$second
echo 1 >reset
echo 1 >$second
echo 0 >/sys/class/zmerge-control/hot_remove
echo 0 >$second
cd /
rmmod zmerge
echo 1 >$second
echo 0 >$second
if dmesg | grep -qE 'WARNING|BUG:|Oops|Call Trace'; then
	dmesg | grep -A 40 -m 1 -E 'WARNING|BUG:|Oops|Call Trace'
	die "the kernel complains"
fi
echo changed
