#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Run in a guest: writes a page that is stored already, and one that is not, and checks that users
# other than root read the same values of the device in both cases. Not compared is `stat`, the time
# that I/O took: README.md, "What it leaks".
set -eu

insmod /zmerge.ko
cd /sys/block/zmerge0
grep -q ^nobody: /etc/passwd 2>/dev/null || echo 'nobody:x:65534:65534::/:/bin/sh' >>/etc/passwd

die() {
	echo "not so: $*"
	exit 1
}

merge() {
	echo 1 >merge
	while [ "$(cat merge)" != 0 ]; do sleep 0.1; done
}

seen() {
	su nobody -c 'for file in *; do
		[ -f $file ] && [ $file != stat ] && [ -r $file ] && echo $file $(cat $file)
	done; true'
}

# write_pages MODE FILE: writes the pages of /tmp/stored and then those of FILE, which has as many.
write_pages() {
	echo 1 >reset
	echo "$1" >merge_mode
	echo 16M >disksize
	dd if=/tmp/stored of=/dev/zmerge0 bs=4k conv=fsync 2>/dev/null
	dd if="$2" of=/dev/zmerge0 bs=4k seek=1000 conv=fsync 2>/dev/null
}

head -c 409600 /dev/urandom >/tmp/stored
head -c 409600 /dev/urandom >/tmp/other
for mode in off request inline adaptive; do
	write_pages $mode /tmp/stored
	[ $mode = off ] || merge
	seen >/tmp/seen.stored
	told=$(cat mm_stat)
	write_pages $mode /tmp/other
	[ $mode = off ] || merge
	seen >/tmp/seen.other
	[ $mode = off ] || [ "$told" != "$(cat mm_stat)" ] || die "$mode: root sees no difference either"
	grep -q disksize /tmp/seen.other || die "nobody sees nothing at all"
	cmp -s /tmp/seen.stored /tmp/seen.other ||
		die "$mode: nobody sees $(diff /tmp/seen.stored /tmp/seen.other | grep '^[+-][a-z]' | tr '\n' ' ')"
done
echo 1 >reset
cd /
rmmod zmerge
echo hidden
