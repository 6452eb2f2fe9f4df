// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests in guests with the kernels of three Debian suites. They need QEMU, and the network for
//! kernels and userlands that are not in the cache, but no root; run by `cargo xtask test --root`.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::allow_attributes,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "tests start programs and prepare the machine by its own tools"
)]

#[path = "../shared/agreement.rs"]
mod agreement;
#[path = "../shared/example.rs"]
mod example;
#[path = "../shared/faults.rs"]
mod faults;
#[path = "../../../settings/tests/grammar/generator_table.rs"]
mod generator_table;

mod agent;
mod aging;
mod applied;
mod bench;
mod boot;
mod caches;
mod documents;
mod incidents;
mod inits;
mod journal;
mod lab;
mod ledger;
mod loans;
mod monitor;
mod oom;
mod outcomes;
mod owners;
mod packages;
mod reboots;
mod sizes;
mod streams;
mod swap_faults;
mod switchback;
mod systemd;
mod thp;
mod triage;
mod tune;
mod tuned;
mod turns;
mod what_if;
mod zmerge;
mod zswap;

/// The tests that `make test` runs; the others are in groups (`cargo xtask groups`).
mod fixed {
    mod kernels;
    mod systemd;
}

/// Plans under faults: failing calls, power losses, and swap that does not fit into memory.
mod plans {
    mod drain;
    pub(crate) mod faults;
    mod power_loss;
    mod wanted_faults;
}
