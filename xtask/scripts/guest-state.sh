#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Runs in a guest: brings its memory into a state and records it into /out.
#
#   guest-state.sh STATE     one of the functions below that are named state_…, with - for _
#
# Nothing is undone, because the guest ends afterwards. busybox provides all the programs.
set -eu

thp=/sys/kernel/mm/transparent_hugepage
lru_gen=/sys/kernel/mm/lru_gen/enabled

# Long enough for the averages over ten seconds to show the load, and for counters to change.
capture() {
	sleep 12
	pagewise capture --quiet --interval 3s --folder /out
}

# Creates a service's cgroup, as systemd would, limited to LIMIT.
service() {
	local slice=/sys/fs/cgroup/system.slice
	mkdir -p "$slice/$1"
	echo +memory >"$slice/cgroup.subtree_control"
	echo "$2" >"$slice/$1/memory.max"
}

# Runs a command in the service's cgroup until the guest ends.
in_service() {
	local group=/sys/fs/cgroup/system.slice/$1
	shift
	sh -c 'echo 0 >"$1/cgroup.procs"; shift; exec "$@"' run "$group" "$@" >/dev/null 2>&1 &
}

# Starts a program that holds this much memory; returns when it has all of it.
hold() {
	rm -f /tmp/held
	/hold "$@" </dev/null >/tmp/held &
	until [ -s /tmp/held ]; do sleep 1; done
}

# Makes zram N with SIZE a swap tier with PRIORITY, compressed by ALGORITHM.
zram_swap() {
	[ -e "/sys/block/zram$1" ] || cat /sys/class/zram-control/hot_add >/dev/null
	echo "$4" >"/sys/block/zram$1/comp_algorithm"
	echo "$2" >"/sys/block/zram$1/disksize"
	mkswap "/dev/zram$1" >/dev/null
	/sbin/swapon -p "$3" "/dev/zram$1"
}

# A service uses more memory than its limit, and zram stores the rest.
state_zram_pressure() {
	zram_swap 0 256M 100 lz4
	service app.service 64M
	in_service app.service /hold 160 text busy
	capture
}

# The same without MGLRU, on a kernel that enables it by default.
state_zram_pressure_no_mglru() {
	echo n >$lru_gen
	state_zram_pressure
}

# The disk is filled first, zram gets the rest; with MGLRU, whatever the kernel's default is.
state_zram_behind_disk() {
	echo y >$lru_gen
	mkswap /dev/vda >/dev/null
	/sbin/swapon -p 50 /dev/vda
	zram_swap 0 256M 5 zstd
	service app.service 48M
	in_service app.service /hold 160 text busy
	capture
}

# The zram device is larger than memory, its memory is limited, and its pages are incompressible.
state_zram_full() {
	zram_swap 0 2G 100 lz4
	echo 100M >/sys/block/zram0/mem_limit
	service app.service 32M
	in_service app.service /hold 128 random busy
	capture
}

# zswap in front of zram.
state_zswap_zram() {
	zram_swap 0 256M 100 lz4
	echo 5 >/sys/module/zswap/parameters/max_pool_percent
	echo Y >/sys/module/zswap/parameters/enabled
	service app.service 64M
	in_service app.service /hold 192 text busy
	capture
}

# No swap, a service whose limit is little more than its data, and its program file on a disk.
state_swap_off() {
	mke2fs -b 4096 /dev/vda >/dev/null
	mkdir -p /srv
	mount -t ext2 /dev/vda /srv
	cp /init /srv/program
	sync
	echo 3 >/proc/sys/vm/drop_caches
	dd if=/dev/zero of=/dev/shm/shared bs=1M count=64 2>/dev/null
	service app.service 40M
	in_service app.service /hold 36 text still
	in_service app.service sh -c 'while :; do /srv/program status; done'
	in_service app.service sh -c 'while :; do /srv/program status; done'
	capture
}

# A service whose code and data are slightly above its limit, with most of the data unused, and with
# swap, of which multi-gen LRU uses nothing, because it never ages the pages of the cgroup.
state_mglru_cgroup() {
	echo y >$lru_gen
	mke2fs -b 4096 /dev/vda >/dev/null
	mkdir -p /srv
	mount -t ext2 /dev/vda /srv
	export TMPDIR=/srv
	zram_swap 0 128M 100 lz4
	service app.service 48M
	in_service app.service pagewise lab workload swap data=40M code=12M window=4M iterations=1000000
	capture
}

# A process that may have huge pages, whose memory was filled while they were disabled; one that got
# huge pages; a khugepaged that could help but gets no CPU time; and reserved but unused hugetlb
# pages.
state_thp() {
	mkfifo /tmp/go
	echo always >$thp/enabled
	/hold 300 text still </tmp/go >/tmp/filled &
	exec 3>/tmp/go
	sleep 1
	echo never >$thp/enabled
	exec 3>&-
	until [ -s /tmp/filled ]; do sleep 1; done
	echo always >$thp/enabled
	hold 128 text still
	echo 40 >/proc/sys/vm/nr_hugepages
	hold 8 text busy
	hold 8 text busy
	echo 100 >$thp/khugepaged/scan_sleep_millisecs
	capture
}

# Starts a program under a well-known name, because a recording keeps such names.
as() {
	ln -sf /hold "/tmp/$1"
}

# Waits until the kernel has killed for lack of memory or found no killable process, then records.
capture_kill() {
	tries=0
	until dmesg | grep -q -e 'Killed process' -e 'no killable processes'; do
		tries=$((tries + 1))
		[ $tries -lt 60 ] || exit 1
		sleep 1
	done
	sleep 2
	pagewise capture --quiet --interval 1s --folder /out
}

