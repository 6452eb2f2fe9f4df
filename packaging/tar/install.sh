#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Installs Pagewise from this folder: install.sh [PREFIX]
#
# PREFIX is /usr/local by default; the variable of that name does the same. DESTDIR is prepended to
# it, as in makefiles. It enables no unit and changes no setting. It replaces files of an earlier
# installation by this script, and no others; PREFIX/share/pagewise/uninstall.sh removes them.
set -eu
umask 022

prefix=${1:-${PREFIX:-/usr/local}}
to=${DESTDIR-}$prefix
here=$(cd "$(dirname "$0")" && pwd)
list=$to/share/pagewise/files

die() {
	printf 'install: %s\n' "$@" >&2
	exit 1
}

case $prefix in
*[!A-Za-z0-9/._-]*) die "expected a folder of letters, digits and / . _ -, found $prefix" ;;
/*) ;;
*) die "expected the path of a folder, found $prefix" ;;
esac
"$here/usr/bin/pagewise" --version >/dev/null 2>&1 ||
	[ -n "${DESTDIR-}" ] || die "$here/usr/bin/pagewise does not run on this machine: is it $(uname -m)?" "  nothing was installed"

files=$(cd "$here/usr" && find . -type f | sed 's|^\./||' | sort)
for file in $files; do
	if [ -e "$to/$file" ] && ! grep -qxF "$file" "$list" 2>/dev/null; then
		die "$to/$file exists and is of no earlier installation by this script; nothing was installed" \
			"  remove it, or the package that it belongs to, or install to another PREFIX"
	fi
done

# The folders that this makes, each with a slash at its end; uninstall.sh removes no other folder.
folders=$(
	for file in $files share/pagewise/files; do
		folder=$(dirname "$file")
		while [ "$folder" != . ]; do
			[ -e "$to/$folder" ] || echo "$folder/"
			folder=$(dirname "$folder")
		done
	done | sort -u
	grep '/$' "$list" 2>/dev/null || true
)
# The list of an earlier version may have files that this one has not.
old=$(grep -v '/$' "$list" 2>/dev/null || true)
all=$(printf '%s\n' "$folders" "$files" share/pagewise/uninstall.sh | grep . | sort -u)

# Written first, so that uninstall.sh also removes what an interrupted installation left. A file has
# its name when it is complete.
mkdir -p "$to/share/pagewise"
printf '%s\n' "$all" "$old" | grep . | sort -u >"$list.new"
mv "$list.new" "$list"
put() { # FROM TO MODE
	mkdir -p "$(dirname "$2")"
	# units name the program by its path
	case $2 in
	*/systemd/system/*) sed "s|/usr/bin/pagewise|$prefix/bin/pagewise|g" "$1" >"$2.new" ;;
	*) cp "$1" "$2.new" ;;
	esac || { rm -f "$2.new"; die "$2 could not be written; run this script again when that is mended, or uninstall.sh"; }
	chmod "$3" "$2.new"
	mv "$2.new" "$2"
}
for file in $files; do
	mode=644
	[ ! -x "$here/usr/$file" ] || mode=755
	put "$here/usr/$file" "$to/$file" "$mode"
done
put "$here/uninstall.sh" "$to/share/pagewise/uninstall.sh" 755
for file in $old; do
	printf '%s\n' "$all" | grep -qxF "$file" || rm -f "$to/$file"
done
printf '%s\n' "$all" >"$list.new"
mv "$list.new" "$list"
if [ -z "${DESTDIR-}" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
echo "installed into $to; to remove it: $to/share/pagewise/uninstall.sh"
