// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A described workload → a command that runs it, and what it said → values and its course.
//!
//! A workload of ours is this program itself (`pagewise lab workload`), so that an experiment starts it
//! as it starts anybody's command. Its last line of output is its answer ([`Said`]).

mod said;
mod size;
mod wanted;

pub use said::{SAID, Said, said};
pub use size::Size;
pub use wanted::{ColdPages, Pattern, Readahead, Redis, Swap, Workload};
