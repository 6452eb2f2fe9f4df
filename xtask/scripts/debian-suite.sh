#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Unpacks Debian packages of any suite into an entry of the cache (see cache.sh), without touching
# the system, and prints the path of the entry. The packages are in its folder root.
#
#   debian-suite.sh SUITE NAME PACKAGE[:ARCHITECTURE]... [--alone PACKAGE[:ARCHITECTURE]...]
#
# Packages come with their dependencies; those after --alone without. The entry is debian/NAME-HASH,
# where HASH is of the format, the suite and the packages. The versions are those that SUITE has on
# the day of the download. They come from the mirror that this machine's apt already uses and are
# verified with the Debian keyring. Needs no root. An existing entry is not fetched again and needs
# no network. Nothing is configured: maintainer scripts do not run.
set -euo pipefail
umask 022

here=$(cd "$(dirname "$0")" && pwd)
. "$here/cache.sh"

die() {
	printf 'debian-suite: %s\n' "$@" >&2
	exit 1
}

usage() {
	die "usage: debian-suite.sh SUITE NAME PACKAGE[:ARCHITECTURE]... [--alone PACKAGE[:ARCHITECTURE]...]"
}

keyring() {
	local candidate
	for candidate in /usr/share/keyrings/debian-archive-keyring.{gpg,pgp}; do
		[ -r "$candidate" ] && { echo "$candidate"; return; }
	done
	die "no Debian keyring here: apt-get install debian-archive-keyring"
}

# The first Debian archive among apt's own sources. Security archives lack the pools of other
# suites.
mirror() {
	local found
	found=$(apt-get indextargets --format '$(LABEL)	$(REPO_URI)' 'Created-By: Packages' |
		awk -F '\t' '$1 == "Debian" { print $2; exit }')
	[ -n "$found" ] || die "apt on this machine has no Debian archive (or no lists yet: apt-get update)"
	echo "$found"
}

# The configuration of a separate apt, with its own lists, its own archive, and an empty status
# file, so that dependencies are resolved as on a machine without any packages.
write_configuration() {
	local keyring mirror
	keyring=$(keyring)
	mirror=$(mirror)
	mkdir -p "$apt"/{lists/partial,archives/partial,empty}
	: >"$apt/status"
	echo "deb [signed-by=$keyring] $mirror $suite main" >"$apt/sources.list"
	cat >"$apt/apt.conf" <<-END
		Dir::Etc::sourcelist "$apt/sources.list";
		Dir::Etc::sourceparts "$apt/empty";
		Dir::Etc::preferences "$apt/empty/none";
		Dir::Etc::preferencesparts "$apt/empty";
		Dir::State "$apt";
		Dir::State::lists "$apt/lists";
		Dir::State::status "$apt/status";
		Dir::Cache "$apt";
		Dir::Cache::archives "$apt/archives";
		Acquire::Languages "none";
		Acquire::Retries "3";
		APT::Install-Recommends "0";
		APT::Update::Error-Mode "any";
		APT::Sandbox::User "$(id -un)";
		#clear APT::Architectures;
		APT::Architectures { $(printf '"%s"; ' "${architectures[@]}") };
		#clear APT::Update::Post-Invoke;
		#clear APT::Update::Post-Invoke-Success;
		#clear DPkg::Post-Invoke;
		#clear DPkg::Pre-Install-Pkgs;
	END
}

own_apt() {
	apt-get --quiet=2 --config-file="$apt/apt.conf" "$@"
}

fetch() {
	own_apt update || die "the package lists of $suite could not be fetched"
	[ ${#packages[@]} = 0 ] || own_apt install --yes --download-only "${packages[@]}" ||
		die "$suite has not, with dependencies: ${packages[*]}"
	[ ${#alone[@]} = 0 ] || (cd "$apt/archives" && own_apt download "${alone[@]}") ||
		die "$suite has not: ${alone[*]}"
}

# Older suites have files in both /lib and /usr/lib: the links are made first, so that all files end
# up in /usr/lib.
prepare_root() {
	local folder
	mkdir -p "$root/usr"
	for folder in bin sbin lib lib64; do
		mkdir -p "$root/usr/$folder"
		[ -e "$root/$folder" ] || ln -s "usr/$folder" "$root/$folder"
	done
}

unpack() {
	local package
	prepare_root
	for package in "$apt"/archives/*.deb; do
		dpkg-deb --fsys-tarfile "$package" |
			tar --extract --keep-directory-symlink --no-same-owner --directory "$root" ||
			die "$package could not be unpacked into $root"
		dpkg-deb --ctrl-tarfile "$package" | tar --extract --to-stdout ./md5sums >>"$part/md5sums" 2>/dev/null || true
		basename "$package" .deb >>"$part/unpacked"
		rm "$package"
	done
}

# Unpacks everything into $part; the stamp is written last.
make_part() {
	set -e
	rm -rf "$part"
	mkdir -p "$part"
	write_configuration
	fetch
	unpack
	rm -rf "$apt"
	key >"$part/packages"
	sync --file-system "$part/packages"
}

# The description of the entry, whose hash is part of its name.
key() {
	printf '%s\n' "format $cache_format" "$suite" "${packages[@]}" --alone ${alone[@]+"${alone[@]}"}
}

is_whole() {
	[ -e "$entry/packages" ]
}

make_entry() {
	local log status=0 program
	for program in apt-get dpkg-deb tar md5sum; do
		command -v "$program" >/dev/null || die "$program is missing: this needs a Debian system"
	done
	echo "debian-suite: fetching $name of $suite into $entry" >&2
	# Not in a condition, in which bash would ignore errors. The log is kept in memory, because
	# the disk may be full.
	set +e
	log=$(make_part 2>&1 >/dev/null)
	status=$?
	set -e
	if [ "$status" = 0 ]; then
		mv --no-target-directory "$part" "$entry"
		return
	fi
	rm -rf "$part"
	if grep --quiet --extended-regexp 'No space left|enough free space|quota exceeded' <<<"$log"; then
		die "no space left on the disk of $entry; make room (cache.sh prune) or set PAGEWISE_CI_CACHE to another disk"
	fi
	tail -n 20 <<<"$log" >&2
	die "$entry is not in the cache and could not be fetched" \
		"  next: see that the Debian mirror of this machine's apt can be reached, or bring the folder from a machine that has it"
}

[ $# -ge 3 ] || usage
suite=$1
name=$2
shift 2
packages=()
alone=()
while [ $# -gt 0 ] && [ "$1" != --alone ]; do
	packages+=("$1")
	shift
done
[ $# = 0 ] || { shift; alone=("$@"); }
[ ${#packages[@]} -gt 0 ] || [ ${#alone[@]} -gt 0 ] || usage

debian=$(cache_folder debian)
entry=$debian/$name-$(key | sha256sum | cut -c1-12)
part=$entry.part
apt=$part/apt
root=$part/root

# Waits for another run that makes this entry, or makes it itself. While the lock is held, prune
# cannot remove the entry before it is touched.
exec 8>>"$entry.lock"
flock --shared 8
if ! is_whole; then
	flock --unlock 8
	flock 8
	if ! is_whole; then
		mapfile -t architectures < <({
			dpkg --print-architecture
			printf '%s\n' "${packages[@]}" ${alone[@]+"${alone[@]}"} | sed -n 's/.*://p'
		} | awk '!seen[$0]++')
		make_entry
	fi
fi
touch "$entry/packages"
echo "$entry"
