// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starts this program again, as a helper process with more or fewer rights than its parent keeps.

use std::process::Command;

/// A command that starts the executable file of this process, even if another file has replaced it
/// at its path.
#[expect(clippy::disallowed_methods, reason = "no other program than this one")]
pub(crate) fn pagewise_command() -> Command {
    Command::new("/proc/self/exe")
}
