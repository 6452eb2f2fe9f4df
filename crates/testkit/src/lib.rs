// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What tests of several crates share. Never part of the program: `cargo xtask dag` allows it as a
//! dependency for tests only.
//!
//! It panics where a test would: a machine without what a test needs is a failed test.

#![allow(
    clippy::disallowed_methods,
    clippy::allow_attributes,
    reason = "tests start programs and prepare the machine by its own tools"
)]

mod archive;
pub mod hostile;
mod lent;
mod loans;
pub mod made_host;
pub mod power_loss;
mod program;
pub mod scene;
mod target;
mod thing;
mod turn;
mod work;

pub use lent::Lent;
pub use loans::{Loans, made, read, run, take_turn, write};
pub use program::{ProgramRun, empty_folder, finish, folder_on_disk};
pub use target::{Target, read_process, rollup, target_program};
pub use thing::Thing;
pub use turn::Turn;
pub use work::Work;
