#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Asks a kernel's build folder what its interfaces look like, by compiling a few lines against each,
# and writes a header that says which compile.
#
#   probe.sh KDIR HEADER
set -eu

kdir=$1
header=$2
here=$(cd "$(dirname "$0")" && pwd)
[ -e "$kdir/Makefile" ] || {
	echo "zmerge: $kdir is no kernel's build folder: install the kernel's headers, or say KDIR=" >&2
	exit 1
}
mkdir -p "$(dirname "$header")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Every block of features.txt is one file: a name, then the lines that use the feature.
awk -v to="$work" '
	/^# / { next }
	/^== / { name = $2; file = to "/" name ".c"
		print "#include <linux/module.h>" > file; print name; next }
	name { print > file }' "$here/features.txt" >"$work/names"

for name in plain $(cat "$work/names"); do
	echo "obj-m += $name.o"
done >"$work/Kbuild"
echo '#include <linux/module.h>' >"$work/plain.c"

make -k -C "$kdir" M="$work" modules >"$work/log" 2>&1 || true
[ -e "$work/plain.o" ] || {
	echo "zmerge: nothing can be compiled for $kdir; the compiler says:" >&2
	tail -n 20 "$work/log" >&2
	exit 1
}

{
	echo "/* SPDX-License-Identifier: GPL-2.0-only */"
	echo "/* Written by probe.sh. */"
	while read -r name; do
		if [ -e "$work/$name.o" ]; then
			echo "#define ZM_HAS_$name 1"
		else
			echo "#define ZM_HAS_$name 0"
		fi
	done <"$work/names"
} >"$work/header"
cmp -s "$work/header" "$header" || cp "$work/header" "$header"
