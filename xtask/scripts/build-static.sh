#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Builds the static release program, or what the given options of cargo build name instead. With
# --where it only says where the program is.
#
# The flags go to the target alone (hence --target): a static proc-macro cannot be loaded.
# Relocations are packed, which saves 200 KiB; glibc undoes that from 2.36 (Debian 12) on.
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
packed="-C link-arg=-Wl,-z,pack-relative-relocs"
env "$flags=-C target-feature=+crt-static $packed" \
	"$cargo" build --quiet --release --locked --target "$triple" "$@"
