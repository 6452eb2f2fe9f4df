#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Builds the static release program, or what the given options of cargo build name instead. With
# --where it only says where the program is.
#
# The flags go to the target alone (hence --target): a static proc-macro cannot be loaded. A panic
# aborts, so nobody reads tables for unwinding; relocations are packed, which glibc 2.36 undoes itself.
set -euo pipefail

cd "$(dirname "$0")/../.."
cargo=${CARGO:-cargo}
triple=$("${RUSTC:-rustc}" --version --verbose | sed -n 's/^host: //p')
target=${CARGO_TARGET_DIR:-target}

if [ "${1-}" = --where ]; then
	echo "$target/$triple/release/pagewise"
	exit
fi
flags=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$triple")_RUSTFLAGS
[ $# -gt 0 ] || set -- --package pagewise
unwind="-C force-unwind-tables=no"
packed="-C link-arg=-Wl,-z,pack-relative-relocs"
env "$flags=-C target-feature=+crt-static $unwind $packed" \
	"$cargo" build --quiet --release --locked --target "$triple" "$@"
