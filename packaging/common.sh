# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# To be sourced by the scripts in this folder: where things are, and what version is packaged. It
# changes to the project's folder and sets the variables below.

packaging=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
project=$(dirname "$packaging")
cd "$project"
cargo=${CARGO:-cargo}
target=${CARGO_TARGET_DIR:-target}
case $target in /*) ;; *) target=$project/$target ;; esac
# Packages contain no file that only this user may read, whatever the umask is.
umask 022
export LC_ALL=C TZ=UTC

die() {
	printf 'packages: %s\n' "$@" >&2
	exit 1
}

# Installs what is missing of these Debian packages if this is root, else prints the command.
need_packages() { # PACKAGE...
	local missing
	mapfile -t missing < <(for name; do
		[ "$(dpkg-query --show --showformat '${db:Status-Abbrev}' "$name" 2>/dev/null)" = 'ii ' ] || echo "$name"
	done)
	[ ${#missing[@]} -gt 0 ] || return 0
	[ "$(id -u)" = 0 ] || die "missing to build packages with: ${missing[*]}" \
		"  sudo apt-get install --no-install-recommends ${missing[*]}"
	echo "packages: installing what is missing: ${missing[*]}" >&2
	export DEBIAN_FRONTEND=noninteractive
	apt-get update --quiet=2
	apt-get install --quiet=2 --yes --no-install-recommends "${missing[@]}" >/dev/null
}

version=$(sed -n '/^\[workspace.package\]/,/^\[/ s/^version = "\(.*\)"/\1/p' Cargo.toml)
[ -n "$version" ] || die "Cargo.toml has no version of the workspace"
# The number of the packaging of this version.
revision=${PACKAGE_REVISION:-1}

# The time that the files in the packages have: of the commit, or of the change log if there is no
# git, as in the archive of a release.
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
	SOURCE_DATE_EPOCH=$(git -c safe.directory='*' log -1 --format=%ct 2>/dev/null || stat --format %Y CHANGELOG.md)
fi
# Not exported here: cargo would compile the C libraries again when it changes.

# The program that is packaged: static, so that it needs nothing of the machine.
program=${PAGEWISE_PROGRAM:-$(xtask/scripts/build-static.sh --where)}
case $program in /*) ;; *) program=$project/$program ;; esac
