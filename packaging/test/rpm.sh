#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Tests the .rpm: installs it into a root folder with an empty database of rpm, upgrades and erases it
# there, and compares the folder with what it was. The root is one of Debian, because rpm runs the
# scripts of a package in it. Root only. $PACKAGES may have the package
# already.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
. packaging/test/roots.sh

[ "$(id -u)" = 0 ] || die "the tests of packages need root"
need_packages rpm
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/1"
if [ -n "${PACKAGES:-}" ]; then
	cp "$PACKAGES"/*.rpm "$work/1/"
else
	PACKAGES=$work/1 packaging/build.sh rpm >/dev/null
fi
PACKAGES=$work/2 PACKAGE_REVISION=2 packaging/build.sh rpm >/dev/null
root=$work/root
mkdir "$root"
tar --extract --file "$(root_archive bookworm)" --directory "$root"
install -d "$root/var/lib/rpm"
state() {
	find "$root" \( -path "$root/var/lib/rpm" -o -path "$root/proc" -o -path "$root/run" \) -prune -o ! -type d -printf '%P %y %m %U %G %s %T@ %l\n' -o \
		-printf '%P %y %m %U %G\n' | sort
}
own_rpm() { rpm --root "$root" --dbpath /var/lib/rpm "$@"; }
own_rpm --initdb
state >"$work/before"
# The scripts need /bin/sh, which the root has, but not from a package that rpm knows.
own_rpm --install --nodeps --nosignature "$work"/1/*.rpm
chroot "$root" /usr/bin/pagewise --version
own_rpm --verify --nodeps pagewise
own_rpm --upgrade --nodeps --nosignature "$work"/2/*.rpm
[ "$(own_rpm --query --queryformat '%{release}' pagewise)" = 2 ] || die "no upgrade"
# a plan that this version cannot read: the program says so, and the journal stays
install -d -m 700 "$root/var/lib/pagewise"
mount --bind /proc "$root/proc" && trap 'umount "$root/proc"; rm -rf "$work"' EXIT
(umask 077 && echo 'a line of a later version' >"$root/var/lib/pagewise/7.$(cat /proc/sys/kernel/random/boot_id).plan")
own_rpm --erase pagewise 2>"$work/said"
grep --quiet 'is damaged' "$work/said" && grep --quiet 'stay in /var/lib/pagewise' "$work/said" || die "this was said: $(cat "$work/said")"
rm -r "$root/var/lib/pagewise"
umount "$root/proc"
trap 'rm -rf "$work"' EXIT
state >"$work/after"
diff "$work/before" "$work/after" || die "erasing the package left or changed files"
echo "the .rpm was installed, upgraded and erased; the root is as before"
