#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Run in a guest: measures what an unprivileged user learns about another program's pages by timing
# its own, see guess.c.
#
#   guess.sh PAGES ALGORITHM MODE...      /base holds the pages; MODE: zram, or one of merge_mode's
#
# MODE+merge: with a pass after the write. MODE+cgroup: pages are merged only within a memory
# cgroup, and the two programs are in different ones.
set -eu

pages=$1
algorithm=$2
shift 2
insmod /zmerge.ko

wait_for_stop() {	# PID
	until grep -q '^State:.T' "/proc/$1/status"; do sleep 0.1; done
}

merge() {
	echo 1 >merge
	while [ "$(cat merge)" != 0 ]; do sleep 0.1; done
}

# within GROUP COMMAND...: runs the command in a cgroup of its own, if the mode asks for that.
within() {
	group=/sys/fs/cgroup/$1
	shift
	case $mode in
	*+cgroup*) exec sh -c 'echo $$ >'"$group"'/cgroup.procs; exec "$@"' - "$@" ;;
	*) exec "$@" ;;
	esac
}

set_up() {
	echo 1 >reset
	echo "$algorithm" >comp_algorithm
	case $mode in zram) ;; *) echo "${mode%%+*}" >merge_mode ;; esac
	case $mode in
	*+cgroup*)
		echo +memory >/sys/fs/cgroup/cgroup.subtree_control
		mkdir -p /sys/fs/cgroup/victim /sys/fs/cgroup/probe
		echo cgroup >merge_domain
		;;
	esac
	echo $((pages * 8 * 4096)) >disksize
	mkswap "/dev/$device" >/dev/null
	swapon "/dev/$device"
}

for mode; do
	device=zmerge0
	[ "$mode" != zram ] || device=zram0
	cd "/sys/block/$device"
	set_up
	within victim /guess victim /base "$pages" >/victim.said &
	victim=$!
	wait_for_stop $victim
	within probe /guess probe /base "$pages" >/said &
	probe=$!
	wait_for_stop $probe
	case $mode in *+merge*) merge ;; esac
	merged=
	[ "$mode" = zram ] || merged="merged $(cat merged_pages) hits $(cat merge_hits) misses $(cat merge_misses)"
	kill -CONT $probe
	wait $probe
	kill -CONT $victim
	wait $victim
	echo "$mode $algorithm: $(cat /victim.said); $(grep ^probe /said); $merged"
	grep -v ^probe /said | sed 's/^/  /'
	swapoff "/dev/$device"
done
