# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# To be sourced after common.sh: root folders of Debian suites with apt and dpkg as they are installed,
# for tests of packages. mmdebstrap makes one once; it is kept in the cache (xtask/scripts/cache.sh).
# The tests run in a copy, in mount and process namespaces of their own, so nothing stays mounted.

. xtask/scripts/cache.sh

# Copies the keys of Ubuntu, which Debian 12 does not have, to a file that apt's own user can read.
copy_ubuntu_keys() { # TO
	local folder
	folder=$(xtask/scripts/debian-suite.sh trixie ubuntu-keyring --alone ubuntu-keyring)
	install --mode=644 "$folder/root/usr/share/keyrings/ubuntu-archive-keyring.gpg" "$1"
}

# Prints the archive of a suite's root. mmdebstrap knows the mirrors of Debian and Ubuntu.
root_archive() { # SUITE
	local archive keys
	archive=$(cache_folder roots)/$1-mount.tar
	if [ ! -e "$archive" ]; then
		need_packages mmdebstrap debian-archive-keyring
		echo "packages: making a root of $1" >&2
		keys=/usr/share/keyrings
		case $1 in
		bookworm | trixie | sid) ;;
		*)
			keys=$(mktemp --suffix=.gpg)
			copy_ubuntu_keys "$keys"
			;;
		esac
		# a mirror may be behind; what it has is signed all the same
		mmdebstrap --quiet --variant=apt --include=mount --keyring="$keys" --aptopt='Acquire::Check-Valid-Until "false"' \
			"$1" "$archive.part.tar" >&2 || die "no root of $1 could be made"
		[ ! -f "$keys" ] || rm "$keys"
		mv "$archive.part.tar" "$archive"
	fi
	echo "$archive"
}

# Runs a script of bash in a copy of a root, as its root folder. What the script prints is printed.
in_root() { # ROOT SCRIPT [ARGUMENT...]
	unshare --mount --pid --fork --propagation private bash -euc '
		root=$1 script=$2
		shift 2
		mount -t proc proc "$root/proc"
		mount -t tmpfs tmpfs "$root/run"
		mount -t tmpfs tmpfs "$root/dev"
		for name in null zero full random urandom tty; do touch "$root/dev/$name"; mount --bind "/dev/$name" "$root/dev/$name"; done
		ln -s /proc/self/fd "$root/dev/fd"
		exec env --ignore-environment PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin HOME=/root LC_ALL=C \
			DEBIAN_FRONTEND=noninteractive chroot "$root" bash -euc "$script" bash "$@"
	' bash "$@"
}
