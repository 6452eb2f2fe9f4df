#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Looks for published advisories about the packages in Cargo.lock, with cargo-deny and its database.
# The database is fetched; if that is not possible, the copy of an earlier run is used, and a line
# says how old it is.
#
#   advisories.sh              exit status 1 if there is an advisory
#   advisories.sh --note       the same, but an advisory is a line instead of a failure: `make lint` must not begin to
#                              fail while the commit stays the same
#   advisories.sh --install    builds cargo-deny first, into the cache (xtask/scripts/cache.sh); it takes many minutes
#
# Lines that begin with "not checked" are repeated at the end of `make lint`.
set -euo pipefail

cd "$(dirname "$0")/../.."
cargo=${CARGO:-cargo}
version=0.18.3
mode=${1-}

note() { echo "not checked: $*"; }

installed() {
	local own
	own=$(xtask/scripts/cache.sh where tools)/cargo-deny-$version/bin/cargo-deny
	if [ -x "$own" ]; then echo "$own"; else command -v cargo-deny; fi
}

if [ "$mode" = --install ] && ! installed >/dev/null; then
	"$cargo" install cargo-deny --locked --version "$version" \
		--root "$(xtask/scripts/cache.sh where tools)/cargo-deny-$version"
fi
if ! deny=$(installed); then
	note "advisories about packages of others: cargo-deny is not installed (xtask/scripts/advisories.sh --install)"
	exit 0
fi

# Cargo-deny keeps its database here, and so the date of the newest commit is that of the newest advisory.
databases=${CARGO_HOME:-$HOME/.cargo}/advisory-db
[ -d "$databases" ] || databases=${CARGO_HOME:-$HOME/.cargo}/advisory-dbs

age() {
	local folder seconds
	folder=$(find "$databases" -mindepth 1 -maxdepth 1 -type d -name 'advisory-db-*' 2>/dev/null | head -n 1)
	seconds=$([ -n "$folder" ] && git -C "$folder" log -1 --format=%ct 2>/dev/null) || return 1
	echo "$((($(date +%s) - seconds) / 86400))"
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! timeout 120 "$deny" fetch db >"$log" 2>&1; then
	if ! days=$(age); then
		note "advisories about packages of others: the database could not be fetched, and there is no earlier copy"
		exit 0
	fi
	note "advisories of the last $days days: the database could not be fetched, so an earlier copy is used"
fi
if "$deny" --offline check advisories >"$log" 2>&1; then
	echo "no advisory about the packages in Cargo.lock; the newest in the database is $(age || echo ?) days old"
	exit 0
fi
cat "$log" >&2
[ "$mode" = --note ] || exit 1
found=$(grep -o 'RUSTSEC-[0-9]*-[0-9]*' "$log" | sort -u | xargs)
note "whether these advisories concern us: ${found:-see xtask/scripts/advisories.sh}"
