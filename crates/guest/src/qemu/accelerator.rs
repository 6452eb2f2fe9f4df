// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether this machine can run guests on the processor itself.
//!
//! That /dev/kvm opens proves little: nested machines exist where QEMU then dies as it sets the
//! processor up. So a machine is set up and left at once; that takes a tenth of a second. Why it
//! does not work is kept for the user, who may lack no more than a group.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::program;
use crate::user::{NoAccess, User};

/// System calls that QEMU needs for none of what it is asked here: other programs, other users, old
/// interfaces. A build without the filter refuses to start.
pub(super) const SANDBOX: [&str; 2] =
    ["-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"];

/// What executes the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Accelerator {
    /// The processor.
    Kvm,
    /// QEMU's translator.
    Tcg,
}

impl Accelerator {
    pub(super) fn arguments(self, count: bool) -> [&'static str; 4] {
        match (self, count) {
            (Self::Kvm, _) => ["-accel", "kvm", "-cpu", "host"],
            // QEMU 7.2 spoils the flags around cmpxchg16b with two emulated processors.
            (Self::Tcg, false) => ["-accel", "tcg", "-cpu", "max,-cx16"],
            // `rep movsb` would count as one instruction for each byte.
            (Self::Tcg, true) => ["-accel", "tcg", "-cpu", "max,-cx16,-erms"],
        }
    }
}

pub(super) const DEVICE: &str = "/dev/kvm";
/// A machine that is set up in no time is one that does not work.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether the processor itself can run guests here.
///
/// # Errors
/// Why not.
pub fn kvm(qemu: &Path) -> Result<(), NoKvm> {
    OpenOptions::new().read(true).write(true).open(DEVICE).map_err(NoKvm::Closed)?;
    let user = User::without_rights();
    let group = user.group_for(Path::new(DEVICE))?;
    starts(program::confined(qemu, user, group, Vec::new()))
}

/// Why the processor itself cannot run guests.
#[derive(Debug, thiserror::Error)]
pub enum NoKvm {
    /// It does not open.
    #[error("{DEVICE}: {0}")]
    Closed(std::io::Error),
    /// QEMU's user may not open it.
    #[error(
        "{DEVICE}: only root may open it, and QEMU does not run as root (chgrp kvm, chmod g+rw)"
    )]
    RootOnly,
    /// QEMU was not started.
    #[error("{DEVICE} opens, but {0}")]
    NoQemu(std::io::Error),
    /// QEMU ended with an error.
    #[error("{DEVICE} opens, but QEMU cannot set a processor up with it")]
    Unusable,
    /// QEMU hung.
    #[error("{DEVICE} opens, but QEMU does not finish with it")]
    Hangs,
    /// A kernel was tried.
    #[error("{DEVICE} opens, but no kernel comes up")]
    NoKernel,
}

impl From<NoAccess> for NoKvm {
    fn from(refused: NoAccess) -> Self {
        match refused {
            NoAccess::Refused(error) => Self::Closed(error),
            NoAccess::RootOnly => Self::RootOnly,
        }
    }
}

/// Sets a machine up, paused, and asks QEMU to quit.
fn starts(mut command: Command) -> Result<(), NoKvm> {
    command.args(SANDBOX);
    command.args(Accelerator::Kvm.arguments(false)).args(["-M", "q35", "-S", "-m", "64"]);
    command.args(["-nodefaults", "-no-user-config", "-display", "none", "-monitor", "stdio"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(NoKvm::NoQemu)?;
    if let Some(mut input) = child.stdin.take() {
        let _ = input.write_all(b"quit\n");
    }
    match in_time(&mut child) {
        Some(true) => Ok(()),
        Some(false) => Err(NoKvm::Unusable),
        None => Err(NoKvm::Hangs),
    }
}

/// Whether it ended well; nothing where it had to be ended.
fn in_time(child: &mut Child) -> Option<bool> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status.success());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}
