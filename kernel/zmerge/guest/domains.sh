#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Run in a guest: with `cgroup` in merge_domain, pages are merged within a memory cgroup and not
# across two, as a disk and as swap, when they are written and by a pass. Exits with 1 at the first
# failure.
set -eu

insmod /zmerge.ko
cd /sys/block/zmerge0
groups=/sys/fs/cgroup
echo +memory >$groups/cgroup.subtree_control
mkdir -p $groups/one $groups/two /tmp/files
mount -t tmpfs none /tmp/files

die() {
	echo "not so: $*"
	exit 1
}

merge() {
	echo 1 >merge
	while [ "$(cat merge)" != 0 ]; do sleep 0.1; done
}

[ "$(cat merge_domain)" = '[device] cgroup' ] || die "at first: $(cat merge_domain)"
for junk in x '' 1 cgroups; do
	if echo $junk 2>/dev/null >merge_domain; then die "merge_domain takes '$junk'"; fi
done

# set_up DOMAIN MODE
set_up() {
	[ "$(cat initstate)" = 0 ] || echo 1 >reset
	echo "$1" >merge_domain
	echo "$2" >merge_mode
	echo 32M >disksize
}

# within GROUP COMMAND...
within() {
	group=$1
	shift
	sh -c 'echo $$ >'$groups/"$group"'/cgroup.procs; exec "$@"' - "$@"
}

# write_pages GROUP PLACE: writes 250 incompressible pages.
write_pages() {
	within "$1" dd if=/tmp/random of=/dev/zmerge0 bs=4k seek="$2" conv=fsync 2>/dev/null
}

# merged PAGES WHEN
merged() {
	[ "$(cat merged_pages)" = "$1" ] || die "$2: $(cat merged_pages) pages merged, expected $1"
}

head -c 1024000 /dev/urandom >/tmp/random
for mode in request inline; do
	for domain in device cgroup; do
		set_up $domain $mode
		write_pages one 0
		write_pages two 1000
		[ $mode = inline ] || merge
		merged $([ $domain = device ] && echo 250 || echo 0) "$mode, $domain, two groups"
		write_pages one 2000
		merge
		merged $([ $domain = device ] && echo 500 || echo 250) "$mode, $domain, the first group again"
		for place in 0 1000 2000; do
			echo 1 >/proc/sys/vm/drop_caches
			dd if=/dev/zmerge0 bs=4k skip=$place count=250 2>/dev/null | cmp - /tmp/random || die "$mode: other bytes"
		done
	done
done
if echo device 2>/dev/null >merge_domain; then die "the domain changes while there is a size"; fi
echo 1 >reset
[ "$(cat merge_domain)" = '[device] cgroup' ] || die "a reset leaves $(cat merge_domain)"

# As swap: each cgroup has the same 250 pages in memory, and one of them has each page twice.
set_up cgroup inline
mkswap /dev/zmerge0 >/dev/null
before=$(awk '{ print $1 }' mm_stat)
swapon /dev/zmerge0
for copy in one/1 one/2 two/1; do
	within ${copy%/*} dd if=/tmp/random of=/tmp/files/${copy#*/}.${copy%/*} bs=64k 2>/dev/null
done
sync
# Pages that are not swapped out at once are swapped out later.
swapped() { echo $((($(awk '{ print $1 }' mm_stat) - before) / 4096)); }
for turn in $(seq 100); do
	for group in one two; do
		echo 4M >$groups/$group/memory.reclaim 2>/dev/null || true
	done
	[ "$(swapped)" -lt 750 ] || break
done
[ "$(swapped)" -ge 750 ] || die "only $(swapped) pages are in swap"
merged 250 "swap, in two groups"
for copy in 1.one 2.one 1.two; do
	cmp /tmp/random /tmp/files/$copy || die "swap: other bytes"
done
rm /tmp/files/*
swapoff /dev/zmerge0
umount /tmp/files
echo 1 >reset
cd /
rmmod zmerge
rmdir $groups/one $groups/two
echo separate
