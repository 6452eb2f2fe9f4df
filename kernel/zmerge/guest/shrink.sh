#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Run in a guest: checks that the size of the inline index follows the number of its entries.
# Dropping caches, which runs all shrinkers, removes the entries of unshared pages; those of shared
# pages stay, as do all pages. An emptied device has no index. Exits with 1 at the first failure.
set -eu

insmod /zmerge.ko
cd /sys/block/zmerge0

die() {
	echo "not so: $*"
	exit 1
}
used() { echo $(($(cat index_bytes) - idle)); }

# 8,192 different pages; the first 1,024 are written twice.
awk 'BEGIN {
	for (at = 0; at < 511; at++) rest = rest "........"
	for (page = 0; page < 8192; page++) printf "%08d%s", page, rest
}' >/tmp/pages
echo inline >merge_mode
echo 64M >disksize
idle=$(cat index_bytes)
dd if=/tmp/pages of=/dev/zmerge0 bs=64k conv=fsync 2>/dev/null
dd if=/tmp/pages of=/dev/zmerge0 bs=64k count=64 seek=512 conv=fsync 2>/dev/null
[ "$(cat merged_pages)" = 1024 ] || die "$(cat merged_pages) pages merged"
full=$(used)
[ $full -le $((33 * 8192)) ] && [ $full -ge $((16 * 8192)) ] || die "$full bytes for 8,192 entries"
whole=$(md5sum </dev/zmerge0)

for round in $(seq 20); do
	echo 2 >/proc/sys/vm/drop_caches
	[ "$(used)" -gt $((33 * 1024)) ] || break
done
[ "$(used)" -le $((33 * 1024)) ] || die "$(used) of $full bytes are left for 1,024 entries"
echo "index: $full bytes, without entries that nobody shares $(used), in $round rounds"
[ "$(cat merged_pages)" = 1024 ] || die "$(cat merged_pages) pages are merged still"
echo 1 >/proc/sys/vm/drop_caches
[ "$(md5sum </dev/zmerge0)" = "$whole" ] || die "other bytes"
hits=$(cat merge_hits)
dd if=/tmp/pages of=/dev/zmerge0 bs=64k seek=512 count=64 conv=fsync 2>/dev/null
[ $(($(cat merge_hits) - hits)) = 1024 ] || die "copies of shared pages are not found"

blkdiscard /dev/zmerge0
[ "$(used)" = 0 ] || die "an empty device has $(used) bytes of index"
echo 1 >reset
cd /
rmmod zmerge
if dmesg | grep -qE 'WARNING|BUG:|Oops|Call Trace'; then
	dmesg | grep -A 40 -m 1 -E 'WARNING|BUG:|Oops|Call Trace'
	die "the kernel complains"
fi
echo forgotten
