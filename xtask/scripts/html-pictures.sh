#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Draws the pictures of a report as a web page, docs/pictures/hosts/html-{light,dark}.png, from a recording. Needs
# Chromium. Not part of any check: the bytes of a picture depend on the browser and its fonts.
#
#   html-pictures.sh [PROGRAM]
set -euo pipefail
cd "$(dirname "$0")/../.."

program=${1:-target/debug/pagewise}
recording=fixtures/hosts/debian-trixie-6.12-x86_64-256m-oom-limit.tar
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
	echo "html-pictures.sh: no Chromium: apt install chromium" >&2
	exit 1
}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"$program" report --root "$recording" --html "$place/report.html" >/dev/null
# preferredColorScheme: 0 is dark, 1 is light
for scheme in dark:0 light:1; do
	timeout 120 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$place/profile" \
		--window-size=1000,700 --blink-settings=preferredColorScheme="${scheme#*:}" \
		--screenshot="$PWD/docs/pictures/hosts/html-${scheme%:*}.png" "file://$place/report.html" 2>/dev/null
done
ls -l docs/pictures/hosts/html-*.png
