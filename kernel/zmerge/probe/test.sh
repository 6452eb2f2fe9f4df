#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Tests probe.sh with a kernel build folder that has a single header: it finds the form that
# compiles, and if none does, files that include the generated header do not compile.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() {
	echo "not so: $*"
	exit 1
}

mkdir -p "$work/kernel/linux"
echo 'int new_form(int a, int b);' >"$work/kernel/linux/module.h"
cat >"$work/kernel/Makefile" <<'END'
include $(M)/Kbuild
modules: $(addprefix $(M)/,$(obj-m))
%.o: %.c
	cc -Werror=implicit-function-declaration -I$(CURDIR) -c -o $@ $<
END
cat >"$work/features" <<'END'
# A comment.

== FIRST
int probe(void) { return new_form(1, 2); }

== !FIRST
int probe(void) { return new_form(1); }

== SECOND
int probe(void) { return new_form(1); }

== !SECOND
int probe(void) { return older_form(1); }

== !SECOND
int probe(void) { return new_form(1, 2); }
END
"$here/probe.sh" "$work/kernel" "$work/known.h" "$work/features"
grep -qx '#define ZM_HAS_FIRST 1' "$work/known.h" || die "the first form is found"
grep -qx '#define ZM_HAS_SECOND 0' "$work/known.h" || die "another form is found"
cc -fsyntax-only "$work/known.h" || die "the header compiles"

cat >>"$work/features" <<'END'

== THIRD
int probe(void) { return older_form(1); }
END
"$here/probe.sh" "$work/kernel" "$work/unknown.h" "$work/features" 2>"$work/said"
grep -q 'THIRD: no known form compiles' "$work/said" || die "a form that is not known is told"
grep -q 'older_form' "$work/said" || die "with what the compiler said"
! cc -fsyntax-only "$work/unknown.h" 2>"$work/said" || die "nothing is built with a form that is not known"
grep -q 'error.*THIRD' "$work/said" || die "the error names the interface"
grep -qx '#define ZM_HAS_SECOND 0' "$work/unknown.h" || die "the others are still found"

mkdir "$work/broken"
printf 'modules:\n\tfalse\n' >"$work/broken/Makefile"
! "$here/probe.sh" "$work/broken" "$work/broken.h" "$work/features" 2>"$work/said" || die "a broken build ends it"
[ ! -e "$work/broken.h" ] || die "and writes no header"
echo "interfaces that are not known are an error"
