#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Run in a guest: with `cgroup` in merge_domain, private anonymous pages are merged within a memory
# cgroup and not across two, when they are written and by a pass, and pages that programs may share
# are not merged: of files, and of shared memory. Exits with 1 at the first failure.
set -eu

insmod /zmerge.ko
cd /sys/block/zmerge0
groups=/sys/fs/cgroup
echo +memory >$groups/cgroup.subtree_control
mkdir -p $groups/one $groups/two

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

# write_pages GROUP PLACE HOW: writes 250 incompressible pages.
write_pages() {
	within "$1" dd if=/tmp/random of=/dev/zmerge0 bs=4k seek="$2" $3 2>/dev/null
}

# merged PAGES WHEN
merged() {
	[ "$(cat merged_pages)" = "$1" ] || die "$2: $(cat merged_pages) pages merged, expected $1"
}

head -c 1024000 /dev/urandom >/tmp/random
# Direct writes come from memory of the program itself, the others from the cache of the disk.
for mode in request inline; do
	for domain in device cgroup; do
		for how in oflag=direct conv=fsync; do
			set_up $domain $mode
			write_pages one 0 $how
			write_pages two 1000 $how
			[ $mode = inline ] || merge
			merged $([ $domain = device ] && echo 250 || echo 0) "$mode, $domain, $how, two groups"
			write_pages one 2000 $how
			merge
			case $domain.$how in
			device.*) expected=500 ;;
			*.oflag=direct) expected=250 ;;
			*) expected=0 ;;
			esac
			merged $expected "$mode, $domain, $how, the first group again"
			for place in 0 1000 2000; do
				echo 1 >/proc/sys/vm/drop_caches
				dd if=/dev/zmerge0 bs=4k skip=$place count=250 2>/dev/null | cmp - /tmp/random ||
					die "$mode: other bytes"
			done
		done
	done
done
if echo device 2>/dev/null >merge_domain; then die "the domain changes while there is a size"; fi
echo 1 >reset
[ "$(cat merge_domain)" = '[device] cgroup' ] || die "a reset leaves $(cat merge_domain)"

# As swap: one cgroup holds the 250 pages twice and the other once, each time in a program's own
# memory; and a program of each cgroup has them in memory that can be shared.
set_up cgroup inline
mkswap /dev/zmerge0 >/dev/null
swapon /dev/zmerge0
holders=
for holder in one/anon one/anon two/anon one/shared two/shared; do
	(exec sh -c 'echo $$ >'$groups/${holder%/*}'/cgroup.procs; exec /hold '${holder#*/}' /tmp/random') >/tmp/held &
	holders="$holders $!"
	until grep -q '^State:.T' /proc/$!/status; do sleep 0.1; done
	grep -q 'held 250 of 250' /tmp/held || die "$holder: $(cat /tmp/held)"
done
merged 250 "swap, written"
merge
merged 250 "swap, after a pass"
for pid in $holders; do
	kill -CONT $pid
	wait $pid || die "swap: other bytes"
done
swapoff /dev/zmerge0
echo 1 >reset
cd /
rmmod zmerge
rmdir $groups/one $groups/two
echo separate
