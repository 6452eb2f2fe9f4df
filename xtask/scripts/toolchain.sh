#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Makes sure that there are a new enough Rust and a C compiler (zstd is C). Root gets them by apt;
# anybody else is told the one command. A Rust that is there and too old is never replaced.
set -euo pipefail

cd "$(dirname "$0")/../.."
cargo=${CARGO:-cargo}
oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

die() {
	printf 'toolchain: %s\n' "$@" >&2
	exit 1
}

# Debian 12 keeps its first Rust in rustc and cargo, and a new one beside it.
rust_packages() {
	case $(. /etc/os-release && echo "${VERSION_CODENAME-}") in
	bookworm) echo cargo-web rustc-web ;;
	*) echo cargo rustc ;;
	esac
}

missing() {
	command -v "$cargo" >/dev/null || rust_packages
	command -v cc >/dev/null || echo gcc libc6-dev
	[ -z "$(command -v cc)" ] || [ "$(cc -print-file-name=libc.a)" != libc.a ] || echo libc6-dev
}

new_enough() {
	[ "$(printf '%s\n' "$oldest" "$1" | sort --version-sort | head -n 1)" = "$oldest" ]
}

install="apt-get install --yes --no-install-recommends"
packages=$(missing | xargs)
if [ -n "$packages" ]; then
	command -v apt-get >/dev/null || die "missing: Rust $oldest or newer, a C compiler, a static libc"
	[ "$(id -u)" = 0 ] ||
		die "something to build with is missing; this brings it:" "  sudo $install $packages"
	apt-get update --quiet=2
	# shellcheck disable=SC2086 # words are meant
	$install --quiet=2 $packages
fi

found=$("${RUSTC:-rustc}" --version | cut -d ' ' -f 2)
new_enough "$found" || die \
	"rustc $found is older than $oldest, which pagewise needs; newer ones:" \
	"  sudo $install $(rust_packages | xargs)    or    https://rustup.rs"
