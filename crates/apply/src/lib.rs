// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Borrows parts of a host and returns them. The only crate that writes settings.
//!
//! A [`Session`] lends parts of the machine: a zram device of its own, swap, a memory cgroup, the
//! value of a knob. Each loan is recorded in a journal, and the journal synced to disk, *before*
//! the machine is changed. Loans are returned last-first when the session ends, even by a panic
//! that unwinds. After a crash a separate process returns them ([`Rescue`]); after a kill or a
//! power cut the next session does, or [`recover`].
//!
//! A [plan] is applied with the same operations, but its changes stay until somebody undoes it.
//!
//! A value is restored only if it is still the one that we wrote: a knob that somebody else has
//! changed since keeps its value, and this is reported as a conflict.
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
mod agent_files;
mod calls;
mod config_files;
mod error;
mod host_ops;
mod journal;
mod known_findings;
mod ledger;
mod lender;
mod lines;
mod live;
mod loan;
pub mod plan;
mod recover;
mod rescue;
mod session;
mod swap_area;
mod transaction;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod property;

pub use action::{aging, clear_accessed, merge, reclaim, zram};
pub use agent_files::{AgentFiles, AgentFilesError, read_agent_status};
pub use error::Error;
pub use journal::{fuzzing, state_folder};
pub use known_findings::{FollowLock, KnownFindingsError, KnownFindingsFile};
pub use ledger::{LedgerFile, add_to_ledger, read_ledger};
pub use recover::{Conflicts, forget, recover};
pub use rescue::Rescue;
pub use session::Session;
