#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Tests the packages of Debian in roots of its suites, by apt and dpkg: debian.sh [SUITE...]
# (default: bookworm trixie sid)
#
# Installs from a signed repository, upgrades, downgrades, removes and purges, CYCLES times (10): the
# root is then as before, apart from what dpkg keeps and logs. Then what goes wrong on real machines:
# no room, a read-only /usr, a package of another architecture, a program of the user's own, journals
# of a newer version. There is no systemd in these roots. Root only; some 170 MB for each suite are
# kept in the cache.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
. packaging/test/roots.sh

[ "$(id -u)" = 0 ] || die "the tests of packages need root"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Two versions of the packages, and a repository with the first, then with both. $PACKAGES may have
# the first already.
if [ -n "${PACKAGES:-}" ]; then
	mkdir "$work/1"
	cp "$PACKAGES"/*.deb "$work/1/"
else
	PACKAGES=$work/1 DEB_COMPRESSION='-Zgzip -z1' packaging/build.sh deb >/dev/null
fi
mkdir "$work/2"
packaging/test/later.sh "$work"/1/pagewise_*.deb "$work/2/pagewise_later.deb"
export GNUPGHOME=$work/gpg
mkdir -m 700 "$GNUPGHOME"
gpg --batch --quiet --passphrase '' --quick-generate-key 'Test <test@pagewise.invalid>' ed25519 sign never 2>/dev/null
for revision in 1 2; do
	PACKAGES=$work/$revision packaging/repository.sh "$work/repository" test@pagewise.invalid >/dev/null
	cp -r "$work/repository" "$work/repository-$revision"
done
# A package of another architecture whose program cannot run here.
dpkg-deb --raw-extract "$work"/1/pagewise_*.deb "$work/foreign"
sed -i 's/^Architecture: .*/Architecture: s390x/' "$work/foreign/DEBIAN/control"
printf '\177ELF\002\002\001 for another machine' >"$work/foreign/usr/bin/pagewise"
dpkg-deb --root-owner-group -Zgzip -z1 --build "$work/foreign" "$work/foreign.deb" >/dev/null

# What the scripts in the roots share. The state is every file with its contents, mode, owner and time.
# shellcheck disable=SC2016 # expanded in the root
functions='
state() {
	find / -xdev \( -path /proc -o -path /dev -o -path /run -o -path /repository -o -path /var/log -o -path /var/lib/dpkg \
		-o -path /var/lib/apt -o -path /var/cache -o -path /tmp -o -path /etc/apt \) -prune -o ! -type d ! -path /etc/ld.so.cache \
		-printf "%p %y %m %U %G %s %T@ %l\n" -o -printf "%p %y %m %U %G\n" | sort
	find /etc /usr /opt /var/lib -xdev \( -path /var/lib/dpkg -o -path /var/lib/apt -o -path /etc/apt \) -prune -o -type f -print0 | sort -z | xargs -0 md5sum
}
fail() { echo "FAILED: $1"; tail -n 30 /tmp/log; exit 1; }
quietly() { "$@" >/tmp/log 2>&1 || fail "$*"; }
refused() { ! "$@" >/tmp/log 2>&1 || fail "this succeeded: $*"; }
says() { grep -qF "$1" /tmp/log || fail "this was not said: $1"; }
same() { state >/tmp/now; diff /tmp/before /tmp/now >/tmp/log || fail "changed: $1"; }
absent() { [ ! -e "$1" ] || fail "$1 is there"; }
version() { dpkg-query --show --showformat="\${Version}" pagewise; }
'
# shellcheck disable=SC2016
cycles='
quietly dpkg-deb --info /repository/1/pagewise.deb
state >/tmp/before
began=$(date +%s%N)
quietly apt-get install --yes /repository/1/pagewise.deb
quietly pagewise report
echo "from apt install to the end of the first report: $((($(date +%s%N) - began) / 1000000)) ms"
quietly apt-get purge --yes pagewise
same "install and purge"
echo "deb [signed-by=/repository/repository-2/pagewise-archive-keyring.gpg] file:/repository/now stable main" \
	>/etc/apt/sources.list.d/pagewise.list
