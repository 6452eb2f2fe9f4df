#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Installs, removes, installs again and purges the Debian packages with piuparts, which looks for files that
# were left behind, changed or belong to nobody: piuparts.sh [SUITE...] (default: bookworm trixie sid)
#
# Tested are the packages in $PACKAGES (default: target/packages), apart from pagewise-zmerge-dkms: it would bring
# a compiler and a kernel's headers, and the group zmerge-dkms tests it in guests. Root only; piuparts asks
# the mirror for its package lists.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
. packaging/test/roots.sh

[ "$(id -u)" = 0 ] || die "piuparts needs root"
need_packages piuparts
packages=$(realpath "${PACKAGES:-$target/packages}")
work=$(mktemp -d)
# if piuparts was killed, its root still has mounts of this machine
trap 'rm -rf --one-file-system "$work"' EXIT

[ $# -gt 0 ] || set -- bookworm trixie sid
for suite; do
	archive=$(root_archive "$suite")
	gzip -1 --stdout "$archive" >"$work/root.tar.gz"
	for set in "$packages"/pagewise_*.deb "$packages"/libhugepool*.deb; do
		case $set in
		*/libhugepool0_*) set=$(echo "$packages"/libhugepool*.deb) ;;
		*/libhugepool*) continue ;;
		esac
		# shellcheck disable=SC2086 # several files
		piuparts --basetgz "$work/root.tar.gz" --distribution "$suite" --tmpdir "$work" --no-eatmydata $set \
			>"$work/log" 2>&1 || {
			grep -E ' (ERROR|FAIL)|^  ' "$work/log" | tail -n 40
			die "piuparts, $suite: $set"
		}
		grep --quiet 'PASS: All tests' "$work/log" || die "piuparts, $suite: no result for $set"
		echo "piuparts, $suite: $(echo $set | xargs -n 1 basename | sed 's/_.*//' | xargs) passed"
	done
done
