// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Code that tests of several crates share. It is never part of the program: `cargo xtask dag`
//! allows it only as a dependency of tests.
//!
//! Its functions panic, as tests do: if the machine lacks something that a test needs, the test
//! fails.

#![allow(
    clippy::disallowed_methods,
    clippy::allow_attributes,
    reason = "tests start programs and prepare the machine by its own tools"
)]

mod archive;
mod finding;
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

pub use finding::finding;
pub use lent::Lent;
pub use loans::{Loans, note_made, read, remount_read_only, run, take_turn, write};
pub use program::{ProgramRun, empty_folder, finish, folder_on_disk};
pub use target::{Target, read_process, rollup, target_program};
pub use thing::Thing;
pub use turn::Turn;
pub use work::Work;
