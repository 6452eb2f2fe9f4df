// SPDX-License-Identifier: Apache-2.0 OR MIT
//! This program, started again: as a helper with more or with fewer rights than its parent keeps.

use std::process::Command;

/// A command that runs this very program, also if its file was replaced since.
#[expect(clippy::disallowed_methods, reason = "no other program than this one")]
pub(crate) fn pagewise() -> Command {
    Command::new("/proc/self/exe")
}
