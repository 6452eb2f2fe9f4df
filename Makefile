# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# make run ARGS="…"   build a static program, quick to build and not optimized, and run it (`report` without ARGS)
# make check          what every commit passes; no root
# make test           everything, as CI runs it; root (installs what the tests need)
# make bench          measure the promised numbers; root (BENCH="--runs 41": options of the chore)
# make test-kernel-debug   zmerge under KASAN, lockdep, kmemleak and failing allocations; root (PAGES=2000000)
# make test-riscv64        the program on another processor, emulated; root
# make build          the program as it is shipped: static, optimized; prints where it is

CARGO ?= cargo
ARGS ?= report
export CARGO
# rustup's folder, which sudo leaves out.
export PATH := $(PATH):$(HOME)/.cargo/bin

XTASK := $(CARGO) run --quiet --locked --package xtask --

.PHONY: run build check test test-kernel-debug test-riscv64 bench static-checks tools packages
.NOTPARALLEL:

run: tools
	@echo 'pagewise: building it; the first time takes about two minutes on two processors' >&2
	@xtask/scripts/build-static.sh --quick
	@$$(xtask/scripts/build-static.sh --quick --where) $(ARGS)

build: tools
	@xtask/scripts/build-static.sh
	@xtask/scripts/build-static.sh --where

tools:
	@xtask/scripts/toolchain.sh

check: static-checks
	$(XTASK) test

# One processor links the static program for minutes; the oldest compiler checks meanwhile.
test: packages static-checks
	@xtask/scripts/check-oldest.sh & $(MAKE) build; built=$$?; wait $$! && exit $$built
	$(XTASK) artefact $$(xtask/scripts/build-static.sh --where)
	$(MAKE) --directory kernel/zmerge test-core
	$(XTASK) fuzz --seconds 60
	$(XTASK) test --root

# The kernel is built once, in 10 CPU-minutes; the guest then writes, reads or empties pages PAGES times.
test-kernel-debug: packages build
	kernel/zmerge/debug/test.sh $$(xtask/scripts/build-static.sh --where) $(PAGES)

# Builds for RISC-V with Debian 13's compiler, in 10 CPU-minutes.
test-riscv64: packages
	xtask/riscv64/test.sh

static-checks:
	@xtask/scripts/toolchain.sh --checks
	$(CARGO) fmt --all --check
	$(XTASK) dag
	$(XTASK) heads
	$(CARGO) clippy --workspace --all-targets --locked -- --deny warnings
	RUSTDOCFLAGS="--deny warnings" $(CARGO) doc --workspace --no-deps --locked

packages:
	@xtask/scripts/packages.sh

bench: build
	$(XTASK) bench --program $$(xtask/scripts/build-static.sh --where) $(BENCH)
