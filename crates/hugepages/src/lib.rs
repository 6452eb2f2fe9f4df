// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes huge pages of the memory that other processes have, and splits them again; nothing of this can be undone.
//!
//! A loan of `pagewise-apply` changes a setting and puts it back. Collapsed pages stay huge, whatever happens to this
//! program. So one block is collapsed at a time, a memory budget and the state of the machine are checked before
//! each, and the result says what was done. A run that is killed leaves whole blocks behind: nothing is half-done.
//!
//! - `pick`: which blocks of a process are worth a collapse, best first;
//! - `access_profile`, `damon`: which of them are in use, if that was measured;
//! - `budget`: how much memory may grow, counted before and measured as it goes;
//! - `brake`: when the machine or the cgroup needs its memory for something else;
//! - `subject`: one process, its rights checked before anything is done;
//! - `collapse`: the loop over all of these, once or watching;
//! - `split`: the way back, for huge pages that are mostly empty;
//! - `switch`: no huge pages at all, for this process and what it starts.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod access_profile;
mod brake;
mod budget;
mod calls;
mod collapse;
mod damon;
mod pick;
mod split;
mod subject;
mod switch;

pub use access_profile::AccessProfile;
pub use collapse::{CollapseTargets, CollapseWish, collapse};
pub use damon::{NoProfile, measure_accesses};
pub use split::split;
pub use subject::ActError;
pub use switch::{Allowed, switch_off};
