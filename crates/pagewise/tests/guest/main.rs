// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happens in guests with the kernels of three Debian suites. They need QEMU, and the network
//! where kernels and userlands are not kept yet, but no root; run by `cargo xtask test --root`.

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

mod applied;
mod bench;
mod boot;
mod caches;
mod documents;
mod journal;
mod lab;
mod ledger;
mod loans;
mod oom;
mod outcomes;
mod owners;
mod reboots;
mod sizes;
mod streams;
mod swap_faults;
mod systemd;
mod thp;
mod triage;
mod turns;
mod zmerge;
mod zswap;

/// What `make test` runs of these tests; the others are in groups (`cargo xtask groups`).
mod fixed {
    mod kernels;
    mod systemd;
}

/// Plans under all that can go wrong.
mod plans {
    mod drain;
    pub(crate) mod faults;
    mod power_loss;
}
