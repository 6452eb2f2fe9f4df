#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Builds a static program.
#
#   build-static.sh [--quick|--lean] [--where] [OPTION...]     OPTION: of cargo, as --package xtask --example hold
#
# Without options it builds the shipped program with the release profile. It has a target directory of its own, hence
# its own lock: it holds up no other build.
#
# With --quick it builds the same program with the dev profile. Only the program itself is linked statically: its
# dependencies are those of `cargo build` and `cargo test`, and are built once for all three. The program is put
# into target/quick, because target/debug has the dynamic one.
#
# With --lean it builds the program of tests in guests that prove `apply` (crates/pagewise/src/lean.rs) in the same way,
# into target/lean. Its bytes depend neither on the folder of this clone nor on code that it does not contain.
#
# With --where it only prints where the program is.
set -euo pipefail

cd "$(dirname "$0")/../.."
cargo=${CARGO:-cargo}
target=${CARGO_TARGET_DIR:-target}
quick= lean= where=
while :; do
	case ${1-} in
	--quick) quick=yes ;;
	--lean) lean=yes ;;
	--where) where=yes ;;
	*) break ;;
	esac
	shift
done

host() {
	"${RUSTC:-rustc}" --version --verbose | sed -n 's/^host: //p'
}

# Cargo that knows no build directory beside the target directory would build all dependencies again. It accepts
# those of `cargo test` instead, which have the same names, flags and features: hard links to them are enough.
link_dependencies() { # FOLDER
	[ ! -e "$1/debug" ] && [ -d "$target/debug/.fingerprint" ] || return 0
	! "$cargo" metadata --locked --no-deps --format-version 1 | grep --quiet '"build_directory"' || return 0
	mkdir --parents "$1/debug"
	cp --archive --link "$target"/debug/{.fingerprint,build,deps} "$1/debug/"
}

build_static() { # FOLDER OPTION...
	local folder=$1
	shift
	link_dependencies "$folder"
	CARGO_BUILD_BUILD_DIR=$target CARGO_TARGET_DIR=$folder \
		"$cargo" rustc --locked "$@" -- -C target-feature=+crt-static -C strip=symbols -C link-arg=-Wl,--build-id=none
}

# The flag goes to the target alone (hence --target): a static proc-macro cannot be loaded.
build_shipped() {
	local triple=$1 flags
	shift
	[ $# -gt 0 ] || set -- --package pagewise
	flags=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$triple")_RUSTFLAGS
	env "$flags=-C target-feature=+crt-static" \
		"$cargo" build --release --locked --target-dir "$target/ship" --target "$triple" "$@"
}

if [ -n "$quick" ]; then
	[ -z "$where" ] || { echo "$target/quick/debug/pagewise"; exit; }
	[ $# -gt 0 ] || set -- --package pagewise --bin pagewise
	build_static "$target/quick" "$@"
elif [ -n "$lean" ]; then
	[ -z "$where" ] || { echo "$target/lean/debug/pagewise-lean"; exit; }
	build_static "$target/lean" --package pagewise --bin pagewise-lean --features lean
else
	triple=$(host)
	[ -z "$where" ] || { echo "$target/ship/$triple/release/pagewise"; exit; }
	build_shipped "$triple" "$@"
fi
