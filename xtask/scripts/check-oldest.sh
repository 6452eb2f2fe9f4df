#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Type-checks the workspace with the oldest compiler that we promise (Debian 13's), for x86_64 and
# for aarch64.
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

trixie_compiler arm64:aarch64
found=$(trixie rustc --version | cut -d ' ' -f 2)
case $found in
"$(oldest_promised)".*) ;;
*) die "Cargo.toml promises $(oldest_promised), Debian 13 has $found" ;;
esac

trixie cargo check --manifest-path "$PWD/Cargo.toml" --workspace \
	--locked --offline --target x86_64-unknown-linux-gnu --target aarch64-unknown-linux-gnu
