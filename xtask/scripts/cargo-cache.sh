#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Keeps the compiled external crates, so that the next fresh clone need not compile them again.
#
#   cargo-cache.sh restore    before the first build of a clone: unpacks it into target
#   cargo-cache.sh save       after a run that passed
#
# An entry is an archive in the folder `cargo` of the cache (cache.sh), named by a hash of
# everything that its contents depend on: the compiler, Cargo.lock, the profiles. It is written
# under another name and renamed when it is complete; its checksum is verified before it is
# unpacked. Cargo itself still decides what it can use: an entry only saves it work. Only a clone
# whose target folder was empty saves an entry, so that it contains nothing old. The three most
# recently used entries are kept.
set -euo pipefail

cd "$(dirname "$0")/../.."
. xtask/scripts/cache.sh
format=1
target=${CARGO_TARGET_DIR:-target}
begun=$target/cargo-cache

key() {
	{
		echo "$format ${RUSTFLAGS:-}"
		"${RUSTC:-rustc}" --version --verbose
		cat Cargo.lock Cargo.toml .cargo/config.toml fuzz/Cargo.lock
	} | sha256sum | cut -c 1-16
}

# Folders in which cargo keeps compiled crates: target/debug, target/ship/TRIPLE/release …
profiles() {
	find "$target" -maxdepth 4 -type d -name .fingerprint -printf '%h\n'
}

# All of it except our own crates, which every clone compiles itself, because cargo identifies them
# by path.
foreign_units() {
	local profile
	profiles | while read -r profile; do
		find "$profile" -mindepth 2 -maxdepth 2 -regex '.*/\(\.fingerprint\|build\|deps\)/[^/]*' \
			! -name '*pagewise*' ! -name 'xtask*' ! -name '*libfuzzer_sys*' -print0
	done
}

restore() {
	local entry=$folder/$1.tar
	# The folder is from an older run, or from the user.
	[ ! -e "$target" ] || [ -z "$(ls -A "$target")" ] || return 0
	mkdir -p "$target"
	if [ -e "$entry" ] && verified "$entry"; then
		tar --extract --file "$entry" --directory "$target"
		touch "$entry"
		echo restored >"$begun"
		echo "cargo-cache: compiled crates of an earlier clone are in $target" >&2
	else
		echo empty >"$begun"
	fi
}

verified() {
	[ -e "$1.sha256" ] && (cd "$folder" && sha256sum --check --quiet --status "$(basename "$1").sha256") && return
	echo "cargo-cache: $1 is damaged and not used; it is made again" >&2
	return 1
}

save() {
	local entry=$folder/$1.tar
	[ "$(cat "$begun" 2>/dev/null)" = empty ] || return 0
	(
		flock --nonblock 9 || exit 0
		rm -f "$folder"/*.part
		if ! foreign_units | sed --null-data "s|^$target/||" |
			tar --create --file "$entry.part" --directory "$target" --null --files-from -; then
			rm -f "$entry.part"
			echo "cargo-cache: nothing is kept: $folder has no room, or cannot be written" >&2
			exit 0
		fi
		sum=$(sha256sum <"$entry.part" | cut -d ' ' -f 1)
		mv "$entry.part" "$entry"
		echo "$sum  $1.tar" >"$entry.sha256"
		echo saved >"$begun"
		find "$folder" -name '*.tar' -printf '%T@ %p\n' | sort -rn | tail -n +4 | cut -d ' ' -f 2- |
			while read -r old; do rm -f "$old" "$old.sha256"; done
	) 9>>"$folder/save.lock"
}

folder=$(cache_folder cargo)
case ${1-} in
restore | save) "$1" "$(key)" ;;
*) cache_die "usage: cargo-cache.sh restore | save" ;;
esac
