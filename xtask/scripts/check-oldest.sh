#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Type-checks the workspace with the oldest compiler that we support (Debian 13's).
#
#   check-oldest.sh [--aarch64]     for x86_64, or only for aarch64
#
# Nothing is linked. Debian's zstd and zlib are used, so that their crates compile no C; the crate
# of lz4 always does.
set -euo pipefail

cd "$(dirname "$0")/../.."

die() {
	printf 'check-oldest: %s\n' "$*" >&2
	exit 1
}

. xtask/scripts/trixie.sh

oldest_promised() {
	sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml
}

# xtask only has to build on the developers' machines.
packages=(--workspace)
# Debian's own compiler builds the tests, too, in `make test`.
targets=()
libraries=(pkgconf libzstd-dev zlib1g-dev)
case ${1-} in
'')
	triple=x86_64-unknown-linux-gnu
	targets=(--tests)
	trixie_compiler oldest "${libraries[@]}"
	;;
--aarch64)
	triple=aarch64-unknown-linux-gnu
	packages+=(--exclude xtask)
	trixie_compiler oldest-aarch64 "${libraries[@]}" gcc-aarch64-linux-gnu libc6-dev-arm64-cross \
		--alone libstd-rust-dev:arm64
	;;
*) die "usage: check-oldest.sh [--aarch64]" ;;
esac

found=$(trixie rustc --version | cut -d ' ' -f 2)
case $found in
"$(oldest_promised)".*) ;;
*) die "Cargo.toml promises $(oldest_promised), Debian 13 has $found" ;;
esac

export ZSTD_SYS_USE_PKG_CONFIG=1 PKG_CONFIG_ALLOW_CROSS=1
trixie cargo check --manifest-path "$PWD/Cargo.toml" "${packages[@]}" "${targets[@]}" --locked --offline --target "$triple"
