#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Puts the files of the program into a folder, as all packages have them: stage.sh FOLDER
#
# The files are in FOLDER/usr. The program writes its man pages and completions itself, so
# these always belong to it. Units are installed, never enabled.
set -euo pipefail
. "$(dirname "$0")/common.sh"

[ $# = 1 ] || die "usage: stage.sh FOLDER"
[ -x "$program" ] || die "$program is missing: \`make build\` makes it"
to=$1/usr
share=$to/share

install -D --mode=755 "$program" "$to/bin/pagewise"

pages=$(mktemp -d)
trap 'rm -r "$pages"' EXIT
"$program" man "$pages"
for page in "$pages"/* packaging/man/*; do
	install -D --mode=644 "$page" "$share/man/man${page##*.}/$(basename "$page")"
done

completion() { # SHELL FILE
	mkdir -p "$(dirname "$share/$2")"
	"$program" completions "$1" >"$share/$2"
}
completion bash bash-completion/completions/pagewise
completion fish fish/vendor_completions.d/pagewise.fish
completion zsh "${ZSH_FOLDER:-zsh/site-functions}/_pagewise"

for unit in packaging/systemd/*; do
	[ ! -f "$unit" ] || install -D --mode=644 --target-directory="$to/lib/systemd/system" "$unit"
done

doc=$share/doc/pagewise
install -D --mode=644 --target-directory="$doc" README.md CHANGELOG.md
[ ! -d examples ] || cp --recursive --no-preserve=mode,ownership examples "$doc/examples"
install -D --mode=644 --target-directory="$doc/examples/prometheus" packaging/prometheus/*.{yml,json}
packaging/copyright.sh pagewise ${DEBIAN_COPYRIGHT:+--debian} >"$doc/copyright"
# What is in the program, for those who look for crates with known defects.
triple=$("${RUSTC:-rustc}" --version --verbose | sed -n 's/^host: //p')
"$cargo" run --quiet --locked --package xtask -- licences --target "$triple" --sbom >"$doc/pagewise.cdx.json"
chmod 644 "$doc/pagewise.cdx.json"
