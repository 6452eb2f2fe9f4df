#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Builds all packages twice and compares every byte: in this folder, and in a clone of its commit at
# another path, by another user (nobody), with another home, umask, time zone and language, later.
# Both build the program, unless PAGEWISE_PROGRAM is the first one. Root only; needs no network; takes as
# long as two builds of the program.
set -euo pipefail
. "$(dirname "$0")/common.sh"

[ "$(id -u)" = 0 ] || die "building as another user needs root"
[ -z "$(git status --porcelain)" ] || die "expected a clean work tree: the second build is of the last commit"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"

echo "packages: first build, in $project" >&2
[ -n "${PAGEWISE_PROGRAM:-}" ] || xtask/scripts/build-static.sh
PACKAGES=$work/one packaging/build.sh >/dev/null

other=$work/another/folder
home=$work/home
mkdir -p "$work/another" "$home/.cargo" "$home/rust" "$work/two"
git clone --quiet --no-hardlinks "$project" "$other"
cp -r "${CARGO_HOME:-$HOME/.cargo}/registry" "$home/.cargo/"
chown -R nobody: "$work/another" "$home" "$work/two"
compiler=$("${RUSTC:-rustc}" --print sysroot)
echo "packages: second build, in $other as nobody" >&2
# The compiler may be in the home of root, where nobody else can look.
unshare --mount --propagation private bash -euc '
	compiler=$1 other=$2 home=$3 to=$4
	path=/usr/local/bin:/usr/bin:/bin
	if [ "$compiler" != /usr ]; then
		mount --bind "$compiler" "$home/rust"
		path=$home/rust/bin:$path
	fi
	cd "$other"
	umask 077
	exec env --ignore-environment HOME="$home" PATH="$path" TZ=Pacific/Kiritimati LANG=C.UTF-8 \
		CARGO_NET_OFFLINE=true PACKAGES="$to" \
		setpriv --reuid=nobody --regid=nogroup --clear-groups bash -euc "
			umask 077
			git config --global --add safe.directory \"*\"
			xtask/scripts/build-static.sh
			packaging/build.sh >/dev/null"
' bash "$compiler" "$other" "$home" "$work/two"

differ=0
while read -r file; do
	if cmp --quiet "$work/one/$file" "$work/two/$file"; then
		printf 'same: %s %s\n' "$(sha256sum <"$work/one/$file" | cut -c 1-16)" "$file"
	else
		differ=1
		echo "different: $file"
		! command -v diffoscope >/dev/null || diffoscope --max-report-size 20000 "$work/one/$file" "$work/two/$file" | head -n 60 || true
	fi
done < <(cd "$work" && { cd one && find . -type f; cd ../two && find . -type f; } | sort -u)
[ "$differ" = 0 ] || die "the packages depend on who builds them, where or when"
