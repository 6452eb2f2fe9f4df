#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Run in a guest with a debugging kernel and two CPUs: exercises all of zmerge for a long time while
# allocations fail; then uses it as a disk with ext4 and fio, and as swap. Prints "quiet" at the end
# if the kernel reported nothing.
#
#   soak.sh PAGES EPOCH [MINUTES]      as in soak.c
set -eu

cd /sys/kernel/debug
die() {
	echo "not so: $*"
	dmesg | tail -n 60
	exit 1
}

# Prints everything that the kernel's checks report, with the line before it and some after it;
# leaks are checked below. Three reports are expected and left out: the slab allocator's trace if a
# zsmalloc pool cannot create its caches (error -12 or -22), because allocations are made to fail;
# the kill of the process that takes memory on purpose; and the scheduler's count of its own server
# as a task on a CPU that goes offline (offline.sh), if no task is left there.
reports() {
	dmesg | awk '
		/kmem_cache_create[a-z_]*\(zs[a-z]*[-_].*failed with error -(12|22)/ { refused = 1; next }
		/ invoked oom-killer: / { refused = 1; next }
		/WARNING: .* at kernel.sched.* (sched_cpu_dying|task_non_contending)/ { refused = 1; next }
		/enqueued tasks \([0-9]* total\)/ { left = 1; next }
		left && / name: / { if (!/migration/) print; next }
		{ left = 0 }
		refused && /<\/TASK>/ { refused = 0; next }
		refused { next }
		/BUG|WARNING|KASAN|UBSAN|Oops|Call Trace|possible .* detected|stall|hung_task|blocked for more/ {
			if (more <= 0) print before
			more = 40 }
		more-- > 0 { print }
		{ before = $0 }'
}

quiet() {
	found=$(reports)
	[ -z "$found" ] || die "$1: the kernel reports: $found"
	grep -q 'debug_locks: *1' /proc/lockdep_stats || die "$1: lockdep has given up"
	echo "$1: quiet, but for $(dmesg | grep -c 'not properly vacated') of the scheduler's own warnings"
}

# fail PERCENT: makes this share of the module's allocations fail, at any call depth.
fail() {
	start=$(cat /sys/module/zmerge/sections/.text)
	size=$(awk '$1 == "zmerge" { print $2 }' /proc/modules)
	for what in failslab fail_page_alloc; do
		echo "$start" >$what/require-start
		printf '0x%x\n' $((start + size)) >$what/require-end
		echo 24 >$what/stacktrace-depth
		echo N >$what/ignore-gfp-wait
		echo 0 >$what/verbose
		echo -1 >$what/times
		echo 1 >$what/interval
		echo "$1" >$what/probability
	done
	echo N >fail_page_alloc/ignore-gfp-highmem
	echo 0 >fail_page_alloc/min-order
}

# Leaves out one leak that is the kernel's: slab does not free the name of a cache that it could not
# create.
leaks() {
	[ -e kmemleak ] || return 0
	for turn in 1 2; do
		echo scan >kmemleak
		sleep 6
	done
	awk '/^unreferenced/ { if (text && !own) print text; text = ""; own = 0 }
		/sysfs_slab_add/ { own = 1 }
		{ text = text $0 "\n" }
		END { if (text && !own) print text }' kmemleak >/tmp/leaks
	[ ! -s /tmp/leaks ] || { cat /tmp/leaks; die "$1: leaks"; }
	echo "$1: no leaks"
}

# KCSAN sees accesses only of a module that was compiled with it.
[ ! -e kcsan ] || echo "KCSAN: $(awk '/^setup_watchpoints/ { print $2 }' kcsan) watchpoints before"

# Messages from before the module was loaded are not about it.
dmesg -c >/tmp/start.log
insmod /zmerge.ko
grep -E '^# zmerge: |^# Totals: ' kunit/zmerge/results
grep -q '^# Totals: pass:[1-9][0-9]* fail:0 ' kunit/zmerge/results || { cat kunit/zmerge/results; die "KUnit"; }
quiet "unit tests"

fail 1
/soak disk "$1" "$2" ${3:+"$3"} || die "soak"
fail 0
quiet "disk"
leaks "disk"

# Files on ext4, while passes merge it, modes change, and a CPU goes offline and online.
device=/sys/block/zmerge0
cpu=/sys/devices/system/cpu/cpu1/online
beside() {
	while [ ! -e /tmp/over ]; do
		for mode in inline request adaptive; do
			echo $mode >$device/merge_mode
			echo 16K >$device/merge_budget
			echo 4000 >$device/merge_rate
			echo 1 >$device/merge 2>/dev/null || true
			sleep 0.2
			! echo 0 >$cpu || offline=$((${offline:-0} + 1))
			echo 2 >/proc/sys/vm/drop_caches
			sleep 0.1
			echo 1 >$cpu
			echo 0 >$device/merge
			echo 0 >$device/merge_rate
			echo 1 >$device/merge 2>/dev/null || true
			sleep 0.2
		done
	done
	echo "beside it: a CPU was taken offline ${offline:-0} times"
}

# verify WHAT OPTION...: fio writes at random, reads what it wrote, and reads everything again at
# the end.
verify() {
	what=$1
	shift
	LD_LIBRARY_PATH=/tmp/fio /tmp/fio/ld-linux-x86-64.so.2 /tmp/fio/fio --name=verify --rw=randwrite --loops=3 \
		--verify_backlog=64 --ioengine=psync --thread --randseed=4711 --verify_fatal=1 --verify_state_save=0 --minimal "$@" >/tmp/fio.log 2>&1 ||
		{ tail -n 5 /tmp/fio.log; die "fio: $what"; }
	awk -F ';' -v what="$what" 'NF > 50 { read += $6; written += $47 }
		END { if (!read || !written) exit 1; print "fio, " what ": " read " KiB read, " written " KiB written" }' \
		/tmp/fio.log || die "fio: $what: did nothing"
}

mkdir -p /tmp/fio
mount -t ext4 -o ro /dev/vda /tmp/fio
echo inline >$device/merge_mode
echo 64M >$device/disksize
zcat /ext4.gz | dd of=/dev/zmerge0 bs=64k conv=fsync 2>/dev/null
mkdir -p /tmp/files
mount -t ext4 -o discard /dev/zmerge0 /tmp/files
beside &
/soak files /tmp/files $(($1 / 100)) || die "files"
rm /tmp/files/[0-3]
verify "ext4, no copies" --directory=/tmp/files --size=6M --numjobs=2 --bs=4k --verify=crc32c
touch /tmp/over
wait
umount /tmp/files
mount -t ext4 /dev/zmerge0 /tmp/files
umount /tmp/files
! dmesg | grep -E 'EXT4-fs.*(error|warning)' || die "ext4"
quiet "ext4"

# The raw disk: with equal pages only, and with no equal pages.
rm /tmp/over
beside &
verify "disk, copies" --filename=/dev/zmerge0 --direct=1 --size=24M --bs=4k --verify=pattern \
	--verify_pattern='"zmerge stores each page once; "'
verify "disk, no copies" --filename=/dev/zmerge0 --direct=1 --size=24M --bs=16k --verify=crc32c
touch /tmp/over
wait
quiet "fio"

# Swap under pressure, with the same in parallel.
while ! echo 1 >$device/reset; do sleep 0.1; done
rm /tmp/over
echo inline >$device/merge_mode
echo 32M >$device/disksize
mkswap /dev/zmerge0 >/dev/null
swapon /dev/zmerge0
echo 5M >/sys/fs/cgroup/pagewise-lab-job/memory.high
beside &
/measure swap /init 1800 25 6 || die "swap"
touch /tmp/over
wait
awk '/^pswp/ { printf "%s %s ", $1, $2 } END { print "" }' /proc/vmstat
echo max >/sys/fs/cgroup/pagewise-lab-job/memory.high
swapoff /dev/zmerge0
quiet "swap"

while ! echo 1 >$device/reset; do sleep 0.1; done
[ "$(tr -s ' ' <$device/mm_stat) $(cat $device/index_bytes)" = " 0 0 0 0 0 0 0 0 0 0" ] || die "a reset leaves $(cat $device/mm_stat)"
rmmod zmerge
leaks "after unloading"
[ ! -e kcsan ] || awk '/^(setup_watchpoints|data_races)/ { print "KCSAN:", $0; some += /^setup/ && $2 } END { exit !some }' kcsan ||
	die "KCSAN watched nothing"
quiet "all"
