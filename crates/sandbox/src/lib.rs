// SPDX-License-Identifier: Apache-2.0 OR MIT
//! This process → the same process with fewer rights.
//!
//! - [`forbid_dumps`] keeps what other programs' pages hold out of core dumps, and this process out of
//!   reach of other programs of the same user.
//! - [`Buffer`] is memory for such pages: in no core dump, in no forked child, in RAM as far as the
//!   limit on locked memory goes, and wiped at its end.
//! - [`Confinement`] takes away capabilities (capset), system calls (seccomp) and every way to change
//!   a file (Landlock), before something hostile is parsed or contents of other programs are read.
//!
//! Nothing here is given back: a process that has done its work under it ends.
//!
//! Landlock has a side effect that decides where it can be used: a process under it may not look into
//! `/proc/PID/{maps,smaps,pagemap,mem}` of any process outside. So it serves for recordings and for
//! what reads none of those; everywhere else the seccomp filter refuses opening for writing.

mod buffer;
mod calls;
mod capability;
mod confinement;
mod filter;
mod landlock;
mod table;

pub use buffer::Buffer;
pub use capability::Capability;
pub use confinement::{Confined, Confinement};
pub use table::Purpose;

use std::sync::Once;

/// From now on this process leaves no core dump, and another program of the same user can neither
/// trace it nor read its memory. Programs that it starts leave no core dump either.
///
/// It costs one thing: of the files in `/proc/self` those that are for the owner alone, as `pagemap`,
/// now belong to root. Where the kernel refuses a part of it (a seccomp filter from outside), the rest
/// holds.
pub fn forbid_dumps() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        calls::limit(libc::RLIMIT_CORE, 0);
        calls::forbid_dumps();
    });
}
