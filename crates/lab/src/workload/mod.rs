// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A described workload → a command that runs it, and what it said → values and its course.
//!
//! A workload of ours is this program itself (`pagewise lab workload`), so that an experiment starts it
//! as it starts anybody's command. Its last line of output is its answer ([`Said`]).
//!
//! Each has one thread, and ends after so many operations or so much time. Nothing is left of it,
//! however it ends: its files have no names, and what it starts ends with it.

mod check;
mod coldpages;
mod error;
mod hugepages;
mod pace;
mod precision;
mod record;
mod redis;
mod said;
mod settle;
mod size;
mod store;
mod swap;
mod told;
mod typed;
mod wanted;
mod window;
mod zipf;

pub use error::Error;
pub use said::{Said, said};
pub use size::Size;
pub use told::Told;
pub use typed::KINDS;
pub use wanted::{
    Advise, ColdPages, HugePages, Pattern, Readahead, Redis, Swap, Workload, recognised,
};

/// Runs it, here and now; one thread must be all that this process has.
///
/// # Errors
/// Where it makes no sense, or this machine lacks what it needs, or a server that it started was killed.
pub fn run(workload: &Workload, told: &mut Told<'_>) -> Result<Said, Error> {
    match workload {
        Workload::Swap(wanted) => swap::run(wanted, told),
        Workload::Coldpages(wanted) => coldpages::run(wanted, told),
        Workload::Hugepages(wanted) => hugepages::run(wanted, told),
        Workload::Redis(wanted) => redis::run(wanted, told),
        Workload::Command { argv } => Err(Error::Unsound(format!(
            "expected a workload of ours, found the command {}",
            argv.join(" ")
        ))),
    }
}
