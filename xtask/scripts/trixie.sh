# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# To be sourced: unpacks Debian 13's compiler, the oldest that we support, in the cache (cache.sh).
# It runs in a chroot in its own mount namespace, so nothing stays mounted and nothing is installed.
# Crates come from cargo's own cache. The sourcing script must be in the project's folder and define
# a function `die`.

. xtask/scripts/cache.sh

# Unpacks the compiler under this name in the cache, with additional packages as for
# debian-suite.sh:
# trixie_compiler NAME [PACKAGE...] [--alone PACKAGE...]
trixie_compiler() {
	local name=$1
	shift
	[ "$(dpkg --print-architecture)" = amd64 ] || die "only written for an amd64 machine"
	trixie_entry=$(xtask/scripts/debian-suite.sh trixie "$name" rustc cargo gcc libc6-dev "$@")
	cache_lock --shared "$trixie_entry"
	"${CARGO:-cargo}" fetch --quiet --locked
}

# Runs a program of the unpacked Debian, with this project and cargo's cache at their usual paths.
# Exported variables CARGO_TARGET_*, CC_* and those for pkg-config are passed on.
trixie() {
	local cargo_home=${CARGO_HOME:-$HOME/.cargo} map=
	# a user namespace if this is not root
	[ "$(id -u)" = 0 ] || map=--map-root-user
	unshare $map --mount --propagation private bash -euc '
		root=$1 cargo_home=$2 project=$3
		shift 3
		for folder in /dev /proc /tmp "$cargo_home" "$project"; do
			mkdir -p "$root$folder"
			mount --rbind "$folder" "$root$folder"
		done
		names="CARGO_TARGET_[A-Z0-9_]+_(LINKER|RUSTFLAGS)|CC_[a-z0-9_]+|PKG_CONFIG_ALLOW_CROSS|ZSTD_SYS_USE_PKG_CONFIG"
		mapfile -t settings < <(env | grep -E "^($names)=")
		exec env --ignore-environment PATH=/usr/sbin:/usr/bin HOME=/tmp CC=gcc \
			CARGO_HOME="$cargo_home" CARGO_TARGET_DIR="$project/target/oldest" \
			CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER=gcc "${settings[@]}" \
			chroot "$root" "$@"
	' bash "$trixie_entry/root" "$cargo_home" "$PWD" "$@"
}