rm -f /etc/apt/sources.list
only="-o Dir::Etc::sourcelist=/etc/apt/sources.list.d/pagewise.list -o Dir::Etc::sourceparts=/dev/null"
# apt would not read a file again that is as old as the last one it read, and both were made just now
published() {
	ln -sfn "$1" /repository/now
	rm -rf /var/lib/apt/lists/*
	quietly apt-get $only update
}
for cycle in $(seq "$1"); do
	published repository-1
	quietly apt-get $only install --yes pagewise
	old=$(version)
	quietly pagewise doctor --list
	[ -e /usr/share/man/man8/pagewise-undo.8.gz ] || fail "no man page"
	published repository-2
	quietly apt-get $only upgrade --yes
	[ "$(version)" != "$old" ] || fail "no upgrade"
	quietly pagewise --version
	quietly apt-get $only install --yes --allow-downgrades "pagewise=$old"
	quietly apt-get $only remove --yes pagewise
	quietly apt-get $only purge --yes pagewise
	same "cycle $cycle"
done
# the libraries need nothing but the C library and that of the compiler
quietly dpkg --install /repository/1/libhugepool0_*.deb /repository/1/libhugepool-coverage0_*.deb
quietly dpkg --purge libhugepool0 libhugepool-coverage0
same "libraries"
echo "$1 cycles of install, upgrade, downgrade, remove, purge: the root is as before"
# a repository that somebody changed is refused
cp -r /repository/repository-2 /repository/forged
sed -i "s/^Description: finds/Description: Finds/" /repository/forged/dists/stable/main/binary-*/Packages
rm -r /repository/forged/dists/stable/main/binary-*/by-hash /repository/forged/dists/stable/main/binary-*/Packages.xz
ln -sfn forged /repository/now
rm -rf /var/lib/apt/lists/*
refused apt-get $only -o APT::Update::Error-Mode=any update
rm /etc/apt/sources.list.d/pagewise.list
'
# shellcheck disable=SC2016
troubles='
deb=/repository/1/pagewise.deb
# no room: the program fits, the documents do not
mkdir -p /usr/share/doc
cp -a /usr/share/doc /tmp/doc
state >/tmp/before
mount -t tmpfs -o size=64k tmpfs /usr/share/doc
refused dpkg --install $deb
umount --lazy /usr/share/doc
absent /usr/bin/pagewise
quietly dpkg --install $deb
quietly dpkg --purge pagewise
same "no room"
# /usr cannot be written
mount --bind /usr /usr; mount -o remount,bind,ro /usr
refused dpkg --install $deb
umount --lazy /usr
dpkg --purge pagewise >/dev/null 2>&1 || true
same "read-only /usr"
# another architecture
refused apt-get install --yes /repository/foreign.deb
quietly dpkg --force-architecture --install /repository/foreign.deb
quietly dpkg --purge pagewise:s390x
says "does not run here"
same "another architecture"
# a program of the user
install -D /bin/true /usr/local/bin/pagewise
quietly dpkg --install $deb
says "/usr/local/bin/pagewise comes first"
quietly dpkg --purge pagewise
[ -e /usr/local/bin/pagewise ] || fail "the own program is gone"
rm /usr/local/bin/pagewise
# journals that this version does not understand are kept, and named
quietly dpkg --install $deb
install -d -m 700 /var/lib/pagewise
( umask 077; echo "a line of a later version" >/var/lib/pagewise/7.$(cat /proc/sys/kernel/random/boot_id).plan )
quietly dpkg --install /repository/2/pagewise.deb
quietly dpkg --remove pagewise
says "damaged"
quietly dpkg --purge pagewise
says "/var/lib/pagewise is kept"
[ -e /var/lib/pagewise/7.*.plan ] || fail "the journal is gone"
rm -r /var/lib/pagewise
# a doctor.toml of the user stays, an empty folder does not
quietly dpkg --install $deb
mkdir -p /etc/pagewise; echo "ignore = []" >/etc/pagewise/doctor.toml
quietly dpkg --purge pagewise
[ -e /etc/pagewise/doctor.toml ] || fail "doctor.toml is gone"
rm -r /etc/pagewise
same "journals and doctor.toml"
# two managers: the archive is not installed over files of the package
quietly dpkg --install $deb
if [ -e /repository/archive ]; then
	refused /repository/archive/install.sh /usr
	says "is of no earlier installation"
	quietly /repository/archive/install.sh /usr/local
	quietly /usr/local/share/pagewise/uninstall.sh --purge
fi
quietly dpkg --purge pagewise
same "two managers"
echo "no room, read-only /usr, another architecture, own program, newer journals, two managers: nothing lost"
'

[ $# -gt 0 ] || set -- bookworm trixie sid
for suite; do
	archive=$(root_archive "$suite")
	root=$work/root
	mkdir "$root"
	tar --extract --file "$archive" --directory "$root"
	mkdir "$root/repository"
	cp -r "$work"/{1,2,repository-1,repository-2,foreign.deb} "$root/repository/"
	for revision in 1 2; do mv "$root/repository/$revision"/pagewise_*.deb "$root/repository/$revision/pagewise.deb"; done
	if [ -n "${ARCHIVE:-}" ]; then
		mkdir "$root/repository/archive"
		tar --extract --file "$ARCHIVE" --strip-components=1 --directory "$root/repository/archive"
	fi
	echo "== $suite: $(in_root "$root" 'dpkg --version | head -n 1; apt-get --version | head -n 1' | xargs)"
	in_root "$root" "$functions $cycles" "${CYCLES:-10}"
	in_root "$root" "$functions $troubles"
	rm -rf "$root"
done
echo "all tests of Debian packages passed on: $*"
