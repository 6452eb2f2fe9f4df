# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# For the scripts of all packages, which contain this text: what happens before the program is
# removed, and to its state when the package is purged.

# Undoes what only the program can undo, and lists what stays in force. Fails if the program is still
# needed: another run is changing the machine, or a plan on trial could not be undone.
pagewise_before_removal() { # PROGRAM
	# A program of another architecture, or a damaged one, must not prevent its removal.
	if ! "$1" --version >/dev/null 2>&1; then
		echo "pagewise: $1 does not run here, so nothing is undone before it is removed" >&2
		return 0
	fi
	if ! "$1" undo --before-removal >&2; then
		echo "pagewise: not removed, for the reason above" >&2
		return 1
	fi
}

# Removes journals and records, unless a journal still says how to undo something.
pagewise_purge() { # FOLDER
	for pagewise_journal in "$1"/*.plan "$1"/*.journal; do
		[ -e "$pagewise_journal" ] || continue
		echo "pagewise: $1 is kept: $pagewise_journal names changes that are in force" >&2
		echo "  to undo them, install pagewise again and run \`pagewise undo --all\`; to keep them, remove $1" >&2
		return 0
	done
	rm -rf "$1"
}
