# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# To be sourced: Debian 13's compiler, which is the oldest that we promise, unpacked under .cache. It runs in a
# chroot of its own mount namespace, so nothing stays mounted and nothing is installed. Crates come from
# cargo's own cache. Whoever sources it is in the project's folder and has a function `die`.

cache=$PWD/.cache/debian/trixie

# Unpacks the compiler, and one for C for each of the architectures that are named as Debian and as gcc do:
# trixie_compiler arm64:aarch64 ...
trixie_compiler() {
	local fetch=xtask/scripts/debian-suite.sh names
	[ "$(dpkg --print-architecture)" = amd64 ] || die "only written for an amd64 machine"
	[ "$(id -u)" = 0 ] || die "needs root for its chroot"
	$fetch --with-dependencies trixie "$cache" rustc cargo gcc libc6-dev
	for names in "$@"; do
		$fetch --with-dependencies trixie "$cache" \
			"gcc-${names#*:}-linux-gnu" "libc6-dev-${names%:*}-cross"
		$fetch trixie "$cache" "libstd-rust-dev:${names%:*}"
	done
	"${CARGO:-cargo}" fetch --quiet --locked
}

# Runs a program of the unpacked Debian, with this project and cargo's cache where they always are. What is
# exported as CARGO_TARGET_* or CC_* goes along.
trixie() {
	local cargo_home=${CARGO_HOME:-$HOME/.cargo}
	unshare --mount --propagation private bash -euc '
		root=$1 cargo_home=$2 project=$3
		shift 3
		for folder in /dev /proc /tmp "$cargo_home" "$project"; do
			mkdir -p "$root$folder"
			mount --bind "$folder" "$root$folder"
		done
		mapfile -t settings < <(env | grep -E "^(CARGO_TARGET_[A-Z0-9_]+_(LINKER|RUSTFLAGS)|CC_[a-z0-9_]+)=")
		exec env --ignore-environment PATH=/usr/sbin:/usr/bin HOME=/tmp CC=gcc \
			CARGO_HOME="$cargo_home" CARGO_TARGET_DIR="$project/target/oldest" \
			CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER=gcc "${settings[@]}" \
			chroot "$root" "$@"
	' bash "$cache/root" "$cargo_home" "$PWD" "$@"
}
