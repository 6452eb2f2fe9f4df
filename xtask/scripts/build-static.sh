#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Builds a static program.
#
#   build-static.sh [--quick] [--where] [OPTION...]     OPTION: of cargo, as --package xtask --example hold
#
# Without options it builds the shipped program: release profile, whole-program optimization. It has a target
# directory of its own, hence its own lock: linking takes a minute on one core and holds up no other build.
#
# With --quick it builds the same program with the dev profile. Only the program itself is linked statically: its
# dependencies are those of `cargo build` and `cargo test`, and are built once for all three. The program is put
# into target/quick, because target/debug has the dynamic one.
#
# With --where it only prints where the program is.
set -euo pipefail

cd "$(dirname "$0")/../.."
cargo=${CARGO:-cargo}
target=${CARGO_TARGET_DIR:-target}
quick= where=
while :; do
	case ${1-} in
	--quick) quick=yes ;;
	--where) where=yes ;;
	*) break ;;
	esac
	shift
done

host() {
	"${RUSTC:-rustc}" --version --verbose | sed -n 's/^host: //p'
}

# Cargo before 1.91 knows no build directory beside the target directory: it builds all dependencies again.
build_quick() {
	[ $# -gt 0 ] || set -- --package pagewise --bin pagewise
	CARGO_BUILD_BUILD_DIR=$target CARGO_TARGET_DIR=$target/quick \
		"$cargo" rustc --locked "$@" -- -C target-feature=+crt-static -C strip=symbols
}

# Prints an option for the linker as one for the compiler, if the linker knows it, which is tried.
linking() {
	local folder
	folder=$(mktemp -d)
	if echo 'fn main() {}' | "${RUSTC:-rustc}" --crate-name probe -C target-feature=+crt-static -C link-arg="-Wl,$1" -o "$folder/probe" - 2>/dev/null; then
		printf ' -C link-arg=-Wl,%s' "$1"
	fi
	rm -rf "$folder"
}

# The flags go to the target alone (hence --target): a static proc-macro cannot be loaded.
# - Relocations are packed, which saves 200 KiB; glibc undoes that from 2.36 (Debian 12) on.
# - Equal functions are stored once, which saves 130 KiB (LLVM's linker).
# - Tables for unwinding the stack are left out, which saves 850 KiB: a panic ends the program at once. The compiler's
#   option for that has no effect, because the standard library's part of the program has debug information.
build_shipped() {
	local triple=$1 flags
	shift
	[ $# -gt 0 ] || set -- --package pagewise
	flags=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$triple")_RUSTFLAGS
	env "$flags=-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs$(linking --icf=all)$(linking -T,xtask/scripts/no-unwinding.ld)" \
		"$cargo" build --release --locked --target-dir "$target/ship" --target "$triple" "$@"
}

if [ -n "$quick" ]; then
	[ -z "$where" ] || { echo "$target/quick/debug/pagewise"; exit; }
	build_quick "$@"
else
	triple=$(host)
	[ -z "$where" ] || { echo "$target/ship/$triple/release/pagewise"; exit; }
	build_shipped "$triple" "$@"
fi
