// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs `pagewise undo` in a separate process at once if this process crashes while something is
//! lent.
//!
//! The release build aborts on a panic, and an abort, a fault or a limit of the kernel (SIGXCPU,
//! SIGXFSZ) ends a process before it can return anything. The journal names the changes, so a handler
//! of those signals forks a child that waits until this process is gone and its lock is released,
//! and then executes `pagewise undo`. Its output goes to standard error. After SIGKILL, only the
//! next run or a manual undo undoes them.

use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use crate::calls;

/// Name of the environment variable with the folder of journals; see
/// [`state_folder`](crate::state_folder).
const STATE: &str = "PAGEWISE_STATE";

/// As long as this exists, a crash of this process starts `pagewise undo`.
#[derive(Debug)]
pub struct Rescue(());

impl Rescue {
    /// Installs handlers of fatal signals. `state` is the folder of the journals.
    ///
    /// # Errors
    /// If the kernel refuses the handlers.
    pub fn install(state: &Path) -> io::Result<Self> {
        let state = std::path::absolute(state)?;
        let others = std::env::vars_os().filter(|(name, _)| name != STATE);
        let all = others.chain([(STATE.into(), state.into_os_string())]);
        let environment = all.map(|(name, value)| environment_entry([name, "=".into(), value]));
        let environment = environment.collect::<io::Result<_>>()?;
        calls::set_command_after_crash(vec![c"pagewise".into(), c"undo".into()], environment)?;
        Ok(Self(()))
    }

    /// Whether a [`Rescue`] exists in this process.
    #[must_use]
    pub fn is_installed() -> bool {
        calls::has_command_after_crash()
    }
}

impl Drop for Rescue {
    fn drop(&mut self) {
        calls::cancel_command_after_crash();
    }
}

fn environment_entry(parts: [OsString; 3]) -> io::Result<CString> {
    let bytes: Vec<u8> = parts.into_iter().flat_map(OsString::into_vec).collect();
    Ok(CString::new(bytes)?)
}
