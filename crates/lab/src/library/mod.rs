// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes cells from an experiment file and the user's choices. Each cell is one experiment on one
//! machine.
//!
//! ```text
//! let file = File::read(name, place, text)?;           the text alone: keys, units, words
//! let cells = cells(&file, &choice, &program)?;        what it means: arms, metrics, machines
//! ```
//!
//! A cell on this host is run with [`experiment::conduct`]. A cell in a guest is conducted by this
//! same program inside the guest that [`guest_for`] describes; the program reports each run when it
//! ends ([`GuestReport`]). The experiments that come with the program are files, too
//! ([`BUILT_IN`]).
//!
//! [`experiment::conduct`]: crate::experiment::conduct

mod area;
mod built_in;
mod cells;
mod estimate;
mod file;
mod guest;
mod quantity;
mod result_file;
mod scratch;
mod shelf;
#[cfg(test)]
mod tests;

pub use built_in::BUILT_IN;
pub use cells::{Cell, Choice, Machine, PREVIEW_PAIRS, Runner, cells};
pub use estimate::estimate_seconds;
pub use file::{DefaultRunner, File, FileError};
pub use guest::{GuestReport, GuestRun, GuestTask, guest_for};
pub use result_file::{Index, cells_in};
pub use scratch::{NotReady, Scratch};
pub use shelf::{all_files, find, find_ignored, user_folder};
