// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An experiment file and the user's choices → cells: one experiment each, on one machine.
//!
//! ```text
//! let file = File::read(name, place, text)?;           the text alone: keys, units, words
//! let cells = cells(&file, &choice, &program)?;        what it means: arms, metrics, machines
//! ```
//!
//! A cell on this host is run with [`experiment::conduct`]; a cell in a guest with
//! [`run_in_guest`], where this same program conducts it inside and reports each run as it ends.
//! The experiments that come with the program are files too ([`BUILT_IN`]).
//!
//! [`experiment::conduct`]: crate::experiment::conduct

mod area;
mod built_in;
mod cells;
mod file;
mod guest;
mod lines;
mod quantity;
mod result_file;
mod scratch;
mod shelf;
mod takes;
#[cfg(test)]
mod tests;

pub use built_in::BUILT_IN;
pub use cells::{Cell, Choice, Machine, PREVIEW_PAIRS, Runner, cells};
pub use file::{DefaultRunner, File, FileError};
pub use guest::{GuestRun, GuestTask, run_in_guest};
pub(crate) use lines::Lines;
pub use result_file::{Index, cells_in};
pub use scratch::{NotReady, Scratch};
pub use shelf::{all, find, own_folder};
pub use takes::seconds;
