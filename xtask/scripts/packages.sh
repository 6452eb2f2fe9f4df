#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Installs the packages that `make test` needs in addition to those of toolchain.sh. This is the
# only list; needs root.
set -euo pipefail

cd "$(dirname "$0")/../.."
packages=(
	debian-archive-keyring # check-oldest.sh: the oldest compiler, verified
	binutils               # readelf: the program is static
	kmod                   # tests load zram
	procps                 # tests and bench compare with ps and free
	util-linux             # mkswap, swapon, unshare, setpriv
	g++                    # libFuzzer, for fuzz/; C++ programs with hugepool
	pkg-config             # how they find it
	default-jre-headless nodejs python3 redis-tools # whose memory is compared with zram
	fio                    # the referee of bench's block path
	strace                 # which files groups of tests open (make test-all); faults in guests
	qemu-system-x86        # tests in guests
	e2fsprogs              # mke2fs, e2fsck, debugfs: power losses are replayed
	clang libclang-rt-dev  # kernel/zmerge's core in user space: sanitizers and fuzzing
	liblz4-dev             # what its comparing of LZ4 blocks is held against
)
[ "$(id -u)" = 0 ] || {
	echo "packages: make test needs root (it borrows devices and cgroups); make check does not" >&2
	exit 1
}

if ! dpkg-query --show --showformat='${db:Status-Abbrev}\n' "${packages[@]}" 2>/dev/null |
	awk '$1 != "ii" { missing = 1 } END { exit missing || NR != '"${#packages[@]}"' }'; then
	export DEBIAN_FRONTEND=noninteractive
	apt-get update --quiet=2
	apt-get install --quiet=2 --yes --no-install-recommends "${packages[@]}"
fi
