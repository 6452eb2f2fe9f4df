#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Builds a static program.
#
#   build-static.sh [--quick|--lean] [--where] [OPTION...]     OPTION: of cargo, as --package xtask --example hold
#
# Without options it builds the release program. It uses a separate target directory with its own
# lock, so it does not block other builds.
#
# With --quick it builds the same program with the dev profile. Only the program itself is linked
# statically: it shares its dependencies with `cargo build` and `cargo test`, so these are built
# once. The program is put into target/quick, because target/debug contains the dynamic one.
#
# With --lean it builds the program for tests of `apply` in guests (crates/pagewise/src/lean.rs) in
# the same way, into target/lean. Its bytes depend neither on the folder of this clone nor on code
# that it does not contain.
#
# With --where it only prints the path of the program.
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

# Cargo without a separate build directory (before 1.91) would build all dependencies again. It accepts those of
# `cargo test`, which have the same names, flags and features, so hard links to them are enough.
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

# What `pagewise --version` prints: the version, and the commit with its date if this folder itself is a clone. In an
# archive, also inside of another repository, there is only the version. SOURCE_DATE_EPOCH replaces the date, and
# PAGEWISE_VERSION all of it.
describe_version() {
	local version commit date
	version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
	if [ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$(pwd -P)" ] && commit=$(git rev-parse --short=12 HEAD 2>/dev/null); then
		[ -z "$(git status --porcelain --untracked-files=no)" ] || commit+=", changed"
		date=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
		version+=" ($commit, $(date --utc --date="@$date" +%F))"
	fi
	echo "$version"
}

# Options that replace the folder of the crates, which is in the home of who builds, in messages of panics: the
# program's bytes depend on neither the user nor the folder.
remapped() {
	local folder
	for folder in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/; do
		[ ! -d "$folder" ] || printf ' --remap-path-prefix=%s=/crates' "${folder%/}"
	done
}

# The flags are only for the target (hence --target), because a statically linked proc-macro cannot be
# loaded.
build_shipped() {
	local triple=$1 flags
	shift
	[ $# -gt 0 ] || set -- --package pagewise
	flags=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$triple")_RUSTFLAGS
	env "$flags=-C target-feature=+crt-static$(remapped)" \
		PAGEWISE_VERSION="${PAGEWISE_VERSION:-$(describe_version)}" \
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
