#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Builds zmerge by DKMS for a kernel that was just installed, and never fails: a kernel for which zmerge cannot be built
# is installed without it. Installed as /etc/kernel/postinst.d/pagewise-zmerge and header_postinst.d/pagewise-zmerge
# (Debian and Ubuntu), and as a plugin of kernel-install (Fedora and others).
#
#   dkms-hook.sh KERNEL [IMAGE]      kernel-install: add KERNEL …, remove KERNEL …
#
# DKMS's own hook would do the same with AUTOINSTALL="yes", but if a module fails to build, that hook fails, and with it
# the installation of the kernel's package. Version 3.0 (Debian 12) even counts a kernel that dkms.conf excludes as a
# failure.
set -u

case ${1-} in
add) kernel=${2-} ;;
remove | inspect | '') exit 0 ;;
*) kernel=$1 ;;
esac
[ -n "$kernel" ] || exit 0
command -v dkms >/dev/null || exit 0

say() { echo "zmerge: $*" >&2; }

# The newest version whose sources are installed. It may not be added to DKMS: with the last kernel for which it was
# built, DKMS removes it from its own tree.
version=
for conf in /usr/src/zmerge-*/dkms.conf; do
	[ -e "$conf" ] || continue
	found=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"$/\1/p' "$conf")
	version=$(printf '%s\n%s\n' "$version" "$found" | sort -V | tail -n 1)
done
[ -n "$version" ] || exit 0

# The headers may be installed after the kernel: then this runs again.
if [ ! -e "/lib/modules/$kernel/build/Makefile" ]; then
	say "not built for $kernel: its headers are not installed"
	exit 0
fi
if dkms install -m zmerge -v "$version" -k "$kernel"; then
	say "$version is installed for $kernel"
else
	status=$?
	say "$version is not built for $kernel (dkms ended with $status); the kernel works without it"
	[ "$status" = 77 ] || say "the reason is at the end of /var/lib/dkms/zmerge/$version/build/make.log"
fi
exit 0
