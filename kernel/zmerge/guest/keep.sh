#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Run in a guest: checks that pages are read back as written, as a disk and as swap, in every mode
# and during passes, and that exactly the duplicate pages are merged. Exits with 1 at the first
# failure. ALGORITHMS in the environment: test only these; SWAP=no: only as a disk.
set -eu

insmod /zmerge.ko
cd /sys/block/zmerge0

die() {
	echo "not so: $*"
	dmesg | tail -n 5
	exit 1
}

# compare FILE: the first bytes of the device, read from the device itself, equal FILE.
compare() {
	echo 1 >/proc/sys/vm/drop_caches
	cmp -n "$(stat -c %s "$1")" "$1" /dev/zmerge0 || die "$2: other bytes"
}

merge() {
	echo 1 >merge
	while [ "$(cat merge)" != 0 ]; do sleep 0.1; done
}

# Of 1,500 pages 500 are duplicates; 250 random ones among those are incompressible.
head -c 1024000 /dev/urandom >/tmp/random
head -c 3072000 /init >/tmp/program
cat /tmp/random /tmp/program /tmp/random >/tmp/twice
cat /tmp/twice >/tmp/data
head -c 1024000 /tmp/program >>/tmp/data
copies=500

for algorithm in ${ALGORITHMS:-$(tr -d '[]' <comp_algorithm)}; do
	for mode in request inline adaptive; do
		echo 1 >reset
		echo "$algorithm" >comp_algorithm
		echo $mode >merge_mode
		echo 32M >disksize
		dd if=/tmp/data of=/dev/zmerge0 bs=64k conv=fsync 2>/dev/null
		compare /tmp/data "$algorithm $mode, written"
		set -- $(cat mm_stat)
		[ "$(cat merged_pages)" = $([ $mode = request ] && echo 0 || echo $copies) ] ||
			[ $mode = adaptive ] || die "$algorithm $mode: $(cat merged_pages) merged inline"
		stored=$2
		merge
		compare /tmp/data "$algorithm $mode, merged"
		[ "$(cat merged_pages)" = $copies ] || die "$algorithm $mode: $(cat merged_pages) merged"
		set -- $(cat mm_stat)
		[ "$(($2 + $(cat merged_bytes)))" -ge "$stored" ] || die "$algorithm $mode: sums"
		# Writes every second page again, over shared ones.
		dd if=/tmp/random of=/dev/zmerge0 bs=4k seek=1 count=200 conv=fsync 2>/dev/null
		dd if=/tmp/data of=/dev/zmerge0 bs=4k conv=fsync 2>/dev/null
		compare /tmp/data "$algorithm $mode, again"
	done
done
before=$(awk '{ print $4 }' io_stat)
blkdiscard /dev/zmerge0 || die "blkdiscard"
discarded=$(($(awk '{ print $4 }' io_stat) - before))
[ $discarded = 8192 ] || die "$discarded of 8,192 discarded pages counted"
set -- $(cat mm_stat)
[ "$2 $(cat merged_pages) $(cat merged_bytes)" = "0 0 0" ] || die "emptied: $*, $(cat merged_pages) merged"

end() {
	echo 1 >reset
	[ "$(tr -s ' ' <mm_stat) $(cat index_bytes)" = " 0 0 0 0 0 0 0 0 0 0" ] || die "a reset leaves $(cat mm_stat)"
	cd /
	rmmod zmerge
	if dmesg | grep -qE 'WARNING|BUG:|Oops|Call Trace'; then
		dmesg | grep -B 8 -A 40 -m 1 -E 'WARNING|BUG:|Oops|Call Trace'
		die "the kernel complains"
	fi
	echo kept
	exit
}
[ "${SWAP-yes}" = yes ] || end

# As swap: files in tmpfs, with many equal pages, larger than memory. Their size is fixed, whatever
# the size of /init: with copies of 8.35 MB sid's kernel killed a process for lack of memory in one
# run on a busy host, and logged a failed allocation in another, for an unknown reason.
program() {
	head -c 6000000 /init
}
echo 1 >reset
echo inline >merge_mode
echo 512M >disksize
mkswap /dev/zmerge0 >/dev/null
swapon /dev/zmerge0
mkdir -p /tmp/many
mount -t tmpfs -o size=400m none /tmp/many
for n in $(seq 36); do
	program >"/tmp/many/$n"
	[ $((n % 12)) != 0 ] || echo 1 >merge
done
sum=$(program | md5sum)
for n in $(seq 36); do
	[ "$(md5sum <"/tmp/many/$n")" = "$sum" ] || die "swap: file $n has other bytes"
done
hits=$(cat merge_hits)
[ "$(cat merge_hits)" -gt 1000 ] || die "swap: $hits hits"
set -- $(cat mm_stat)
echo "swap: $hits hits, $(cat merge_misses) misses, $(cat merged_pages) pages merged, $3 bytes used"
# Slots that swap frees are cleared at once. When the files are removed, the device frees as many
# slots as the kernel gives back (which keeps a few per CPU back for a while). After that it stores
# the slots in use (files of the guest's root are also swapped out), and nothing else. How many
# pages of the files were in swap varies between runs and suites.
slots() {
	awk '$1 == "/dev/zmerge0" { print $4 / 4 }' /proc/swaps
}
freed=$(awk '{ print $4 }' io_stat)
pages=$(($1 / 4096)) memory=$3 used=$(slots)
umount /tmp/many
# A 32-bit guest has more free memory for those files, so fewer of their pages are swapped out.
case $(uname -m) in *64*) least=5000 ;; *) least=2000 ;; esac
freed=$(($(awk '{ print $4 }' io_stat) - freed))
given_back=$((used - $(slots)))
used=$(slots)
set -- $(cat mm_stat)
[ $given_back -gt $least ] && [ $((freed + 256)) -ge $given_back ] && [ $((freed + used + 256)) -ge "$pages" ] &&
	[ $(($1 / 4096)) -le $((used + 256)) ] ||
	die "of $pages pages $freed were freed ($given_back given back), $used are in use, and $(($1 / 4096)) are stored"
echo "files gone: $given_back slots given back, $freed freed, $used in use"
[ "$3" -lt "$memory" ] || die "the memory of freed slots is not back: $memory bytes before, $3 after"
swapoff /dev/zmerge0
end
