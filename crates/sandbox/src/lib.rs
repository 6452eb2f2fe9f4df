// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reduces the privileges of this process.
//!
//! - [`forbid_dumps`] keeps page contents of other programs out of core dumps, and protects this
//!   process from other programs of the same user.
//! - [`Buffer`] is memory for such pages: excluded from core dumps and forked children, locked into
//!   RAM as far as the limit on locked memory allows, and wiped at its end.
//! - [`Confinement`] drops capabilities (capset), system calls (seccomp) and all ways to change a
//!   file (Landlock), before untrusted input is parsed or contents of other programs are read.
//!
//! Nothing here can be reverted: a process exits after it has done its work in a confinement.
//!
//! Landlock has a side effect that limits its use: a process under it may not read
//! `/proc/PID/{maps,smaps,pagemap,mem}` of any process outside. So it is used for recordings and
//! for readers that need none of these files; everywhere else the seccomp filter forbids opening
//! files for writing.

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

/// Keeps this process from leaving a core dump, and other programs of the same user from tracing it
/// and reading its memory. Programs that it starts leave no core dump either.
///
/// There is one drawback: files in `/proc/self` that only the owner may read, such as `pagemap`,
/// now belong to root. If the kernel refuses part of this (because of a seccomp filter from
/// outside), the rest is in force.
pub fn forbid_dumps() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        calls::lower_limit(libc::RLIMIT_CORE, 0);
        calls::forbid_dumps();
    });
}
