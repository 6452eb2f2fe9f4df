// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How lines of a few files are spelled, for `pagewise-capture`, which rewrites such lines.

/// The kernel log, and what journald kept of it: reports of the OOM killer.
pub mod kernel_log {
    pub use crate::kernel_log::{Rename, renamed, renamed_journal};
}

/// Lines of `/proc/PID/mountinfo`.
pub mod mounts {
    pub use crate::mounts::Columns;
}
