#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Removes what install.sh installed: uninstall.sh [--purge] [PREFIX]
#
# Before that, it undoes what only the program can undo, and lists the plans that stay in force. With
# --purge it also removes the journals and records in /var/lib/pagewise, unless they say how to undo
# something. PREFIX and DESTDIR are those of install.sh; without them, it removes the installation
# that it is a part of.
set -eu

@REMOVAL@

purge=
[ "${1-}" != --purge ] || { purge=yes; shift; }
prefix=${1:-${PREFIX-}}
if [ -n "$prefix" ]; then
	to=${DESTDIR-}$prefix
else
	to=$(cd "$(dirname "$0")/../.." && pwd)
fi
list=$to/share/pagewise/files
if [ ! -e "$list" ]; then
	echo "uninstall: $list is missing: expected an installation by install.sh in $to" >&2
	echo "  next: give its PREFIX, for example uninstall.sh /usr/local" >&2
	exit 1
fi

if [ -z "${DESTDIR-}" ] && [ -e "$to/bin/pagewise" ]; then
	pagewise_before_removal "$to/bin/pagewise"
	if [ -d /run/systemd/system ]; then
		for unit in @UNITS@; do systemctl disable --now "$unit" || true; done
	fi
fi
files=$(cat "$list")
for file in $files; do
	case $file in
	/* | *..*) echo "uninstall: $list is damaged: $file" >&2; exit 1 ;;
	esac
done
for file in $files; do
	case $file in
	*/) ;;
	*) rm -f "$to/$file" "$to/$file.new" ;;
	esac
done
rm -f "$list" "$list.new"
# the folders that install.sh made, the deepest first, if nobody has put anything into them
for folder in $(printf '%s\n' "$files" | grep '/$' | sort -r); do
	rmdir "$to/$folder" 2>/dev/null || true
done
if [ -z "${DESTDIR-}" ]; then
	[ ! -d /run/systemd/system ] || systemctl daemon-reload || true
	[ -z "$purge" ] || pagewise_purge /var/lib/pagewise
fi
echo "removed from $to"
