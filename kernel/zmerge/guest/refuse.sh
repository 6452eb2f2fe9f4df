#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Run in a guest: checks that a device refuses invalid values with the right error and one line in
# the log each, and that its contents stay. Prints "refused N" and "wrong N"; exits with 1 if
# anything was wrong.
set -u

wrong=0
refused=0
if insmod /zmerge.ko num_devices=257 2>/dev/null; then
	echo "wrong: 257 devices are made at once"
	wrong=$((wrong + 1))
	rmmod zmerge
fi
insmod /zmerge.ko || exit 1
cd /sys/block/zmerge0 || exit 1

lines() { dmesg | wc -l; }

# refuse FILE VALUE ERROR: writing VALUE must fail with ERROR, and add one line to the log.
refuse() {
	before=$(lines)
	said=$(printf '%s' "$2" | dd of="$1" bs=4k 2>&1)
	status=$?
	set -- "$1" "$(printf '%.20s' "$2")" "$3"
	new=$(($(lines) - before))
	case "$status $said" in
	0*) echo "wrong: $1 took '$2'"; wrong=$((wrong + 1)) ;;
	*"$3"*)
		refused=$((refused + 1))
		[ $new = 1 ] || { echo "wrong: $1 '$2': $new lines in the log"; wrong=$((wrong + 1)); } ;;
	*) echo "wrong: $1 '$2': expected $3, found $said"; wrong=$((wrong + 1)) ;;
	esac
}

check() {	# WHAT CONDITION...
	what=$1
	shift
	"$@" || { echo "wrong: $what"; wrong=$((wrong + 1)); }
}

invalid='nvalid argument'
busy='busy'
long=$(head -c 3000 /dev/zero | tr '\0' x)
for junk in ' ' x -1 1x "$long" "$(printf '\377\001')"; do
	for file in disksize reset comp_algorithm merge_mode merge merge_budget merge_rate mem_limit mem_used_max; do
		refuse $file "$junk" "$invalid"
	done
done
refuse disksize 0 "$invalid"
refuse disksize 15E emory
refuse disksize 900G emory
for wraps in 16E 17179869184G 18446744073709551616; do
	refuse disksize $wraps "$invalid"
	refuse mem_limit $wraps "$invalid"
done
refuse reset 0 "$invalid"
refuse comp_algorithm nothing "$invalid"
refuse algorithm_params level=x "$invalid"
refuse algorithm_params algo=nothing "$invalid"
refuse algorithm_params 'level=-5' 'out of range'
refuse algorithm_params level "$invalid"
refuse mem_used_max 5 "$invalid"
for budget in 0 16383 1025M 16E; do
	refuse merge_budget $budget "$invalid"
done
refuse merge_rate 2147483648 "$invalid"
refuse compact 1 "$invalid"
refuse merge 1 "$invalid"

echo 10000001 >disksize
check "an odd size is rounded up to a page" [ "$(cat disksize)" = 10002432 ]
refuse disksize 1M "$busy"
refuse comp_algorithm lzo "$busy"
refuse algorithm_params level=2 "$busy"
echo off >merge_mode
refuse merge 1 upported
echo request >merge_mode

head -c 1000000 /dev/urandom >/tmp/data
cat /tmp/data >/dev/zmerge0
exec 3<>/dev/zmerge0
refuse reset 1 "$busy"
refuse /sys/class/zmerge-control/hot_remove 0 "$busy"
check "an open device keeps the module" eval '! rmmod zmerge 2>/dev/null'
exec 3>&-
check "nothing is lost" cmp -n 1000000 /tmp/data /dev/zmerge0
for junk in x -1 1048576 99999999999; do
	refuse /sys/class/zmerge-control/hot_add "$junk" "$invalid"
	refuse /sys/class/zmerge-control/hot_remove "$junk" "$invalid"
done
refuse /sys/class/zmerge-control/hot_remove 77 'o such device'
refuse /sys/class/zmerge-control/hot_add 0 'xists'
check "the free number is told" [ "$(cat /sys/class/zmerge-control/hot_add)" = 1 ]
check "telling adds nothing" [ ! -e /sys/block/zmerge1 ]
echo 5 >/sys/class/zmerge-control/hot_add
check "a device is added" [ -e /sys/block/zmerge5 ]
echo 5 >/sys/class/zmerge-control/hot_remove
check "a device is removed" [ ! -e /sys/block/zmerge5 ]

echo 1 >reset
echo 64M >disksize
mkswap /dev/zmerge0 >/dev/null
swapon /dev/zmerge0
refuse reset 1 "$busy"
refuse /sys/class/zmerge-control/hot_remove 0 "$busy"
swapoff /dev/zmerge0
echo 1M >mem_limit
check "a full device says so" eval '! dd if=/dev/urandom of=/dev/zmerge0 bs=64k count=64 conv=fsync 2>/dev/null'
check "and keeps to its limit" [ "$(awk '{ print $5 }' mm_stat)" -le $((1048576 + 65536)) ]
echo 1 >reset
check "a reset leaves nothing" [ "$(cat mm_stat | tr -s ' ')" = " 0 0 0 0 0 0 0 0 0" ]
cd /
check "the module can be unloaded" rmmod zmerge
check "no warning of the kernel" eval '! dmesg | grep -qE "WARNING|BUG:|Oops|Call Trace"'
echo "refused $refused"
echo "wrong $wrong"
[ $wrong = 0 ]
