#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Writes a .deb with the same contents and a later version, for tests of upgrades: later.sh DEB TO
set -euo pipefail

[ $# = 2 ] || { echo "usage: later.sh DEB TO" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
dpkg-deb --raw-extract "$1" "$work/package"
sed --in-place '/^Version: /s/-[0-9]*$/-99/' "$work/package/DEBIAN/control"
dpkg-deb --root-owner-group -Zgzip -z1 --build "$work/package" "$2" >/dev/null
dpkg-deb --field "$2" Version | grep --quiet -- '-99$'
