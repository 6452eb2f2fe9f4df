#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Draws docs/pictures/hugepool-dictionary.png and hugepool-cache.png: the two example programs with malloc() in pages of
# 4 KiB and with hugepool, from their start to their end: pictures.sh PAGEWISE
#
# The charts are those of `pagewise thp collapse --watch --evidence`, which records twice a second
# and is stopped before its first pass, so that it collapses nothing. Needs root (for that command)
# and chromium, and 2 GiB of memory. The machine's huge page setting must be madvise, so that
# malloc() gets none.
set -euo pipefail

pagewise=$(realpath "${1:?usage: pictures.sh PAGEWISE}")
cd "$(dirname "$0")/../.."
examples=${CARGO_TARGET_DIR:-target}/library/examples
grep --quiet '\[madvise\]' /sys/kernel/mm/transparent_hugepage/enabled || {
	echo 'pictures: /sys/kernel/mm/transparent_hugepage/enabled is not madvise' >&2
	exit 1
}
"${CARGO:-cargo}" build --locked --package hugepool --profile library --example dictionary --example cache
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

# Runs a program while pagewise records it; the program waits at its end until it has been recorded
# there.
record() { # NAME COMMAND...
	local name=$1 program watcher
	shift
	mkfifo "$folder/$name.in"
	bash -c 'read -r; exec "$@"' bash "$@" hold=yes <"$folder/$name.in" >"$folder/$name.out" &
	program=$!
	exec 7>"$folder/$name.in"
	"$pagewise" thp collapse --pid "$program" --watch --every 30m --evidence "$folder/$name" >"$folder/$name.txt" 2>&1 &
	watcher=$!
	sleep 2
	echo begin >&7
	while kill -0 "$program" 2>/dev/null && ! grep --quiet holding "$folder/$name.out"; do sleep 0.5; done
	sleep 2
	kill -INT "$watcher"
	wait "$watcher"
	exec 7>&-
	wait "$program"
	grep --quiet ' 0 blocks ' "$folder/$name.txt"
	cat "$folder/$name.out"
}

# The first two charts of a page: coverage and memory.
charts() { # NAME
	tr '\n' ' ' <"$folder/$1/report.html" | grep --only-matching '<svg.*</svg>' | sed 's|</svg>|</svg>\n|g' | head -n 2
}

figure_of() { # NAME PATTERN
	sed -n "s/$2/\1/p" "$folder/$1.out" | head -n 1
}

column() { # HEADING NAME
	printf '<div><h2>%s</h2>%s</div>\n' "$1" "$(charts "$2")"
}

draw() { # PICTURE TITLE, columns on standard input
	{
		echo '<!DOCTYPE html><meta charset="utf-8">'
		# The first <style> is the page's; the charts have their own.
		sed -n '/^<style>/,/<\/style>/p; /<\/style>/q' "$folder/cache-malloc/report.html" | sed 's|</style>.*|</style>|'
		echo '<style>body { max-width: none; margin: 12px; padding: 0 } h1 { margin: 0 }
			h2 { margin: 12px 0; border: 0; padding: 0 } svg { width: 100%; height: auto }
			.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 24px }</style>'
		printf '<h1>%s</h1><div class="pair">\n' "$2"
		cat
		echo '</div>'
	} >"$folder/$1.html"
	chromium --headless=new --no-sandbox --disable-gpu --hide-scrollbars --window-size=1400,430 \
		--screenshot="$PWD/docs/pictures/$1.png" "file://$folder/$1.html" 2>/dev/null
}

record cache-malloc "$examples/cache" store=malloc bursts=200 keep-kib=35
record cache-hugepool "$examples/cache" store=hugepool bursts=200 keep-kib=35
record dictionary-malloc "$examples/dictionary" store=malloc lookups=20000000
record dictionary-hugepool "$examples/dictionary" store=hugepool lookups=20000000

resident='.* \([0-9]*\) KiB resident after .*'
{
	column "malloc(), pages of 4 KiB: $(figure_of cache-malloc "$resident") KiB resident at the end" cache-malloc
	column "hugepool: $(figure_of cache-hugepool "$resident") KiB resident at the end" cache-hugepool
} | draw hugepool-cache 'examples/cache: 200 bursts of 64 MiB that expire, and 7 MB that stay'
lookup='^\([0-9.]*\) ns of CPU for a lookup.*'
{
	column "malloc(), pages of 4 KiB: $(figure_of dictionary-malloc "$lookup") ns of CPU for a lookup" dictionary-malloc
	column "hugepool: $(figure_of dictionary-hugepool "$lookup") ns of CPU for a lookup" dictionary-hugepool
} | draw hugepool-dictionary 'examples/dictionary: 1 GiB of entries, 20 million lookups'
