#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Type-checks the workspace with the oldest compiler that we promise (Debian 13's), for x86_64 and
# for aarch64. The compiler is unpacked under .cache and runs in a chroot of its own mount
# namespace, so nothing stays mounted and nothing is installed. Crates come from cargo's own cache.
set -euo pipefail

cd "$(dirname "$0")/../.."
project=$PWD
cache=$project/.cache/debian/trixie
root=$cache/root
cargo=${CARGO:-cargo}
cargo_home=${CARGO_HOME:-$HOME/.cargo}

die() {
	printf 'check-oldest: %s\n' "$*" >&2
	exit 1
}

oldest_promised() {
	sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml
}

# Runs a program of the unpacked Debian, with this project and cargo's cache where they always are.
inside() {
	unshare --mount --propagation private bash -euc '
		root=$1 cargo_home=$2 project=$3
		shift 3
		for folder in /dev /proc /tmp "$cargo_home" "$project"; do
			mkdir -p "$root$folder"
			mount --bind "$folder" "$root$folder"
		done
		exec env --ignore-environment PATH=/usr/sbin:/usr/bin HOME=/tmp CC=gcc \
			CARGO_HOME="$cargo_home" CARGO_TARGET_DIR="$project/target/oldest" \
			CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER=gcc \
			chroot "$root" "$@"
	' bash "$root" "$cargo_home" "$project" "$@"
}

[ "$(dpkg --print-architecture)" = amd64 ] || die "only written for an amd64 machine"
[ "$(id -u)" = 0 ] || die "needs root for its chroot"

fetch="xtask/scripts/debian-suite.sh"
$fetch --with-dependencies trixie "$cache" \
	rustc cargo gcc libc6-dev gcc-aarch64-linux-gnu libc6-dev-arm64-cross
$fetch trixie "$cache" libstd-rust-dev:arm64

"$cargo" fetch --quiet --locked
found=$(inside rustc --version | cut -d ' ' -f 2)
case $found in
"$(oldest_promised)".*) ;;
*) die "Cargo.toml promises $(oldest_promised), Debian 13 has $found" ;;
esac

inside cargo check --manifest-path "$project/Cargo.toml" --workspace \
	--locked --offline --target x86_64-unknown-linux-gnu --target aarch64-unknown-linux-gnu
