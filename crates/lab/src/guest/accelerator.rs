// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether this machine can run guests on the processor itself.
//!
//! That /dev/kvm opens proves little: nested machines exist where QEMU then dies as it sets the
//! processor up. So a machine is set up and left at once; that takes a tenth of a second.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Serialize;

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

/// The best that works here.
#[must_use]
pub fn accelerator(qemu: &Path) -> Accelerator {
    let opens = OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok();
    if opens && starts(qemu) { Accelerator::Kvm } else { Accelerator::Tcg }
}

/// Sets a machine up, paused, and asks QEMU to quit.
fn starts(qemu: &Path) -> bool {
    let mut command = Command::new(qemu);
    command.args(Accelerator::Kvm.arguments(false)).args(["-M", "microvm", "-S", "-m", "64"]);
    command.args(["-nodefaults", "-no-user-config", "-display", "none", "-monitor", "stdio"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return false };
    let asked = child.stdin.take().map(|mut input| input.write_all(b"quit\n"));
    let ended = child.wait();
    asked.is_some() && ended.is_ok_and(|status| status.success())
}
