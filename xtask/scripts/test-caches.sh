#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Tests cache.sh, debian-suite.sh and cargo-cache.sh: bad input, a killed run, two runs at once, a
# full disk, no network. Two small packages are really downloaded; failures are simulated by a fake
# apt-get in PATH. Needs root (or user namespaces) for the full disk. Prints a line for each test;
# exits with 1 if one fails.
set -euo pipefail

cd "$(dirname "$0")/../.."
cache=$PWD/xtask/scripts/cache.sh
suite=$PWD/xtask/scripts/debian-suite.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PAGEWISE_CI_CACHE=$work/cache
real_apt=$(command -v apt-get)
failed=0
passed=0

check() { # NAME COMMAND...
	local name=$1
	shift
	if "$@"; then
		passed=$((passed + 1))
		echo "ok $name"
	else
		failed=$((failed + 1))
		echo "FAILED $name"
		sed 's/^/    /' "$work/out" 2>/dev/null | tail -n 10
	fi
}

# Runs a command for at most a minute; its output goes to $work/out, its status to $status.
try() {
	status=0
	timeout 60 "$@" >"$work/out" 2>&1 || status=$?
}

# Creates an apt-get that runs the lines of a script, and then the real one.
false_apt() { # SCRIPT
	mkdir -p "$work/bin"
	printf '#!/bin/bash\nreal=%q work=%q\n%s\nexec "$real" "$@"\n' "$real_apt" "$work" "$1" >"$work/bin/apt-get"
	chmod +x "$work/bin/apt-get"
}
false_path=$work/bin:$PATH

fetch() { "$suite" bookworm small --alone hello busybox-static; }
refused() { [ "$status" = 1 ] && grep --quiet -- "$1" "$work/out"; }
entries() { find "$work/cache" -mindepth 2 -maxdepth 2 -path "*/debian/*" -type d | wc -l; }
is_whole() { [ "$status" = 0 ] && [ "$("$(tail -n 1 "$work/out")/root/usr/bin/hello")" = "Hello, world!" ]; }
nothing_left() { [ "$(entries)" = 0 ]; }
one_part() { [ "$(entries)" = 1 ] && [ -d "$work"/cache/debian/small-*.part ]; }
at_most_lines() { [ "$(wc -l <"$work/out")" -le "$1" ]; }
export -f fetch
export suite

# --- the folder
try "$cache" where guests
check "the folder of a name is made and printed" [ "$(cat "$work/out")" = "$work/cache/guests" ]
try env --unset=PAGEWISE_CI_CACHE XDG_CACHE_HOME="$work/xdg" "$cache" where
check "XDG_CACHE_HOME holds it" [ "$(cat "$work/out")" = "$work/xdg/pagewise-ci" ]
try env --unset=PAGEWISE_CI_CACHE --unset=XDG_CACHE_HOME HOME="$work/home" "$cache" where
check "without it, ~/.cache does" [ "$(cat "$work/out")" = "$work/home/.cache/pagewise-ci" ]
try "$cache" where ../outside
check "a name cannot lead outside" refused "no name"
chmod 777 "$work/cache"
try "$cache" where
check "a folder that others may write is refused" refused "others may write"
chmod 755 "$work/cache"
if [ "$(id -u)" = 0 ]; then
	mkdir "$work/theirs"
	chown 65534 "$work/theirs"
	try env PAGEWISE_CI_CACHE="$work/theirs" "$cache" where
	check "a folder of somebody else is refused" refused "belongs to user 65534"
fi

# --- nothing there, and no network
false_apt 'case " $* " in *" update "*) echo "E: Failed to fetch: Could not resolve host" >&2; exit 100 ;; esac'
try env PATH="$false_path" bash -c fetch
check "no network, empty cache: says what is missing" refused "is not in the cache"
check "no network, empty cache: nothing is left" nothing_left

# --- killed in the middle
false_apt 'case " $* " in *" download "*) touch "$work/fetching"; sleep 30; exit 1 ;; esac'
PATH=$false_path setsid bash -c fetch >"$work/out" 2>&1 &
killed=$!
for _ in $(seq 300); do
	[ ! -e "$work/fetching" ] || break
	sleep 0.1
done
check "the run to be killed has begun to fetch" [ -e "$work/fetching" ]
check "an entry that is begun is a .part" one_part
kill -KILL -- "-$killed"
wait "$killed" 2>/dev/null || true
# processes that it started end a moment later, and hold the entry's lock until then
for _ in $(seq 300); do
	kill -0 -- "-$killed" 2>/dev/null || break
	sleep 0.1
done
check "what a killed run left is still a .part" one_part
try "$cache" prune
check "prune removes what it left" nothing_left

# --- two at once: one fetches, the other waits for it
false_apt 'case " $* " in *" download "*) echo once >>"$work/downloads" ;; esac'
PATH=$false_path bash -c fetch >"$work/first" 2>&1 &
first=$!
try env PATH="$false_path" bash -c fetch
check "two runs at once: the one succeeds" is_whole
cp "$work/first" "$work/out"
status=0
wait "$first" || status=$?
check "two runs at once: the other succeeds" is_whole
check "two runs at once: fetched once" [ "$(wc -l <"$work/downloads")" = 1 ]
check "two runs at once: one entry" [ "$(entries)" = 1 ]
entry=$(tail -n 1 "$work/out")

# --- full, and no network
false_apt 'echo called >>"$work/called"; exit 100'
try env PATH="$false_path" bash -c fetch
check "no network, full cache: works" is_whole
check "no network, full cache: apt is not called" [ ! -e "$work/called" ]

