#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Determines the interfaces of a kernel by compiling a few lines against its build folder for each
# known form, and writes a header with those that compile. If no known form of an interface
# compiles, the header contains an #error.
#
#   probe.sh KDIR HEADER [FEATURES]      FEATURES: features.txt beside this script
set -eu

kdir=$1
header=$2
here=$(cd "$(dirname "$0")" && pwd)
features=${3-$here/features.txt}
[ -e "$kdir/Makefile" ] || {
	echo "zmerge: $kdir is no kernel's build folder: install the kernel's headers, or say KDIR=" >&2
	exit 1
}
mkdir -p "$(dirname "$header")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Each block of features.txt becomes a file NAME.N.c: form N of an interface.
awk -v to="$work" '
	/^# / { next }
	/^== / { name = $2; sub("^!", "", name); file = to "/" name "." ++forms[name] ".c"
		print "#include <linux/module.h>" > file; print name, forms[name] ($2 ~ /^!/ ? " 0" : " 1"); next }
	name { print > file }' "$features" >"$work/forms"

while read -r name form _; do
	echo "obj-m += $name.$form.o"
done <"$work/forms" >"$work/Kbuild"
echo 'obj-m += plain.o' >>"$work/Kbuild"
echo '#include <linux/module.h>' >"$work/plain.c"

make -k -C "$kdir" M="$work" modules >"$work/log" 2>&1 || true
[ -e "$work/plain.o" ] || {
	echo "zmerge: nothing can be compiled for $kdir; the compiler says:" >&2
	tail -n 20 "$work/log" >&2
	exit 1
}

# Prints the value of the first form that compiles; nothing if none does.
value_of() { # NAME
	while read -r name form value; do
		if [ "$name" = "$1" ] && [ -e "$work/$name.$form.o" ]; then
			echo "$value"
			return
		fi
	done <"$work/forms"
}

{
	echo "/* SPDX-License-Identifier: GPL-2.0-only */"
	echo "/* Written by probe.sh. */"
	cut -d ' ' -f 1 "$work/forms" | uniq | while read -r feature; do
		value=$(value_of "$feature")
		if [ -n "$value" ]; then
			echo "#define ZM_HAS_$feature $value"
			continue
		fi
		echo "#error \"zmerge: $feature: this kernel has none of the forms in probe/features.txt\""
		echo "zmerge: $feature: no known form compiles; the compiler says:" >&2
		grep "/$feature\\.[0-9]*\\.c.*error:" "$work/log" >&2 || true
	done
} >"$work/header"
cmp -s "$work/header" "$header" || cp "$work/header" "$header"
