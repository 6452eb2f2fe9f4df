#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests this folder with DKMS of a Debian suite: adds, builds, signs, installs and removes the
# module in a folder that replaces the machine; then installs kernels for which it can and cannot be
# built, as the packages of Debian's kernels do. Prints the output of DKMS, and exits with 1 if a
# module is missing or left over, or if the installation of a kernel fails.
#
#   dkms-for.sh SUITE...
#
# Packages are kept in the cache (xtask/scripts/cache.sh), some 550 MB. Needs root, or user namespaces.
set -euo pipefail

suite=${1:?usage: dkms-for.sh SUITE...}
if [ $# -gt 1 ]; then
	for suite; do "$0" "$suite"; done
	exit
fi
module=$(cd "$(dirname "$0")" && pwd)
project=$(cd "$module/../.." && pwd)
. "$module/inside.sh"

folder=$(dkms_suite "$suite")
root=$folder/root
cache_lock --exclusive "$folder"
complete "$root"
release=$(ls "$root/usr/src" | sed -n 's/^linux-headers-\(.*-cloud-amd64\)$/\1/p' | sort -V | tail -n 1)
version=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' "$module/dkms.conf")
source=$root/usr/src/zmerge-$version
# Otherwise DKMS would save the module of a killed run as the original one and restore it.
rm -rf "$source" "$root/var/lib/dkms" "$root/usr/lib/modules/$release/updates"
mkdir -p "$source" "$root/usr/lib/modules/$release" "$root/var/lib/dkms"
touch "$root/usr/lib/modules/$release"/modules.{order,builtin}
# Without the right to run anything, as the package has them.
cp --recursive --no-preserve=mode,ownership "$module"/{Makefile,Kbuild,LICENSE,dkms.conf,core,glue,probe} "$source/"
hooks=$root/etc/kernel
for kind in postinst.d header_postinst.d; do
	mkdir -p "$hooks/$kind"
	cp "$module/dkms-hook.sh" "$hooks/$kind/pagewise-zmerge"
done

modules() { find "$root/usr/lib/modules" "$root/var/lib/dkms/zmerge" -name 'zmerge.ko*' -printf '%P\n' 2>/dev/null; }

inside "$root" dkms add "zmerge/$version"
inside "$root" dkms install "zmerge/$version" -k "$release"
inside "$root" dkms status
installed=$(find "$root/usr/lib/modules/$release" -name 'zmerge.ko*' -printf "/usr/lib/modules/$release/%P")
[ -n "$installed" ] || { echo "no module was installed" >&2; exit 1; }
inside "$root" modinfo "$installed" | grep -E '^(filename|version|license|vermagic|sig_hashalgo|signer):'
inside "$root" dkms remove "zmerge/$version" --all
[ -z "$(modules)" ] || { echo "left: $(modules)" >&2; exit 1; }
[ -z "$(inside "$root" dkms status)" ]
echo "installed and removed for $release"

die() { echo "$*" >&2; exit 1; }

# A kernel like the installed one, with another name.
add_kernel() {	# RELEASE BUILD
	mkdir -p "$root/usr/lib/modules/$1"
	touch "$root/usr/lib/modules/$1"/modules.{order,builtin}
	ln -sfn "$2" "$root/usr/lib/modules/$1/build"
}

# What the package of a kernel does after it is unpacked: it fails if a hook fails.
install_kernel() {	# RELEASE
	local hook
	for hook in dkms pagewise-zmerge; do
		inside "$root" "/etc/kernel/postinst.d/$hook" "$1" "/boot/vmlinuz-$1" ||
			die "the installation of $1 failed with $? in the hook $hook"
	done
}

has_module() { [ -n "$(find "$root/usr/lib/modules/$1/" -name 'zmerge.ko*')" ]; }

remove_kernels() { rm -rf "$root/usr/lib/modules"/{5.10.0-old,99.0.0-broken,6.99.0-bare} "$root/usr/src/broken"; }
remove_kernels
trap remove_kernels EXIT
mkdir -p "$root/usr/src/broken/include"
printf '%s:\n\t@echo unknown interface; false\n' modules all >"$root/usr/src/broken/Makefile"
printf 'CONFIG_%s=y\n' BLOCK ZSMALLOC >"$root/usr/src/broken/.config"
headers=$(readlink "$root/usr/lib/modules/$release/build" || echo "/usr/src/linux-headers-$release")
add_kernel "$release" "$headers"
add_kernel 5.10.0-old "$headers"
add_kernel 99.0.0-broken /usr/src/broken
mkdir -p "$root/usr/lib/modules/6.99.0-bare"
inside "$root" dkms add "zmerge/$version"
for kernel in "$release" 5.10.0-old 99.0.0-broken 6.99.0-bare; do
	install_kernel "$kernel"
done
has_module "$release" || die "no module for $release, which fits"
for kernel in 5.10.0-old 99.0.0-broken 6.99.0-bare; do
	! has_module "$kernel" || die "a module for $kernel, which does not fit"
done
inside "$root" /etc/kernel/prerm.d/dkms "$release" 2>&1
! has_module "$release" || die "the module of a removed kernel is left"
# The next kernel gets the module all the same.
install_kernel "$release"
has_module "$release" || die "no module for $release, which was installed again"
inside "$root" dkms remove "zmerge/$version" --all >/dev/null 2>&1 || true
[ -z "$(modules)" ] || die "left: $(modules)"

# The same with DKMS's own hook, which is why AUTOINSTALL is empty: the kernel's installation fails.
sed -i 's/^AUTOINSTALL=.*/AUTOINSTALL="yes"/' "$source/dkms.conf"
inside "$root" dkms add "zmerge/$version" >/dev/null
if inside "$root" /etc/kernel/postinst.d/dkms 99.0.0-broken >/dev/null 2>&1; then
	echo "note: with DKMS of $suite, AUTOINSTALL would not fail either"
fi
inside "$root" dkms remove "zmerge/$version" --all >/dev/null 2>&1 || true
echo "kernels of $suite are installed whether or not zmerge can be built"
