#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Builds both libraries and installs them with headers and pkg-config files: install.sh PREFIX
# PREFIX is a folder such as /usr/local; DESTDIR is prepended to it, as in makefiles.
set -euo pipefail

[ $# = 1 ] || {
	echo "usage: install.sh PREFIX" >&2
	exit 2
}
prefix=$1
to=${DESTDIR-}$prefix
cd "$(dirname "$0")"
target=${CARGO_TARGET_DIR:-../../target}
cargo=${CARGO:-cargo}
version=$("$cargo" pkgid --locked --package hugepool | sed 's/.*[@#]//')

# Builds only the libraries, because tests and examples have more dependencies.
build() {
	"$cargo" build --locked --package hugepool --lib --profile library "${@:2}"
	install -D --mode=644 "$target/library/libhugepool.a" "$to/lib/lib$1.a"
	install -D --mode=755 "$target/library/libhugepool.so" "$to/lib/lib$1.so.0"
	ln --force --symbolic "lib$1.so.0" "$to/lib/lib$1.so"
	mkdir --parents "$to/lib/pkgconfig"
	sed "s|@PREFIX@|$prefix|; s|@VERSION@|$version|" "$1.pc.in" >"$to/lib/pkgconfig/$1.pc"
}

build hugepool-coverage --no-default-features
build hugepool
install -D --mode=644 --target-directory="$to/include" include/hugepool.h include/hugepool_coverage.h include/hugepool.hpp
