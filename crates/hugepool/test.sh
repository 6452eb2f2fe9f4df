#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Installs the libraries into a temporary folder, and builds and runs the C and C++ programs with
# them: with the shared and the static library, and with AddressSanitizer. No root. Needs g++, clang
# and pkg-config or pkgconf.
set -euo pipefail

cd "$(dirname "$0")"
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
./install.sh "$folder/usr"
export PKG_CONFIG_PATH=$folder/usr/lib/pkgconfig LD_LIBRARY_PATH=$folder/usr/lib

# shellcheck disable=SC2046 # words are meant
run() {
	local name=$1
	shift
	printf '== %s: %s\n' "$name" "$*"
	"$@" -Wall -Wextra -Werror $(pkg-config --cflags hugepool) -o "$folder/$name" "${libs[@]}"
	"$folder/$name"
}

read -ra libs <<<"$(pkg-config --libs hugepool) -lpthread"
run check cc -std=c11 -D_GNU_SOURCE c/check.c
run sessions cc -std=c11 c/sessions.c
run words c++ -std=c++17 c/words.cpp
run asan clang -fsanitize=address,undefined -D_GNU_SOURCE c/check.c
run asan-words clang++ -fsanitize=address,undefined -std=c++17 c/words.cpp

read -ra libs <<<"-l:libhugepool.a -L$folder/usr/lib -lpthread -ldl -lm -lgcc_s"
run static cc -std=c11 -D_GNU_SOURCE c/check.c

# The monitoring library alone, which has coverage and no pools.
read -ra libs <<<"$(pkg-config --libs hugepool-coverage)"
run coverage cc -std=c11 c/coverage.c
if nm --dynamic --defined-only "$folder/usr/lib/libhugepool-coverage.so" | grep --quiet hugepool_create; then
	echo 'test.sh: libhugepool-coverage.so has pools' >&2
	exit 1
fi

answer=$(PAGEWISE_THP=perhaps "$folder/check" typo)
[ "$answer" = 'PAGEWISE_THP is none of on, off and advised' ]
echo 'all C and C++ programs passed'
