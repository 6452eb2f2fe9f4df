// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Workloads: makes the command that runs a described workload, and reads the values and the course
//! from the output of that command.
//!
//! A workload is run by this program itself (`pagewise lab workload`), so that an experiment starts
//! it like any other command. The last line of its output is the result ([`WorkloadSummary`]).
//!
//! Each workload has one thread, and ends after a number of operations or a time. It leaves nothing
//! behind, however it ends: its files are unnamed, and its child processes end with it.
//! [`contents`] generates pages with a given mix of contents.

#![deny(clippy::print_stderr, clippy::print_stdout)]
#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests read the host beside the crate")
)]

mod check;
mod coldpages;
pub mod contents;
mod error;
mod hold;
mod hugepages;
mod pace;
mod precision;
mod progress;
mod record;
mod redis;
mod settings;
mod settle;
mod size;
mod slices;
mod store;
mod summary;
mod swap;
mod tiers;
mod typed;
mod window;
mod zipf;

pub use error::Error;
pub use hold::{Held, Holding, fill_file, hold};
pub use progress::Progress;
pub use settings::{
    Advise, ColdPages, HugePages, Pattern, Readahead, Redis, Swap, Tiers, Workload, recognise,
};
pub use size::Size;
pub use summary::{WorkloadSummary, parse_summary};
pub use typed::KINDS;

/// The line that is printed before the second half of a workload ([`Workload::is_marked`]): an
/// experiment may measure from there on.
pub const STEADY: &str = "steady";
/// The line that `tiers` prints when all of its memory is written: another program may start then.
pub const FILLED: &str = "filled";

/// Runs a workload in this process, which must have only one thread. `mark` receives [`FILLED`] and
/// [`STEADY`] if the workload has these moments.
///
/// # Errors
/// If the parameters are inconsistent, this machine lacks something, or a server that it started
/// was killed.
pub fn run(
    workload: &Workload,
    progress: &mut Progress<'_>,
    mark: &mut dyn FnMut(&str),
) -> Result<WorkloadSummary, Error> {
    match workload {
        Workload::Swap(wanted) => swap::run(wanted, progress, mark),
        Workload::Coldpages(wanted) => coldpages::run(wanted, progress, mark),
        Workload::Tiers(wanted) => tiers::run(wanted, progress, mark),
        Workload::Hugepages(wanted) => hugepages::run(wanted, progress),
        Workload::Redis(wanted) => redis::run(wanted, progress),
        Workload::Command { argv } => Err(Error::Unsound(format!(
            "expected a workload of ours, found the command {}",
            argv.join(" ")
        ))),
    }
}
