#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Run in a guest with several CPUs: measures what threads that use one device at once cost, on zram
# and on zmerge; see load.c.
#
#   contend.sh ticks|waits PAGES ALGORITHM PERCENT MODE...    /base holds the pages; MODE: zram, or one of merge_mode's
#
# The device has PAGES slots. With 1, 2, 4, ... CPUs online, one thread on each: PAGES writes,
# reads, and both. CPUS=4 in the environment starts with 4.
#
# "ticks" measures ticks and context switches for each page. "waits" counts the waits for locks and
# their callers, which itself takes time:
#
#	spin	calls of native_queued_spin_lock_slowpath(), which spinlocks call if they are not free
#	sleep	the event lock:contention_begin without spinlocks: mutexes, rwsems and the like
#	bit	calls of out_of_line_wait_on_bit_lock() and of init_wait_var_entry(): locks of a slot that sleep, zram's on
#		7.2 and zmerge's
#
# A bit lock that spins (zram's on 6.1 and 6.12) has neither an event nor a function of its own:
# waits for it show only in the ticks.
set -eu

what=$1
pages=$2
algorithm=$3
percent=$4
shift 4
insmod /zmerge.ko
trace=/sys/kernel/tracing
events="kprobes/spin lock/contention_begin kprobes/bit kprobes/var"

set_up_events() {
	[ -e $trace/events ] || mount -t tracefs none $trace
	echo 'p:kprobes/spin native_queued_spin_lock_slowpath' >$trace/kprobe_events
	echo 'p:kprobes/bit out_of_line_wait_on_bit_lock' >>$trace/kprobe_events
	echo 'p:kprobes/var init_wait_var_entry' >>$trace/kprobe_events
}

count_waits() {	# TRIGGER, with ! at its begin to end counting
	for event in $events; do
		case $event in lock/*) filter=' if flags != 1' ;; *) filter= ;; esac
		echo "$1$filter" >$trace/events/$event/trigger
	done
}

# Functions of locks, of waiting and of tracing are skipped in a stack: the first other function is
# the one that waits.
own='^(native_queued|_raw_|trace_|event_|kprobe|kretprobe|ftrace|__traceiter|__mutex|mutex|__down|down_|up_|rwsem)'
own="$own|^(out_of_line|percpu|__percpu|init_wait|opt|aggr|__ww|rt_|__rt|rtlock|asm_|exc_|do_int3|notif|atomic_notif|0x)"

# From a histogram of stacks: the sum, and the number for each waiting function.
told() {	# EVENT
	awk -v own="$own" '
		/^[{]/ { caller = ""; next }
		/^[}]/ { sum += $NF; calls[caller] += $NF; next }
		caller != "" || $1 ~ own { next }
		{ caller = $1; sub(/\+.*/, "", caller) }
		END { printf "%d", sum; for (caller in calls) printf " %s=%d", caller, calls[caller] }
	' $trace/events/$1/hist
}

tell_waits() {
	echo "  spin $(told kprobes/spin); sleep $(told lock/contention_begin); bit $(told kprobes/bit), $(told kprobes/var)"
}

online() {	# COUNT
	for cpu in /sys/devices/system/cpu/cpu[1-9]*; do
		[ -e "$cpu/online" ] || continue
		[ "${cpu##*cpu}" -lt "$1" ] && want=1 || want=0
		[ "$(cat $cpu/online)" = $want ] || echo $want >$cpu/online
	done
}

prepare() {	# DEVICE MODE
	cd "/sys/block/$1"
	echo 1 >reset
	echo "$algorithm" >comp_algorithm
	[ "$2" = zram ] || echo "$2" >merge_mode
	echo $((pages * 4096)) >disksize
}

load() {	# OPERATION
	/load "$1" /base "/dev/$device" "$pages" $cpus "$pages" "$percent"
}

[ "$what" = ticks ] || set_up_events
all=$(grep -c ^processor /proc/cpuinfo)
cpus=${CPUS:-1}
while [ $cpus -le "$all" ]; do
	online $cpus
	for mode; do
		device=zmerge0
		[ "$mode" != zram ] || device=zram0
		prepare $device "$mode"
		load fill >/dev/null
		for operation in write read both; do
			[ "$what" = ticks ] || count_waits 'hist:keys=stacktrace'
			echo "$mode $(load $operation)"
			[ "$what" = ticks ] || tell_waits
			[ "$what" = ticks ] || count_waits '!hist:keys=stacktrace'
		done
	done
	cpus=$((cpus * 2))
done
dmesg | grep -E "BUG:|WARNING:|Oops|stall" | tail -5 || true
