#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Prints the capabilities of zswap in Debian's kernels, tested in guests, as a table for
# docs/guests.md:
#
#   zswap-of-kernels.sh [KERNEL…]    as `--kernel` takes them; without any, both kernels of three suites. PROGRAM is
#                                    the static pagewise to use, else that of `make build`
#
# A compressor or an allocator is usable if zswap, while it is enabled, accepts its name and then
# stores pages: before it is enabled for the first time, zswap accepts any name. The swap behind
# zswap is on a zram device.
set -euo pipefail

cd "$(dirname "$0")/../.."
program=${PROGRAM:-$(xtask/scripts/build-static.sh --where)}
[ $# != 0 ] || set -- bookworm bookworm/generic trixie trixie/generic sid sid/generic

# Prints `name: value` for each row of the table.
probe=$(
	cat <<'SH'
zswap=/sys/module/zswap/parameters
debug=/sys/kernel/debug/zswap
group=/sys/fs/cgroup/probe
counters='zswpin zswpout zswpwb swpin_zero swpout_zero'

# Those of the words that begin a line of the file.
named() { # FILE WORD...
	local file=$1 word found=
	shift
	for word; do
		! grep -q "^$word " "$file" || found="$found $word"
	done
	echo $found
}
there() { [ -e "$1" ] && echo yes || echo no; }

echo "kernel: $(uname -r)"
mkdir $group
echo "/proc/vmstat: $(named /proc/vmstat $counters)"
echo "memory.stat: $(named $group/memory.stat zswap zswapped zswap_incomp $counters)"
echo "memory.zswap.max: $(there $group/memory.zswap.max)"
echo "memory.zswap.writeback: $(there $group/memory.zswap.writeback)"
echo "zswap: $(there $zswap)"
[ -e $zswap ] || exit 0

before=$(there $debug)
echo 1 >$zswap/enabled
case $before$(there $debug) in
yesyes) echo "debugfs zswap: at boot" ;;
noyes) echo "debugfs zswap: once enabled" ;;
*) echo "debugfs zswap: no" ;;
esac
echo "allocator: $(cat $zswap/zpool 2>/dev/null || echo no parameter)"
echo "shrinker_enabled: $(cat $zswap/shrinker_enabled 2>/dev/null || echo absent)"
echo "compressor: $(cat $zswap/compressor)"

echo 256M >/sys/block/zram0/disksize
mkswap /dev/zram0 >/dev/null
swapon /dev/zram0
seq 100000 400000 >/text
zswpout() { sed -n 's/^zswpout //p' /proc/vmstat; }
# Whether zswap accepts the value and then stores pages; no page of numbers is filled with one word.
stores() { # PARAMETER VALUE
	echo "$2" >$zswap/"$1" && [ "$(cat $zswap/"$1")" = "$2" ] || return
	local before
	before=$(zswpout)
	(
		echo 0 >$group/cgroup.procs
		cp /text /tmp/text
		echo 1536K >$group/memory.reclaim
	)
	rm /tmp/text
	[ $(($(zswpout) - before)) -gt 250 ]
} 2>/dev/null
usable() { # PARAMETER VALUE...
	local parameter=$1 value found=
	shift
	for value; do
		! stores "$parameter" "$value" || found="$found $value"
	done
	echo $found
}
echo "usable compressors: $(usable compressor lzo lzo-rle lz4 lz4hc zstd deflate 842)"
[ ! -e $zswap/zpool ] || echo "usable allocators: $(usable zpool zbud z3fold zsmalloc)"
SH
)

rows=(kernel zswap compressor 'usable compressors' allocator 'usable allocators' shrinker_enabled 'debugfs zswap'
	/proc/vmstat memory.stat memory.zswap.max memory.zswap.writeback)
declare -A cells
head='|' line='|---'
for kernel; do
	while IFS= read -r answer; do
		cells[$kernel ${answer%%: *}]=${answer#*: }
	done < <("$program" lab guest --quiet --kernel "$kernel" -- sh -c "$probe")
	[ -n "${cells[$kernel kernel]-}" ] || exit 1
	head+=" | $kernel" line+='|---'
done
printf '%s |\n%s|\n' "$head" "$line"
for row in "${rows[@]}"; do
	text="| $row"
	for kernel; do
		cell=${cells[$kernel $row]-–}
		text+=" | ${cell:-none}"
	done
	echo "$text |"
done
