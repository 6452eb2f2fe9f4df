#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Run in a guest that counts instructions: instructions per page that zmerge and zram take to write
# and to read it back.
#
#   table.sh PAGES ALGORITHM ROUNDS [MODE...]      /base holds the pages; all modes, and zram, without
set -eu

pages=$1
algorithm=$2
rounds=$3
size=$((pages * 4096))
shift 3
modes=${*:-zram off request adaptive inline}
insmod /zmerge.ko

prepare() {	# DEVICE MODE
	cd "/sys/block/$1"
	echo 1 >reset
	echo "$algorithm" >comp_algorithm
	[ "$2" = zram ] || echo "$2" >merge_mode
	echo $size >disksize
}

one() {	# DEVICE MODE PERCENT
	prepare "$1" "$2"
	written=$(/measure write /base "$pages" "$3" "/dev/$1")
	read=$(/measure read /base "$pages" "$3" "/dev/$1")
	set -- "$1" "$2" "$3" $(cat mm_stat)
	index=0
	[ "$2" = zram ] || index=$(cat index_bytes)
	echo "$2 $3 write $written read $read used $6 index $index stored $5"
}

one zram0 zram 0 >/dev/null
one zmerge0 inline 0 >/dev/null
round=0
while [ $round -lt "$rounds" ]; do
	for percent in 0 25 50; do
		for mode in $modes; do
			device=zmerge0
			[ $mode != zram ] || device=zram0
			one $device $mode $percent
		done
	done
	round=$((round + 1))
done
