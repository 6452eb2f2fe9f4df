#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Builds the static release program. With --where it only says where that is.
#
# The flags go to the target alone (hence --target): a static proc-macro cannot be loaded.
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
env "$flags=-C target-feature=+crt-static" \
	"$cargo" build --quiet --release --locked --package pagewise --target "$triple"
