// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that change devices and cgroups of this machine, one after the other. They need root; run
//! by `cargo xtask test --root`, or some of them by `cargo test -p pagewise --test root thp::`.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::allow_attributes,
    reason = "tests start programs and prepare the machine by its own tools"
)]

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small numbers of made-up pages"
)]
#[path = "../shared/agreement.rs"]
mod agreement;
#[allow(dead_code, reason = "guests need more of it")]
#[path = "../shared/example.rs"]
mod example;
#[path = "../shared/faults.rs"]
mod faults;
#[allow(dead_code, reason = "the program uses more of it")]
#[path = "../../src/host_loans.rs"]
mod host_loans;
#[allow(dead_code, unused_imports, reason = "tests that need no root use more of it")]
#[path = "../shared/program.rs"]
mod program;

mod agent_files;
mod all_privileges;
mod applied;
mod apt;
mod bench;
mod bench_block;
mod cache;
mod contents;
mod crash;
mod foreign_names;
mod forked;
mod full_disk;
mod handed_on;
mod held;
mod lab;
mod ledger;
mod lent;
mod limits;
mod loans;
mod machine;
mod oom;
mod other_record;
mod pin;
mod sample;
mod signals;
mod sizes;
mod stuck;
mod swap_faults;
mod thp;
mod trial;
mod tune;
mod what_if;
mod workload;
mod zram;
