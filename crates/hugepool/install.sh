#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Builds both libraries and installs them with headers and pkg-config files: install.sh PREFIX
# PREFIX is a folder such as /usr/local; DESTDIR is prepended to it, as in makefiles. LIBDIR is the folder
# of the libraries below PREFIX: lib by default, lib/x86_64-linux-gnu in packages of Debian.
set -euo pipefail

[ $# = 1 ] || {
	echo "usage: install.sh PREFIX" >&2
	exit 2
}
prefix=$1
to=${DESTDIR-}$prefix
libraries=${LIBDIR:-lib}
cd "$(dirname "$0")"
target=${CARGO_TARGET_DIR:-../../target}
cargo=${CARGO:-cargo}
version=$("$cargo" pkgid --locked --package hugepool | sed 's/.*[@#]//')

# Builds only the libraries, because tests and examples have more dependencies.
build() {
	"$cargo" build --locked --package hugepool --lib --profile library "${@:2}"
	install -D --mode=644 "$target/library/libhugepool.a" "$to/$libraries/lib$1.a"
	install -D --mode=755 "$target/library/libhugepool.so" "$to/$libraries/lib$1.so.0"
	ln --force --symbolic "lib$1.so.0" "$to/$libraries/lib$1.so"
	mkdir --parents "$to/$libraries/pkgconfig"
	sed "s|@PREFIX@|$prefix|; s|@LIBDIR@|$libraries|; s|@VERSION@|$version|" "$1.pc.in" >"$to/$libraries/pkgconfig/$1.pc"
}

build hugepool-coverage --no-default-features
build hugepool
install -D --mode=644 --target-directory="$to/include" include/hugepool.h include/hugepool_coverage.h include/hugepool.hpp
