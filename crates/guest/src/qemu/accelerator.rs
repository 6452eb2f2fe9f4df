// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds out whether this machine can run guests with hardware virtualization (KVM).
//!
//! It is not enough that /dev/kvm can be opened: on some nested machines QEMU dies while it sets up
//! the processor. So this module starts a machine and quits it at once, which takes a tenth of a
//! second. The reason for a failure is kept for the user, who may only have to join the group of
//! /dev/kvm.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::program;
use crate::user::{NoAccess, User};

/// A seccomp filter that forbids system calls that QEMU does not need for these guests: starting
/// programs, changing users, and obsolete calls. A QEMU that was built without seccomp refuses this
/// option.
pub(super) const SANDBOX: [&str; 2] =
    ["-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"];

/// What executes the instructions of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Accelerator {
    /// The processor itself, through KVM.
    Kvm,
    /// TCG, QEMU's translator (software emulation).
    Tcg,
}

impl Accelerator {
    pub(super) fn arguments(self, count: bool) -> [&'static str; 4] {
        match (self, count) {
            (Self::Kvm, _) => ["-accel", "kvm", "-cpu", "host"],
            // QEMU 7.2 corrupts the flags around cmpxchg16b with two emulated processors.
            (Self::Tcg, false) => ["-accel", "tcg", "-cpu", "max,-cx16"],
            // With ERMS, `rep movsb` would count as one instruction for each byte.
            (Self::Tcg, true) => ["-accel", "tcg", "-cpu", "max,-cx16,-erms"],
        }
    }
}

pub(super) const DEVICE: &str = "/dev/kvm";
/// Time limit for setting up a machine; one that takes longer counts as failed.
const PATIENCE: Duration = Duration::from_secs(10);

/// Checks whether KVM works for guests on this machine.
///
/// # Errors
/// The reason why KVM does not work.
pub fn check_kvm(qemu: &Path) -> Result<(), NoKvm> {
    OpenOptions::new().read(true).write(true).open(DEVICE).map_err(NoKvm::Closed)?;
    let user = User::choose_unprivileged();
    let group = user.group_for(Path::new(DEVICE))?;
    check_starts(program::confined_command(qemu, user, group, Vec::new()))
}

/// Why KVM cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NoKvm {
    /// `/dev/kvm` cannot be opened.
    #[error("{DEVICE}: {0}")]
    Closed(std::io::Error),
    /// QEMU's unprivileged user has no access to `/dev/kvm`.
    #[error(
        "{DEVICE}: only root may open it, and QEMU does not run as root (chgrp kvm, chmod g+rw)"
    )]
    RootOnly,
    /// QEMU could not be started.
    #[error("{DEVICE} opens, but {0}")]
    NoQemu(std::io::Error),
    /// QEMU ended with an error when it used KVM.
    #[error("{DEVICE} opens, but QEMU cannot set a processor up with it")]
    Unusable,
    /// QEMU did not quit in time.
    #[error("{DEVICE} opens, but QEMU does not finish with it")]
    Hangs,
    /// QEMU works with KVM, but a test showed that no kernel boots.
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

/// Sets up a paused machine, and makes QEMU quit.
fn check_starts(mut command: Command) -> Result<(), NoKvm> {
    command.args(SANDBOX);
    command.args(Accelerator::Kvm.arguments(false)).args(["-M", "q35", "-S", "-m", "64"]);
    command.args(["-nodefaults", "-no-user-config", "-display", "none", "-monitor", "stdio"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(NoKvm::NoQemu)?;
    if let Some(mut input) = child.stdin.take() {
        let _ = input.write_all(b"quit\n");
    }
    match wait_in_time(&mut child) {
        Some(true) => Ok(()),
        Some(false) => Err(NoKvm::Unusable),
        None => Err(NoKvm::Hangs),
    }
}

/// Waits until QEMU has exited; returns whether its status was 0, or `None` if it had to be killed.
fn wait_in_time(child: &mut Child) -> Option<bool> {
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
