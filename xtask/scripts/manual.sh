#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Builds the manual as a book of web pages in target/manual/book, and prints the path of its first page.
#
# The book has the documents outside of docs that the manual links to, at the same relative places.
# mdbook is Debian 13's, unpacked in the cache (debian-suite.sh), unless this machine has one.
set -euo pipefail
umask 022
cd "$(dirname "$0")/../.."

place=target/manual
rm -rf "$place"
mkdir -p "$place/src"
cp docs/book.toml "$place/book.toml"
# with the source files that documents link to
git ls-files -z -- 'docs/*' '*.md' LICENSE-APACHE LICENSE-MIT crates/hugepool lab kernel/zmerge |
	grep -zv '^fuzz/\|^docs/book.toml$' | xargs -0 cp --parents -t "$place/src"
# links of the summary are relative to docs, those of the book to the project
sed -e 's|](|](docs/|' -e 's|](docs/\.\./|](|' docs/SUMMARY.md > "$place/src/SUMMARY.md"
rm "$place/src/docs/SUMMARY.md"
# mdbook makes index.html of README.md, but does not follow with links
find "$place/src" -name '*.md' ! -name SUMMARY.md -exec sed -i 's|\(](\([^)]*/\)\?\)README\.md|\1index.md|g' {} +

if command -v mdbook > /dev/null; then
	mdbook build "$place" >&2
else
	root=$(xtask/scripts/debian-suite.sh trixie mdbook mdbook)/root
	"$root/lib64/ld-linux-x86-64.so.2" --library-path "$root/usr/lib/x86_64-linux-gnu" \
		"$root/usr/bin/mdbook" build "$place" >&2
fi
echo "$place/book/index.html"