# --- damaged
try "$cache" verify
check "an entry that is whole is good" [ "$status" = 0 ]
printf x | dd of="$entry/root/usr/bin/hello" bs=1 seek=100 conv=notrunc status=none
try "$cache" verify
check "a damaged file is noticed" refused "usr/bin/hello"
check "a damaged entry is removed" nothing_left
false_apt ''
try env PATH="$false_path" bash -c fetch
check "a damaged entry is fetched again" is_whole

# --- prune
touch --date "40 days ago" "$entry/packages"
exec 7>>"$entry.lock"
flock --shared 7
try "$cache" prune
check "prune leaves what is in use" [ -d "$entry" ]
exec 7>&-
try "$cache" prune 50
check "prune leaves what was used within the given days" [ -d "$entry" ]
try "$cache" prune
check "prune removes what was not used for 30 days" nothing_left
mkdir -p "$entry/root"
printf 'format 1\n' >"$entry/packages"
try "$cache" prune
check "prune removes an older format" nothing_left

# --- a disk that fills: while the lists are fetched; before packages are unpacked, because apt-get leaves no room
disk_of() { # SIZE
	# shellcheck disable=SC2016 # expanded by the inner shell
	unshare ${map:-} --mount --propagation private bash -c '
		mount -t tmpfs -o size=$1,mode=755 tmpfs "$PAGEWISE_CI_CACHE" || exit 3
		mkdir "$PAGEWISE_CI_CACHE/debian"
		fetch
		status=$?
		echo "left: $(find "$PAGEWISE_CI_CACHE/debian" -mindepth 1 -type d | wc -l)"
		exit $status' - "$1"
}
[ "$(id -u)" = 0 ] || map=--map-root-user
export -f disk_of
export map
fills() { # WHEN SIZE
	try env PATH="$false_path" bash -c "disk_of $2"
	check "a disk fills $1: one clear line" refused "no space left on the disk"
	check "a disk fills $1: nothing more than that is printed" at_most_lines 3
	check "a disk fills $1: nothing is left" grep --quiet '^left: 0$' "$work/out"
}
false_apt ''
fills "while lists are fetched" 1M
# 28 KiB is less than the package hello needs.
false_apt 'case " $* " in *" download "*)
	"$real" "$@" || exit
	room=$(($(stat --file-system --format "%a * %S" "$PAGEWISE_CI_CACHE") - 28672))
	fallocate --length "$room" "$PAGEWISE_CI_CACHE/filler"
	exit
esac'
fills "while packages are unpacked" 256M

# --- compiled crates: those of others are kept for the next clone, whole or not at all
crates=$PWD/xtask/scripts/cargo-cache.sh
export CARGO_TARGET_DIR=$work/target
units() { # UNIT...
	local unit
	for unit in "$@"; do
		mkdir -p "$CARGO_TARGET_DIR/debug"/{.fingerprint,deps}
		echo "$unit" >"$CARGO_TARGET_DIR/debug/deps/lib$unit.rlib"
		mkdir -p "$CARGO_TARGET_DIR/debug/.fingerprint/$unit"
	done
}
next_clone() {
	rm -rf "$CARGO_TARGET_DIR"
	try "$crates" restore
}
archive() { find "$PAGEWISE_CI_CACHE/cargo" -name '*.tar'; }
has_unit() { [ "$(cat "$CARGO_TARGET_DIR/debug/deps/lib$1.rlib" 2>/dev/null)" = "$1" ]; }

units old-1
try "$crates" restore
try "$crates" save
check "a clone that had compiled before saves nothing" [ -z "$(archive)" ]
next_clone
units serde-1 pagewise_model-2
try "$crates" save
check "a clone that began empty saves one archive" [ "$(archive | wc -l)" = 1 ]
next_clone
check "the next clone has the crates of others" has_unit serde-1
check "the next clone compiles ours itself" [ ! -e "$CARGO_TARGET_DIR/debug/deps/libpagewise_model-2.rlib" ]
mv "$(archive)" "$(archive).part"
next_clone
check "an archive that is half written is not used" [ ! -e "$CARGO_TARGET_DIR/debug" ]
units serde-1
try "$crates" save
check "it is written again" [ "$(find "$PAGEWISE_CI_CACHE/cargo" -name '*.tar*' | wc -l)" = 2 ]
printf x | dd of="$(archive)" bs=1 seek=600 conv=notrunc status=none
next_clone
check "a damaged archive is said to be" grep --quiet 'damaged and not used' "$work/out"
check "a damaged archive is not used" [ ! -e "$CARGO_TARGET_DIR/debug" ]
units serde-1
head -c 2M /dev/urandom >"$CARGO_TARGET_DIR/debug/deps/libbig-1.rlib"
rm -rf "$PAGEWISE_CI_CACHE/cargo"
# shellcheck disable=SC2016 # expanded by the inner shell
try unshare ${map:-} --mount --propagation private bash -c '
	mkdir --mode=755 "$PAGEWISE_CI_CACHE/cargo"
	mount -t tmpfs -o size=1M,mode=755 tmpfs "$PAGEWISE_CI_CACHE/cargo" || exit 3
	"$1" save && echo "left: $(find "$PAGEWISE_CI_CACHE/cargo" -name "*.tar*" | wc -l)"' - "$crates"
check "a disk fills while crates are kept: said, and no failure" grep --quiet 'nothing is kept' "$work/out"
check "a disk fills while crates are kept: nothing is left" grep --quiet '^left: 0$' "$work/out"

echo "caches: $passed passed, $failed failed"
[ "$failed" = 0 ]
