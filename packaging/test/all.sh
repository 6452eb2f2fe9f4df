#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Tests all packages of the shipped program: checks by lintian and rpmlint, sizes, and what the other
# scripts here do. CYCLES is how often each Debian package is installed and removed. Root only.
set -euo pipefail
. "$(dirname "$0")/../common.sh"

need_packages lintian rpmlint
xtask/scripts/build-static.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PACKAGES=$work
packaging/build.sh

# Every error and warning fails; packaging/debian/*.lintian-overrides has the exceptions and their reasons.
lintian --allow-root --fail-on error,warning "$work"/*.deb
rpmlint --config packaging/rpm/rpmlint.toml "$work"/*.rpm
for file in "$work"/pagewise_*.deb "$work"/*.rpm "$work"/*.tar.zst; do
	size=$(stat --format %s "$file")
	[ "$size" -le $((5 << 20)) ] || die "$(basename "$file"): expected at most 5 MiB, found $size bytes"
	echo "$(basename "$file"): $size bytes"
done
packaging/test/piuparts.sh bookworm
kernel/zmerge/dkms-in-use.sh "$(xtask/scripts/build-static.sh --where)" "$work"/pagewise-zmerge-dkms_*.deb bookworm trixie
packaging/test/rpm.sh
ARCHIVE=$(echo "$work"/*.tar.zst) packaging/test/debian.sh
