// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Collapses memory of other processes into huge pages, and splits huge pages again. Neither can be
//! undone.
//!
//! Settings that `pagewise-apply` borrows are restored afterwards; collapsed pages remain huge,
//! even after this program has ended. So one block is collapsed at a time, a memory budget and the
//! state of the machine are checked before each, and the result says what was done. If a run is
//! killed, each block is either collapsed or unchanged.
//!
//! - `pick`: which blocks of a process qualify, best first;
//! - `access_profile`, `damon`: how much each block is accessed, if the user asked to measure that;
//! - `budget`: how much memory may grow, computed before each call and measured;
//! - `brake`: when the machine or the cgroup needs its memory for something else;
//! - `subject`: one process, with permissions checked before anything is done;
//! - `collapse`: the loop over all of these, once or watching;
//! - `split`: the opposite, for huge pages that are mostly zeros;
//! - `switch`: disables huge pages for this process and what it starts.

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
pub use switch::{Allowed, disable_huge_pages};
