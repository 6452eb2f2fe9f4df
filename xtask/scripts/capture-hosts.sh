#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Records this machine in six memory states below fixtures/hosts, for the tests:
#
#   capture-hosts.sh SLUG [STATE]     SLUG names the machine, as debian12-6.18-x86_64-24g; PROGRAM is the
#                                     pagewise to use, else the static one of `make build`
#
# With the STATE oom-limit it records only a seventh state: a test process was killed at the limit
# of a cgroup.
#
# Needs root. Temporarily uses a zram device, a memory cgroup (v1) and a swap file, and changes the
# THP policy; all of this is undone at the end, also if it is interrupted.
set -euo pipefail

cd "$(dirname "$0")/../.."
slug=${1:?name the machine, as debian12-6.18-x86_64-24g}
hosts=fixtures/hosts
group=/sys/fs/cgroup/memory/pagewise-capture
swap_file=target/capture-swapfile
thp=/sys/kernel/mm/transparent_hugepage/enabled
text=target/capture-text
state=${2-all}
zram=
holder=

program=${PROGRAM:-$(xtask/scripts/build-static.sh --where)}

# Writes a folder instead of the archive; at the end all folders become archives.
capture() {
	rm -rf "${hosts:?}/$slug-$1" "$hosts/$slug-$1.tar"
	"$program" capture --quiet --interval 2s --folder "$hosts/$slug-$1"
}

# Runs a command in the cgroup, limited to LIMIT, until it is released.
hold() {
	local limit=$1
	shift
	mkdir -p "$group"
	echo "$limit" >"$group/memory.limit_in_bytes"
	sh -c 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"' hold "$group" "$@" <&0 >/dev/null &
	holder=$!
	sleep 4
}

# Holds three times as much text as the limit allows.
hold_too_much() {
	hold 64M tail -c 192M < <(head -c 192M "$text" && exec sleep 30)
}

let_go() {
	[ -z "$holder" ] || kill "$holder" 2>/dev/null || true
	wait "$holder" 2>/dev/null || true
	holder=
}

remove_zram() {
	[ -n "$zram" ] || return 0
	swapoff "/dev/zram$zram" 2>/dev/null || true
	echo 1 >"/sys/block/zram$zram/reset"
	echo "$zram" >/sys/class/zram-control/hot_remove
	zram=
}

give_back() {
	let_go
	swapoff "$swap_file" 2>/dev/null || true
	remove_zram
	rm -f "$swap_file" "$text"
	echo "$policy" >"$thp"
	sleep 1
	[ ! -d "$group" ] || rmdir "$group"
}
policy=$(sed 's/.*\[\(.*\)\].*/\1/' "$thp")
trap give_back EXIT

# A process is killed at the limit of our cgroup, in which another one continues to run.
capture_kill() {
	local log
	hold 64M sleep 60
	sh -c 'echo $$ >"$1/cgroup.procs"; exec tail /dev/zero' kill "$group" || true
	sleep 1
	capture oom-limit
	let_go
	# the log also contains earlier kills of others: cut it so that it begins with our report
	log=$hosts/$slug-oom-limit/end/dev/kmsg
	awk '/invoked oom-killer/ { kept = "" } { kept = kept $0 "\n" } END { printf "%s", kept }' "$log" >"$text"
	cp "$text" "$log"
}

if [ "$state" = oom-limit ]; then
	capture_kill
	cargo xtask fixture pack
	exit
fi

# text with the compressibility of ordinary text: numbers in words, 320 MiB of it
head -c 320M < <(seq -f 'line %.0f of a text that a program may hold in memory' 1 20000000) >"$text" || true

capture plain

zram=$(cat /sys/class/zram-control/hot_add)
echo 512M >"/sys/block/zram$zram/disksize"
mkswap "/dev/zram$zram" >/dev/null
swapon --priority 100 "/dev/zram$zram"
capture zram-swap
hold_too_much
capture zram-swap-used
let_go
swapoff "/dev/zram$zram"

dd if=/dev/zero of="$swap_file" bs=1M count=512 status=none
chmod 600 "$swap_file"
mkswap "$swap_file" >/dev/null
mkswap "/dev/zram$zram" >/dev/null
swapon --priority 50 "$swap_file"
swapon --priority 5 "/dev/zram$zram"
capture zram-behind-file
hold_too_much
capture zram-behind-file-used
let_go
swapoff "$swap_file"
remove_zram

echo always >"$thp"
hold 1G dd if=/dev/zero of=/dev/null bs=256M count=1000 status=none
capture thp

cargo xtask fixture pack
