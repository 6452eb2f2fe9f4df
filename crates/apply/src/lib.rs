// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What Pagewise borrows from a host, and how it goes back. The only writer of settings.
//!
//! A [`Session`] lends parts of the machine: an own zram device, swap, a memory cgroup, the value of
//! a knob. Each loan is written into a journal, and the journal to the disk, *before* the machine is
//! touched. What is lent goes back last-first when the session ends, also by a panic that unwinds.
//! After a crash it goes back by a process of its own ([`Rescue`]); what a killed run or a power cut left
//! behind, when the next session opens, or by [`recover`].
//!
//! A [plan] is carried out with the same parts, but what it changes stays until somebody undoes it.
//!
//! Something goes back only while it is still as it was lent: a knob that somebody else has changed
//! since keeps its value, and that is told as a conflict.
//!
//! ```no_run
//! # fn main() -> Result<(), pagewise_apply::Error> {
//! use pagewise_apply::{Session, state_folder};
//! use pagewise_model::Bytes;
//! use pagewise_model::lend::ZramSpec;
//!
//! let (mut session, left_behind) = Session::open(&state_folder())?;
//! let device = session.zram(&ZramSpec::new(Bytes::new(64 << 20)))?;
//! session.swap_on(&device.device, None)?;
//! let returned = session.end();
//! # Ok(()) }
//! ```

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod action;
mod calls;
mod config_files;
mod error;
mod host_ops;
mod journal;
mod ledger;
mod lender;
mod live;
mod loan;
pub mod plan;
mod recover;
mod rescue;
mod session;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod property;

pub use action::{clear_accessed, merge};
pub use error::Error;
pub use journal::{fuzzing, state_folder};
pub use ledger::{LedgerFile, add_to_ledger, read_ledger};
pub use recover::{Conflicts, forget, recover};
pub use rescue::Rescue;
pub use session::Session;
