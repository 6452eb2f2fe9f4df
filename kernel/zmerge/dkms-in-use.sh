#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Removes the package pagewise-zmerge-dkms while its module is in use as a disk and as swap, in guests with Debian's
# kernels: the package's removal must end well, the module must stay loaded, no byte may change, and afterwards the
# module must be unloadable and gone from the disk.
#
#   dkms-in-use.sh PAGEWISE DEB SUITE...      PAGEWISE: the static program, which runs the guests; DEB: the package
#
# dpkg and DKMS run in the root folder that dkms-for.sh uses: there the package is installed, which builds the module, and
# then the folder becomes a disk of the guest. dpkg does not know the packages that are unpacked there and is told to
# ignore dependencies. Needs root.
set -euo pipefail

pagewise=${1:?usage: dkms-in-use.sh PAGEWISE DEB SUITE...} deb=${2:?DEB is missing} suite=${3:?SUITE is missing}
if [ $# -gt 3 ]; then
	shift 2
	for suite; do "$0" "$pagewise" "$deb" "$suite"; done
	exit
fi
module=$(cd "$(dirname "$0")" && pwd)
project=$(cd "$module/../.." && pwd)
. "$module/inside.sh"

folder=$(dkms_suite "$suite")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cache_lock --exclusive "$folder"
complete "$folder/root"
cp -a "$folder/root" "$work/root"
cache_unlock
# What dkms-for.sh left there.
rm -rf "$work/root"/usr/src/zmerge-* "$work/root/var/lib/dkms"/* "$work/root"/etc/kernel/*/pagewise-zmerge
release=$(ls "$work/root/usr/src" | sed -n 's/^linux-headers-\(.*-cloud-amd64\)$/\1/p' | sort -V | tail -n 1)
modules=$work/root/usr/lib/modules/$release
mkdir -p "$modules" "$work/root"/var/lib/dpkg/{info,updates}
touch "$modules"/modules.{order,builtin} "$work/root/var/lib/dpkg/status"
ln -sfn "/usr/src/linux-headers-$release" "$modules/build"
cp "$deb" "$work/root/zmerge.deb"
inside "$work/root" dpkg --force-depends --install /zmerge.deb
[ -n "$(find "$modules" -name 'zmerge.ko*')" ] || { echo "no module was installed for $release" >&2; exit 1; }
/sbin/mke2fs -q -t ext4 -d "$work/root" "$work/disk" 1500M
rm -rf "$work/root"

cat >"$work/in-use.sh" <<'END'
set -eu
die() { echo "not so: $*"; dmesg | tail -n 5; exit 1; }
root=/mnt
mkdir -p $root
mount -t ext4 /dev/vda $root
mount -t proc proc $root/proc
mount -t sysfs sysfs $root/sys
mount -t devtmpfs dev $root/dev
[ -e $root/dev/fd ] || ln -s /proc/self/fd $root/dev/fd
# By its path, because busybox would run an applet of its own of the same name.
inside() { chroot $root /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp DEBIAN_FRONTEND=noninteractive "$@"; }
release=$(uname -r)
inside /usr/sbin/dkms status
modules() { find "$root/usr/lib/modules" "$root/var/lib/dkms" -name 'zmerge.ko*' 2>/dev/null; }
installed=$(find "$root/usr/lib/modules/$release" -name 'zmerge.ko*' | head -n 1)
[ -n "$installed" ] || die "no module for $release: $(modules)"
! grep -q '^zmerge ' /proc/modules || die "the module is loaded"
case $installed in
*.xz) xz -dc "$installed" >/tmp/zmerge.ko 2>/dev/null || inside xz -dc "${installed#"$root"}" >/tmp/zmerge.ko ;;
*) cp "$installed" /tmp/zmerge.ko ;;
esac
insmod /tmp/zmerge.ko num_devices=2
for device in zmerge0 zmerge1; do echo 64M >/sys/block/$device/disksize; done
head -c 8388608 /dev/urandom >/tmp/data
dd if=/tmp/data of=/dev/zmerge0 bs=64k conv=fsync 2>/dev/null
exec 3</dev/zmerge0
mkswap /dev/zmerge1 >/dev/null
swapon /dev/zmerge1
before=$(sha256sum </tmp/data)

inside /usr/bin/dpkg --force-depends --remove pagewise-zmerge-dkms 2>&1 | tail -n 12
[ -z "$(modules)" ] || die "left: $(modules)"
[ -z "$(inside /usr/sbin/dkms status)" ] || die "dkms still knows: $(inside /usr/sbin/dkms status)"
set -- $(grep '^zmerge ' /proc/modules)
[ "$3" -ge 2 ] || die "the module's users: $*"
echo "removed; in use by $3, still loaded"
grep -q zmerge1 /proc/swaps || die "no longer swap"
echo 1 >/proc/sys/vm/drop_caches
[ "$(head -c 8388608 /dev/zmerge0 | sha256sum)" = "$before" ] || die "other bytes after the removal"
dd if=/tmp/data of=/dev/zmerge0 bs=64k seek=128 conv=fsync 2>/dev/null
! rmmod zmerge 2>/dev/null || die "a module in use was unloaded"
swapoff /dev/zmerge1
exec 3<&-
rmmod zmerge
! grep -q '^zmerge ' /proc/modules || die "still loaded"
echo "unloaded after its last user"
inside /usr/bin/dpkg --force-depends --purge pagewise-zmerge-dkms 2>&1 | tail -n 3
left=$(find $root/etc $root/usr/src $root/usr/share/doc -name '*zmerge*' 2>/dev/null)
[ -z "$left" ] || die "left by purge: $left"
echo "purged: nothing is left"
END

"$pagewise" lab guest --emulate --kernel "$suite" --cpus 2 --memory 1500M --deadline "${DEADLINE:-10m}" \
	--module ext4 --module zsmalloc --module lz4_compress --module lz4 --module lzo-rle \
	--disk "$work/disk" --file "$work/in-use.sh:/in-use.sh" -- sh /in-use.sh
echo "$suite: the package was removed while its module was in use"
