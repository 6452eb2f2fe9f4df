#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Makes sure that a recent enough Rust, a C compiler (zstd is C), and the crates in Cargo.lock are
# installed. Root gets the packages by apt; for other users the script prints the command. An
# existing Rust that is too old is never replaced.
#
# With --checks, rustfmt, clippy and e2fsprogs (used by unit tests) are required, too. The C++
# compiler for fuzzing comes with packages.sh, like everything that only `make test` needs.
set -euo pipefail

cd "$(dirname "$0")/../.."
cargo=${CARGO:-cargo}
checks=${1-}
oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

die() {
	printf 'toolchain: %s\n' "$@" >&2
	exit 1
}

# Debian 12 has its original Rust in rustc and cargo, and a newer one in other packages.
debian_12() {
	grep --quiet '^VERSION_CODENAME=bookworm$' /etc/os-release
}

rust_packages() {
	if debian_12; then echo cargo-web rustc-web; else echo cargo rustc; fi
}

check_packages() {
	if debian_12; then echo rustfmt-web rust-web-clippy; else echo rustfmt rust-clippy; fi
}

missing() {
	command -v "$cargo" >/dev/null || rust_packages
	command -v cc >/dev/null || echo gcc libc6-dev
	has_checks || check_packages
	[ -z "$checks" ] || [ -x /usr/sbin/mke2fs ] || echo e2fsprogs
	[ -z "$(command -v cc)" ] || [ "$(cc -print-file-name=libc.a)" != libc.a ] || echo libc6-dev
	has_certificates || echo ca-certificates
}

# Only Debian's cargo reads this file. Its package only recommends ca-certificates, and recommended
# packages are not installed.
has_certificates() {
	[ -e /etc/ssl/certs/ca-certificates.crt ] || [ -n "${CARGO_HTTP_CAINFO:-}${SSL_CERT_FILE:-}" ] ||
		! command -v apt-get >/dev/null
}

has_checks() {
	[ -z "$checks" ] || { "$cargo" fmt --version && "$cargo" clippy --version; } &>/dev/null
}

new_enough() {
	[ "$(printf '%s\n' "$oldest" "$1" | sort --version-sort | head -n 1)" = "$oldest" ]
}

# Debian's tools and rustup's cannot be mixed.
if command -v rustup >/dev/null && ! has_checks; then
	die "rustfmt or clippy is missing; this brings it:" "  rustup component add rustfmt clippy"
fi
export DEBIAN_FRONTEND=noninteractive
install="apt-get install --yes --no-install-recommends"
packages=$(missing | xargs)
if [ -n "$packages" ]; then
	command -v apt-get >/dev/null || die "missing: Rust $oldest or newer, a C compiler, a static libc"
	[ "$(id -u)" = 0 ] ||
		die "something to build with is missing; this brings it:" "  sudo apt-get update && sudo $install $packages"
	printf 'toolchain: installing what is missing to build with: %s\n' "$packages" >&2
	# If other repositories are unreachable, Debian's may still work: only the installation has
	# to succeed.
	apt-get update --quiet=2 2>/dev/null || true
	# shellcheck disable=SC2086 # words are meant
	if ! errors=$($install --quiet=2 $packages 2>&1 >/dev/null); then
		grep '^E: ' <<<"$errors" | head -n 3 >&2 || true
		die "not installed: $packages" "  next: see that apt's mirror can be reached, then try again"
	fi
fi

found=$("${RUSTC:-rustc}" --version | cut -d ' ' -f 2)
new_enough "$found" || die \
	"rustc $found is older than $oldest, which pagewise needs; a newer one:" \
	"  sudo $install $(rust_packages | xargs)    or    rustup update"

# Without network this fails at once if a crate is missing; afterwards, nothing needs the network.
host=$("${RUSTC:-rustc}" --version --verbose | sed -n 's/^host: //p')
fetch=("$cargo" fetch --locked --target "$host")
if ! "${fetch[@]}" --offline --quiet 2>/dev/null; then
	echo "toolchain: downloading the crates that Cargo.lock names" >&2
	"${fetch[@]}" || die \
		"crates that Cargo.lock names are neither in ${CARGO_HOME:-$HOME/.cargo} nor could they be downloaded" \
		"  next: see that crates.io can be reached, or bring that folder from a machine that has built pagewise"
fi
