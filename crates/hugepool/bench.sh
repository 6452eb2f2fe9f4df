#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Measures pools and other allocators, and prints the tables of docs/hugepool.md; no root. Needs 3
# GiB of memory. The options are those of examples/compare.rs: bench.sh rounds=9 mib=1024
set -euo pipefail

cd "$(dirname "$0")"
cargo build --locked --package hugepool --profile library --examples
../../target/library/examples/compare "$@"