# A service that may use one of two NUMA nodes fills it, while the other one has free memory.
state_oom_cpuset() {
	local slice=/sys/fs/cgroup/system.slice
	as redis-server
	service redis.service max
	echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control
	echo +cpuset >$slice/cgroup.subtree_control
	echo 1 >$slice/redis.service/cpuset.mems
	in_service redis.service /tmp/redis-server 300 random still
	capture_kill
}

# The same with a NUMA policy of the process.
state_oom_policy() {
	as redis-server
	service redis.service max
	in_service redis.service /usr/bin/numactl --membind=1 /tmp/redis-server 300 random still
	capture_kill
}

# A program uses all memory, there is no swap, and part of memory is files in tmpfs.
state_oom_host() {
	as redis-server
	dd if=/dev/zero of=/dev/shm/shared bs=1M count=32 2>/dev/null
	service redis.service max
	in_service redis.service /tmp/redis-server 200 random still
	capture_kill
}

# A service exceeds its limit and is barred from swapping, although zram has room.
state_oom_limit() {
	as nginx
	as php-fpm
	zram_swap 0 128M 100 lz4
	service nginx.service 64M
	echo 0 >/sys/fs/cgroup/system.slice/nginx.service/memory.swap.max
	in_service nginx.service /tmp/php-fpm 8 text still
	sleep 2
	in_service nginx.service /tmp/nginx 100 text still
	capture_kill
}

# A service whose processes are killed together (memory.oom.group).
state_oom_group() {
	as postgres
	service postgres.service 64M
	echo 1 >/sys/fs/cgroup/system.slice/postgres.service/memory.oom.group
	in_service postgres.service sleep 1000
	in_service postgres.service /tmp/postgres 8 text still
	sleep 2
	in_service postgres.service /tmp/postgres 100 text still
	capture_kill
}

# Incompressible data fills memory and zram.
state_oom_zram_full() {
	as java
	zram_swap 0 64M 100 lz4
	service java.service max
	in_service java.service /tmp/java 200 random still
	capture_kill
}

# The only process in a cgroup exceeds the limit and is protected from the OOM killer.
state_oom_unkillable() {
	as mysqld
	service mysqld.service 24M
	in_service mysqld.service sh -c 'echo -1000 >/proc/self/oom_score_adj; exec /tmp/mysqld 64 text still'
	until dmesg | grep -q 'no killable processes'; do sleep 1; done
	sleep 1
	# otherwise it would keep reporting, and the guest would do little else
	kill -9 "$(cat /sys/fs/cgroup/system.slice/mysqld.service/cgroup.procs)"
	capture_kill
}

# A process whose page tables use as much memory as its data: one page in each 2 MiB.
state_page_tables() {
	echo never >$thp/enabled
	echo 1 >/proc/sys/vm/overcommit_memory
	hold 40960 sparse still
	capture
}

# Empty files in a tmpfs: each uses an inode and a directory entry, which cannot be reclaimed.
state_kernel_slab() {
	mkdir /queue
	mount -t tmpfs -o size=1m,nr_inodes=0 queue /queue
	cd /queue
	seq 1 100000 | xargs touch
	cd /
	capture
}

# Strict overcommit accounting, and a process that allocated nearly the whole commit limit;
# recording needs a little.
state_commit_limit() {
	local limit committed
	echo 100 >/proc/sys/vm/overcommit_ratio
	echo 2 >/proc/sys/vm/overcommit_memory
	limit=$(sed -n 's/^CommitLimit: *\([0-9]*\).*/\1/p' /proc/meminfo)
	committed=$(sed -n 's/^Committed_AS: *\([0-9]*\).*/\1/p' /proc/meminfo)
	mkfifo /tmp/never
	/hold $(((limit - committed) / 1024 - 90)) text still <>/tmp/never &
	capture
}

# Files in a tmpfs fill memory, and there is no swap.
state_tmpfs_full() {
	dd if=/dev/urandom of=/dev/shm/upload bs=1M count=230 2>/dev/null
	hold 140 text still
	capture
}

# A file in a separate tmpfs was deleted while a process has it open, and there is no swap.
state_deleted_file() {
	mkdir /spool
	mount -t tmpfs -o size=300m spool /spool
	dd if=/dev/urandom of=/spool/queue bs=1M count=230 2>/dev/null
	as rsyslogd
	sh -c 'exec 7</spool/queue; exec /tmp/rsyslogd 140 text still' </dev/null >/tmp/held &
	until [ -s /tmp/held ]; do sleep 1; done
	rm /spool/queue
	capture
}

# A systemd service whose memory is mergeable but has no duplicates, scanned several times by KSM.
state_ksm_loss() {
	local ksm=/sys/kernel/mm/ksm
	echo 5000 >$ksm/pages_to_scan
	echo 1 >$ksm/run
	systemd-run --quiet --unit=app --property=MemoryKSM=yes /hold 200 random still
	until [ "$(cat $ksm/full_scans)" -ge 3 ]; do sleep 1; done
	capture
}

# Two files for one setting, another value that was set by hand, one that no file sets, and
# parameters that zram-generator loses.
state_settings() {
	echo 'vm.swappiness = 10' >/etc/sysctl.d/50-old.conf
	echo 'vm.swappiness = 180' >/etc/sysctl.d/90-zram.conf
	/usr/lib/systemd/systemd-sysctl
	echo 60 >/proc/sys/vm/swappiness
	echo 40 >/proc/sys/vm/dirty_ratio
	cat >/etc/systemd/zram-generator.conf <<-CONF
		[zram0]
		zram-size = ram / 2
		compression-algorithm = lzo-rle zstd(level=9)
	CONF
	systemctl daemon-reload
	systemctl start dev-zram0.swap
	capture
}

"state_$(echo "$1" | tr - _)"
