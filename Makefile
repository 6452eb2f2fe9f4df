# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# make run ARGS="…"   build a static program, quick to build and not optimized, and run it (`report` without ARGS)
# make lint           style, lints, documentation, oldest compiler, size; no root
# make check          lint, and the tests that need no root
# make test           a fixed set of tests, also of real kernels in guests; root (installs what the tests need)
# make groups         the groups of longer tests whose inputs have not passed on this machine; root (WITHIN=50: only what ends
#                     within so many minutes)
# make test-all       lint, test, and every group regardless; root, long
# make bench          measure the promised numbers; root (BENCH="--runs 41": options of the chore)
# make test-kernel-debug   zmerge under KASAN, lockdep, kmemleak and failing allocations; root (PAGES=2000000 VARIANT=kasan|kcsan|rt)
# make test-riscv64        the program on another processor, emulated; root
# make bench-hugepool pools beside other allocators; no root (BENCH="rounds=9 mib=1024")
# make test-hugepool       hugepool under Miri, AddressSanitizer and ThreadSanitizer; a nightly compiler, no root
# make build          the program as it is shipped: static, optimized; prints where it is
# make packages       .deb, .rpm and .tar.zst of the program, of hugepool and of zmerge, in target/packages
# make packages-reproducible   build them twice under different conditions and compare every byte; root, long
# make apt-repository DIR=/srv/apt KEY=FINGERPRINT   a signed repository of the .deb in target/packages
# make test-packages  install what the tests need; root

CARGO ?= cargo
ARGS ?= report
export CARGO
# rustup's folder, which sudo leaves out.
export PATH := $(PATH):$(HOME)/.cargo/bin

XTASK := $(CARGO) run --locked --package xtask --
FIRST := pagewise: building takes about 2 minutes on two cores, after the downloads; later runs begin within a second
SINCE := --since $(shell date +%s)

.PHONY: run build lint check test groups test-all test-kernel-debug test-riscv64 test-hugepool bench bench-hugepool tools \
	test-packages packages packages-reproducible apt-repository
.NOTPARALLEL:

run:
	@test -e "$$(xtask/scripts/build-static.sh --quick --where)" || echo "$(FIRST)" >&2
	@xtask/scripts/toolchain.sh
	@xtask/scripts/build-static.sh --quick
	@$$(xtask/scripts/build-static.sh --quick --where) $(ARGS)

build: tools
	@xtask/scripts/build-static.sh
	@xtask/scripts/build-static.sh --where

tools:
	@xtask/scripts/toolchain.sh

lint check:
	@xtask/scripts/toolchain.sh --checks
	@xtask/scripts/cargo-cache.sh restore
	$(XTASK) suite $@ $(SINCE)

test: test-packages
	@xtask/scripts/toolchain.sh --checks
	@xtask/scripts/cargo-cache.sh restore
	$(XTASK) suite test $(SINCE)
	@xtask/scripts/cargo-cache.sh save && xtask/scripts/cache.sh prune

groups: test-packages
	@xtask/scripts/toolchain.sh --checks
	$(XTASK) groups --run $(if $(WITHIN),--within $(WITHIN)) $(GROUPS)

test-all: test-packages lint test
	$(XTASK) groups --run --regardless

# The kernel is built once, in 10 CPU-minutes; the guest then writes, reads or empties pages PAGES times.
test-kernel-debug: test-packages build
	kernel/zmerge/debug/test.sh $$(xtask/scripts/build-static.sh --where) "$(PAGES)" "$(VARIANT)"

# Builds for RISC-V with Debian 13's compiler, in 10 CPU-minutes.
test-riscv64: test-packages
	xtask/riscv64/test.sh

test-hugepool:
	crates/hugepool/sanitize.sh

test-packages:
	@xtask/scripts/packages.sh

# .deb, .rpm and .tar.zst in target/packages.
packages: build
	@packaging/build.sh

# Packages twice: in two folders, by two users, at two times, with two umasks; each builds the program. Long.
packages-reproducible: build
	@packaging/reproducible.sh

apt-repository:
	@packaging/repository.sh "$(DIR)" "$(KEY)"

bench: build
	$(XTASK) bench --program $$(xtask/scripts/build-static.sh --where) $(BENCH)

bench-hugepool:
	@xtask/scripts/toolchain.sh
	crates/hugepool/bench.sh $(BENCH)
