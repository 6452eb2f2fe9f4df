#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The first program of the RISC-V guest. Each line that begins with "ok" or "not ok" is a test; the
# last line contains the number of tests.

busybox mkdir -p /proc /sys /dev /tmp
busybox mount -t proc none /proc
busybox mount -t sysfs none /sys
busybox mount -t devtmpfs none /dev
busybox mount -t tmpfs none /tmp
export HOME=/tmp
good=0
bad=0

tell() { # NAME CONDITION...
	name=$1
	shift
	if "$@"; then
		good=$((good + 1))
		echo "ok $name"
	else
		bad=$((bad + 1))
		echo "not ok $name"
	fi
}

# The value of a reading in a JSON document: value NAME FILE
value() {
	busybox sed -n "/\"$1\": {/,/}/s/.*\"value\": \([0-9]*\).*/\1/p" "$2" | busybox head -n 1
}

between() { # NUMBER LEAST MOST
	[ -n "$1" ] && [ "$1" -ge "$2" ] && [ "$1" -le "$3" ]
}

# TLB misses of 200,000 loads: chased PAGES sets $misses
chased() {
	busybox mkfifo /tmp/go
	chase "$1" </tmp/go &
	chase=$!
	exec 3>/tmp/go
	# until the program has touched its pages
	busybox sleep 3
	pagewise thp --pid "$chase" --page-walks 12s --interval 0s --json --quiet >/tmp/walks.json &
	counting=$!
	busybox sleep 4
	echo go >&3
	wait "$counting"
	exec 3>&-
	busybox kill "$chase"
	busybox rm /tmp/go
	misses=$(value load_misses /tmp/walks.json)
	echo "# $1 pages: ${misses:-no} load misses, $(value store_misses /tmp/walks.json) store misses, $(
		value fetch_misses /tmp/walks.json) fetch misses"
}

# Collapses 12 MB of a shell's memory in small pages. The shell forks nothing after filling it: a
# fork write-protects all pages, and 6.12 refuses to collapse a range without a page written since.
collapsed() {
	echo madvise >/sys/kernel/mm/transparent_hugepage/enabled
	busybox mkfifo /tmp/wait
	busybox sh -c 'text=$(busybox head -c 12000000 /dev/zero | busybox tr "\0" x)
		echo >/tmp/filled
		read -r line </tmp/wait' &
	shell=$!
	for second in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
		[ -e /tmp/filled ] && break
		busybox sleep 1
	done
	pagewise thp collapse --pid "$shell" --quiet --json >/tmp/collapse.json
	busybox grep -E '"(collapsed|huge_before|huge_after|anon_after)":' /tmp/collapse.json | busybox sed 's/^/#/'
	pieces=$(busybox sed -n 's/^  "collapsed": \([0-9]*\).*/\1/p' /tmp/collapse.json)
	busybox kill "$shell"
}

pagewise --version
pagewise report --no-color >/tmp/report.txt 2>&1
tell "report" busybox grep -q "Memory is not short" /tmp/report.txt
pagewise doctor --quiet --json >/tmp/doctor.json
tell "doctor" busybox grep -q '"schema"' /tmp/doctor.json

chased 16384
tell "each load of another page is a miss" between "$misses" 190000 300000
chased 1
tell "loads of one page are not" between "$misses" 0 40000

collapsed
tell "memory is collapsed from outside" between "$pieces" 3 12

echo "riscv64: $good passed, $bad failed"
busybox poweroff -f
