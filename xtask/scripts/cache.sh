#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The folder for what tests fetch or build once: packages of Debian suites, kernels of guests. It is
# outside the project, so that all clones share it: $PAGEWISE_CI_CACHE, else
# $XDG_CACHE_HOME/pagewise-ci, else ~/.cache/pagewise-ci.
#
#   cache.sh where [NAME]    makes the folder, or the folder NAME in it, and prints its path
#   cache.sh prune [DAYS]    removes outdated and unused entries
#   cache.sh verify          compares entries with their packages' checksums, and removes those that differ
#
# An entry is a folder below debian/, made by debian-suite.sh; its name ends with a hash of its
# format, suite and packages. Another list of packages gives another entry, so the contents of an
# entry never change. It is built as NAME.part and then renamed: a folder without .part is complete.
# Its file `packages` is touched at each use. A process that builds or uses an entry holds a lock on
# NAME.lock.
#
# Prune removes entries that were not used for DAYS days (default 30), entries of an older format,
# and the remains of killed runs, but never a locked one. Other folders (guests) are checked and
# pruned by their own tools.
#
# Scripts source this file for its functions and for `cache_format`.

# Increase this when debian-suite.sh unpacks differently: entries of older formats are then no
# longer used, and pruned.
cache_format=2

cache_die() {
	printf 'cache: %s\n' "$@" >&2
	exit 1
}

# Root runs programs of this folder, so other users must not be able to write to it.
cache_check_owner() { # FOLDER
	local owner mode
	read -r owner mode < <(stat --format '%u %a' "$1")
	[ "$owner" = "$(id -u)" ] || cache_die \
		"$1 belongs to user $owner and programs of it are run as user $(id -u)" \
		"  set PAGEWISE_CI_CACHE to a folder of your own, or remove $1"
	[ $((8#$mode & 8#022)) = 0 ] || cache_die \
		"$1 has mode $mode: others may write there, and programs of it are run" \
		"  chmod go-w $1    if nobody else has changed it, else remove it"
}

# Creates the cache, or the folder NAME in it, and prints its path.
cache_folder() { # [NAME]
	local top=${PAGEWISE_CI_CACHE:-} name=${1-} folder
	if [ -z "$top" ]; then
		[ -n "${XDG_CACHE_HOME:-}${HOME:-}" ] || cache_die "no folder for it: set PAGEWISE_CI_CACHE"
		top=${XDG_CACHE_HOME:-$HOME/.cache}/pagewise-ci
	fi
	[[ $top == /* ]] || cache_die "PAGEWISE_CI_CACHE is no absolute path: $top"
	[[ $name =~ ^[A-Za-z0-9][A-Za-z0-9._/-]*$|^$ && $name != *..* ]] || cache_die "no name for a folder: $name"
	folder=$top${name:+/$name}
	(umask 022 && mkdir -p "$folder") || cache_die "$folder cannot be made" \
		"  set PAGEWISE_CI_CACHE to a folder that you may write"
	cache_check_owner "$top"
	cache_check_owner "$folder"
	echo "$folder"
}

# Waits for the lock of an entry: --exclusive to change it, --shared to read. It is held until
# cache_unlock, which releases all locks, or until the script ends.
cache_locks=()
cache_lock() { # --exclusive|--shared ENTRY
	local file
	exec {file}>>"$2.lock"
	cache_locks+=("$file")
	flock --nonblock "$1" "$file" && return
	echo "cache: waiting for another run that uses $2" >&2
	flock "$1" "$file"
}

cache_unlock() {
	local file
	for file in ${cache_locks[@]+"${cache_locks[@]}"}; do exec {file}>&-; done
	cache_locks=()
}

cache_remove() { # ENTRY REASON
	echo "cache: removing $1: $2"
	rm -rf "$1.part"
	# Renamed first: if this is killed, the remains must not look complete.
	[ ! -e "$1" ] || mv "$1" "$1.part"
	rm -rf "$1.part"
}

# Prints why an entry can be removed; prints nothing if it is valid.
cache_useless() { # ENTRY DAYS
	[ -d "$1" ] || { echo "a run that was killed left it"; return; }
	[ "$(head -n 1 "$1/packages" 2>/dev/null)" = "format $cache_format" ] || { echo "its format is older"; return; }
	[ -n "$(find "$1/packages" -mtime "-$2")" ] || echo "not used for $2 days"
}

# All entries, including incomplete ones.
cache_entries() {
	find "$1" -mindepth 1 -maxdepth 1 \( -type d -o -name '*.lock' \) | sed 's/\.\(part\|lock\)$//' | sort -u
}

cache_prune() { # DAYS
	local debian entry reason
	debian=$(cache_folder debian)
	cache_entries "$debian" | while read -r entry; do
		(
			flock --nonblock 9 || { echo "cache: in use: $entry"; exit 0; }
			reason=$(cache_useless "$entry" "$1")
			if [ -n "$reason" ]; then
				[ ! -e "$entry" ] && [ ! -e "$entry.part" ] || cache_remove "$entry" "$reason"
			elif [ -e "$entry.part" ]; then
				rm -rf "$entry.part"
			fi
		) 9>>"$entry.lock"
	done
}

cache_verify() {
	local debian entry bad=0 log
	debian=$(cache_folder debian)
	while read -r entry; do
		[ -d "$entry" ] || continue
		exec 9>>"$entry.lock"
		if ! flock --nonblock 9; then
			echo "cache: in use, not verified: $entry"
		elif log=$(cd "$entry/root" && md5sum --check --quiet --strict "$entry/md5sums" 2>&1); then
			echo "cache: good: $entry: $(wc -l <"$entry/md5sums") files"
		else
			head -n 3 <<<"$log"
			cache_remove "$entry" "damaged; it is fetched again when it is wanted"
			bad=1
		fi
		exec 9>&-
	done < <(cache_entries "$debian")
	return "$bad"
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
	set -euo pipefail
	case ${1-} in
	where) cache_folder "${2-}" ;;
	prune)
		[[ ${2-30} =~ ^[0-9]{1,4}$ ]] || cache_die "DAYS is a number: $2"
		cache_prune "${2-30}"
		;;
	verify) cache_verify ;;
	*) cache_die "usage: cache.sh where [NAME] | prune [DAYS] | verify" ;;
	esac
fi
