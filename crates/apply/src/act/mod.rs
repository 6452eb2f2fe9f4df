// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Acts: what is done to memory with a budget and a brake, and cannot be undone.
//!
//! A loan changes a setting and puts it back. An act changes what memory is: collapsed pages stay
//! huge, whatever happens to us. So an act is small (one block at a time), is asked before each
//! piece whether it still may, and says what it did. Killed in the middle it leaves whole blocks
//! behind, each of which is good by itself: nothing is half-done.
//!
//! - `pick`: which blocks of a process are worth a collapse, best first;
//! - `access_profile`, `damon`: which of them are in use, if that was measured;
//! - `budget`: how much memory may grow, counted before and measured as it goes;
//! - `brake`: when the machine or the cgroup needs its memory for something else;
//! - `subject`: one process, its rights checked before anything is done;
//! - `collapse`: the loop over all of these, once or watching;
//! - `merge`: a pass of zmerge over a device, which the kernel runs to its end;
//! - `split`: the way back, for huge pages that are mostly empty;
//! - `switch`: none at all, for ourselves and what we start.

mod access_profile;
mod brake;
mod budget;
mod collapse;
mod damon;
mod merge;
mod pick;
mod split;
mod subject;
mod switch;

pub use access_profile::AccessProfile;
pub use collapse::{CollapseTargets, CollapseWish, collapse};
pub use damon::{NoProfile, measure_accesses};
pub use merge::{MergeError, may_merge, merge, start_merge};
pub use split::split;
pub use subject::ActError;
pub use switch::{Allowed, switch_off};
