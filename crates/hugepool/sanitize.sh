#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Runs the tests under Miri, AddressSanitizer and ThreadSanitizer: sanitize.sh [miri|asan|tsan]...
# (default: all)
#
# Needs rustup's nightly compiler with miri and rust-src, and clang for C. No root. OPERATIONS is
# the number of operations of each model test under AddressSanitizer (default 10,000,000) and
# ThreadSanitizer (a tenth of it); MIRI_OPERATIONS the number under Miri (20). SECONDS_FOR_MIRI is a
# time limit for Miri, after which it fails (3600).
#
# Left out, and why:
# - Miri: mistakes.rs and c.rs (they use fork(), limits and compilers), and the real system calls:
#   see src/sys.rs.
# - ThreadSanitizer, AddressSanitizer: the test of RLIMIT_AS and RLIMIT_DATA, because the sanitizers
#   need memory for themselves.
set -euo pipefail

cd "$(dirname "$0")/../.."
target=x86_64-unknown-linux-gnu
operations=${OPERATIONS:-10000000}
nightly=(rustup run nightly cargo)

die() {
	printf 'sanitize: %s\n' "$@" >&2
	exit 1
}

installed=$(rustup component list --toolchain nightly --installed 2>/dev/null) || die \
	"no nightly compiler; this brings it:" \
	"  rustup toolchain install nightly --component miri --component rust-src"
for component in miri rust-src; do
	grep --quiet "^$component" <<<"$installed" || die "$component is missing; this brings it:" \
		"  rustup component add --toolchain nightly $component"
done

runtimes=$(rustc +nightly --print target-libdir)

# Miri refuses to read files of the machine (isolation), so pools behave as on a machine without
# huge pages.
miri() {
	export MIRIFLAGS="-Zmiri-isolation-error=hide -Zmiri-env-forward=HUGEPOOL_OPERATIONS -Zmiri-strict-provenance"
	export HUGEPOOL_OPERATIONS=${MIRI_OPERATIONS:-20}
	timeout "${SECONDS_FOR_MIRI:-3600}" "${nightly[@]}" miri test --locked --package hugepool \
		--lib --test model --test threads --test handles
}

# Runs the Rust tests, and check.c with its threads through the C interface. One test expects a
# child to die of SIGSEGV when it reads memory that it does not have: that is not reported.
sanitized() { # NAME FLAG OPERATIONS OPTION...
	local name=$1 flag=$2 folder=target/$1
	shift 2
	printf '== %s\n' "$name"
	export ASAN_OPTIONS=handle_segv=0 TSAN_OPTIONS=handle_segv=0
	HUGEPOOL_OPERATIONS=$1 RUSTFLAGS=-Zsanitizer=$flag "${nightly[@]}" test --locked --package hugepool \
		--profile library --target "$target" --target-dir "$folder" "${@:2}" \
		--lib --test model --test threads --test mistakes --test handles -- --skip limits_of_the_kernel
	RUSTFLAGS=-Zsanitizer=$flag "${nightly[@]}" rustc --locked --package hugepool --lib --crate-type staticlib \
		--profile library --target "$target" --target-dir "$folder" "${@:2}"
	clang -fsanitize="$flag" -std=c11 -D_GNU_SOURCE -g -Icrates/hugepool/include -c crates/hugepool/c/check.c \
		-o "$folder/check.o"
	# Links the compiler's own sanitizer runtime, because that of an older clang lacks symbols.
	cc -no-pie "$folder/check.o" "$folder/$target/library/libhugepool.a" -o "$folder/check" \
		-Wl,--whole-archive "$runtimes/librustc-nightly_rt.$name.a" -Wl,--no-whole-archive \
		-lpthread -ldl -lm -lrt -lgcc_s -lstdc++
	"$folder/check"
}

[ $# -gt 0 ] || set -- miri asan tsan
for sanitizer; do
	case $sanitizer in
	miri) miri ;;
	asan) sanitized asan address "$operations" ;;
	tsan) sanitized tsan thread $((operations / 10)) -Zbuild-std ;;
	*) die "$sanitizer: expected miri, asan or tsan" ;;
	esac
done
