// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A described workload → a command that runs it, and what it said → values and its course.
//!
//! A workload of ours is this program itself (`pagewise lab workload`), so that an experiment starts it
//! as it starts anybody's command. Its last line of output is its answer ([`WorkloadSummary`]).
//!
//! Each has one thread, and ends after so many operations or so much time. Nothing is left of it,
//! however it ends: its files have no names, and what it starts ends with it. [`contents`] makes up
//! pages of a named mix for them.

#![deny(clippy::print_stderr, clippy::print_stdout)]
#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests read the host beside the crate")
)]

mod check;
mod coldpages;
pub mod contents;
mod error;
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
pub use progress::Progress;
pub use settings::{
    Advise, ColdPages, HugePages, Pattern, Readahead, Redis, Swap, Tiers, Workload, recognised,
};
pub use size::Size;
pub use summary::{WorkloadSummary, said};
pub use typed::KINDS;

/// The line that is printed where the second half of a workload begins ([`Workload::is_marked`]): an experiment may
/// count from there on.
pub const STEADY: &str = "steady";
/// The line that `tiers` prints when all of its memory is written: another program may begin then.
pub const FILLED: &str = "filled";

/// Runs it, here and now; one thread must be all that this process has. `mark` gets [`FILLED`] and [`STEADY`] where
/// the workload has such a moment.
///
/// # Errors
/// Where it makes no sense, or this machine lacks what it needs, or a server that it started was killed.
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
