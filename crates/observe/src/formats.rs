// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parsers of a few line formats, exported for `pagewise-capture`, which rewrites such lines.

/// OOM killer reports in the kernel log and in the messages that journald kept of it.
pub mod kernel_log {
    pub use crate::kernel_log::{
        Rename, check_program_count, check_program_kills, rename, renamed_journal,
    };
}

/// Lines of `/proc/PID/mountinfo`.
pub mod mounts {
    pub use crate::mounts::Columns;
}
