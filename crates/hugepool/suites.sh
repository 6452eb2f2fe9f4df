#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Builds and runs the C and C++ programs with the compilers and C libraries of other Debian suites,
# as a user who has installed the libraries into /usr/local: suites.sh [SUITE...] (default: bookworm
# and trixie)
#
# The compilers are unpacked in the cache (xtask/scripts/cache.sh), some 300 MB for each suite, and
# nothing is installed. The libraries are built once on this machine, whose C library must not be
# newer than that of the oldest suite. Needs root, or user namespaces.
set -euo pipefail

cd "$(dirname "$0")"
project=$(cd ../.. && pwd)
. "$project/xtask/scripts/cache.sh"
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
installed=$folder/usr/local
DESTDIR=$folder ./install.sh /usr/local
cp -r c "$installed/programs"

# Runs one program in a root folder with the suite's files, this machine's /dev, /proc and /sys, and
# the installed libraries.
inside() { # ROOT COMMAND...
	local map=
	[ "$(id -u)" = 0 ] || map=--map-root-user
	# shellcheck disable=SC2086 # no word if it is empty
	unshare $map --mount --propagation private bash -euc '
		root=$1 installed=$2
		shift 2
		mkdir -p "$root"/{dev,proc,sys,usr/local}
		for part in dev proc sys; do mount --rbind "/$part" "$root/$part"; done
		mount --bind "$installed" "$root/usr/local"
		exec env --ignore-environment PATH=/usr/bin:/usr/sbin TMPDIR=/usr/local LD_LIBRARY_PATH=/usr/local/lib \
			PKG_CONFIG_PATH=/usr/local/lib/pkgconfig chroot "$root" "$@"
	' bash "$1" "$installed" "${@:2}"
}

# shellcheck disable=SC2046 # words are meant
run() { # NAME LIBRARY COMPILER...
	local name=$1 library=$2
	shift 2
	printf '== %s: %s: %s\n' "$suite" "$name" "$*"
	inside "$root" "$@" -Wall -Wextra -Werror -o "/usr/local/$name" \
		$(inside "$root" pkg-config --cflags --libs "$library") -lpthread
	inside "$root" "/usr/local/$name"
}

[ $# -gt 0 ] || set -- bookworm trixie
for suite; do
	entry=$("$project/xtask/scripts/debian-suite.sh" "$suite" "hugepool-$suite" g++ pkgconf)
	cache_lock --shared "$entry"
	root=$entry/root
	inside "$root" g++ --version | head -n 1
	run check hugepool gcc -std=c11 -D_GNU_SOURCE /usr/local/programs/check.c
	run sessions hugepool gcc -std=c11 /usr/local/programs/sessions.c
	run words hugepool g++ -std=c++17 /usr/local/programs/words.cpp
	run words-20 hugepool g++ -std=c++20 /usr/local/programs/words.cpp
	run coverage hugepool-coverage gcc -std=c11 /usr/local/programs/coverage.c
	printf '== %s: static\n' "$suite"
	inside "$root" gcc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -I/usr/local/include /usr/local/programs/check.c \
		-o /usr/local/static /usr/local/lib/libhugepool.a -lpthread -ldl -lm -lgcc_s
	inside "$root" /usr/local/static
done
echo "all C and C++ programs passed on: $*"
