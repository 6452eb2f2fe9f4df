// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A crash while something is lent → `pagewise undo` at once, by a process of its own.
//!
//! The release build aborts on a panic, and an abort, a fault or a limit of the kernel (SIGXCPU, SIGXFSZ)
//! ends a process without a chance to put anything back. The journal knows what is lent, so a handler of
//! those signals forks a child that waits for the end of this process, with which its lock goes, and
//! becomes `pagewise undo`. What it says comes on standard error. Against SIGKILL nothing helps but the
//! next run or an undo by hand.

use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use crate::calls;

/// See [`state_folder`](crate::state_folder).
const STATE: &str = "PAGEWISE_STATE";

/// While this lives, a crash of this process starts `pagewise undo`.
#[derive(Debug)]
pub struct Rescue(());

impl Rescue {
    /// Gets ready. `state` is the folder of the journals.
    ///
    /// # Errors
    /// Where the kernel refuses the handlers.
    pub fn ready(state: &Path) -> io::Result<Self> {
        let state = std::path::absolute(state)?;
        let others = std::env::vars_os().filter(|(name, _)| name != STATE);
        let all = others.chain([(STATE.into(), state.into_os_string())]);
        let environment = all.map(|(name, value)| text([name, "=".into(), value]));
        let environment = environment.collect::<io::Result<_>>()?;
        calls::start_after_crash(vec![c"pagewise".into(), c"undo".into()], environment)?;
        Ok(Self(()))
    }

    /// Whether one lives.
    #[must_use]
    pub fn is_ready() -> bool {
        calls::starts_after_crash()
    }
}

impl Drop for Rescue {
    fn drop(&mut self) {
        calls::start_nothing();
    }
}

fn text(parts: [OsString; 3]) -> io::Result<CString> {
    let bytes: Vec<u8> = parts.into_iter().flat_map(OsString::into_vec).collect();
    Ok(CString::new(bytes)?)
}
