#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Unpacks Debian packages of any suite into a folder, beside the system and never over it.
#
#   debian-suite.sh [--with-dependencies] SUITE FOLDER PACKAGE[:ARCHITECTURE]...
#
# The packages end up in FOLDER/root. Versions are what SUITE holds today (no point release is
# named). They come from the mirror that this machine's apt already uses and are verified with the
# Debian keyring. Needs no root. What was unpacked once is not fetched again: remove FOLDER to
# fetch newer versions. Nothing is configured: maintainer scripts do not run.
set -euo pipefail

die() {
	printf 'debian-suite: %s\n' "$*" >&2
	exit 1
}

usage() {
	die "usage: debian-suite.sh [--with-dependencies] SUITE FOLDER PACKAGE[:ARCHITECTURE]..."
}

keyring() {
	local candidate
	for candidate in /usr/share/keyrings/debian-archive-keyring.{gpg,pgp}; do
		[ -r "$candidate" ] && { echo "$candidate"; return; }
	done
	die "no Debian keyring here: apt-get install debian-archive-keyring"
}

# The first Debian archive among apt's own sources. Security archives have no other suites' pools.
mirror() {
	local found
	found=$(apt-get indextargets --format '$(LABEL)	$(REPO_URI)' 'Created-By: Packages' |
		awk -F '\t' '$1 == "Debian" { print $2; exit }')
	[ -n "$found" ] || die "apt on this machine has no Debian archive (or no lists yet: apt-get update)"
	echo "$found"
}

# An apt of its own: own lists, own archive, and an empty status file, so that dependencies are
# resolved as on a machine where nothing is installed.
write_configuration() {
	mkdir -p "$apt"/{lists/partial,archives/partial,empty}
	: >"$apt/status"
	echo "deb [signed-by=$(keyring)] $(mirror) $suite main" >"$apt/sources.list"
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
	own_apt update || die "the lists of $suite could not be fetched"
	if [ -n "$with_dependencies" ]; then
		own_apt install --yes --download-only "${packages[@]}" ||
			die "$suite: not to be had with dependencies: ${packages[*]}"
	else
		(cd "$apt/archives" && own_apt download "${packages[@]}") ||
			die "$suite: not to be had: ${packages[*]}"
	fi
}

# Older suites keep files in both /lib and /usr/lib: with the links made first they land together.
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
		basename "$package" .deb >>"$folder/unpacked"
		rm "$package"
	done
}

with_dependencies=
if [ "${1-}" = --with-dependencies ]; then
	with_dependencies=yes
	shift
fi
[ $# -ge 3 ] || usage
suite=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
shift 2
packages=("$@")

apt=$folder/apt
root=$folder/root
# A stamp for each set of packages; FOLDER may grow by several calls.
stamp=$folder/stamps/$(printf '%s\n' "$suite" "$with_dependencies" "${packages[@]}" | sha256sum | cut -c1-16)
[ -e "$stamp" ] && exit 0

for program in apt-get dpkg-deb tar; do
	command -v "$program" >/dev/null || die "$program is missing: this needs a Debian system"
done
mapfile -t architectures < <({
	dpkg --print-architecture
	printf '%s\n' "${packages[@]}" | sed -n 's/.*://p'
} | awk '!seen[$0]++')

write_configuration
rm -f "$apt"/archives/*.deb
fetch
unpack
rm -rf "$apt/lists"
mkdir -p "$folder/stamps"
printf '%s\n' "$suite" "${packages[@]}" >"$stamp"
