// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds QEMU's command line for a guest.
//!
//! `microvm` is the smallest machine, and boots an uncompressed kernel; it has no firmware, ACPI or
//! PCI. Guests get `q35` instead in three cases: if the QEMU build lacks `microvm`, if the image
//! could not be decompressed, or if the guest has disks or several processors, because without ACPI
//! stock kernels see one processor and no disk. (With ACPI, `microvm` has no timer except the TSC,
//! and a kernel waits for ever if a busy host disturbs the calibration.) Both machines end by a
//! restart, at which QEMU is configured to exit; the kernel restarts by a triple fault, which needs
//! no device.

use std::ffi::OsString;
use std::path::Path;

use super::accelerator::{Accelerator, SANDBOX};
use super::disk::{self, Backed};
use super::guest::Guest;
use super::process::name_argument;
use crate::error::Error;
use crate::kernel::Image;
use crate::program;
use crate::user::User;
use crate::wire::MARK;

/// The files that QEMU is given: names relative to the folder that it runs in, or paths of open
/// files.
#[derive(Debug)]
pub(super) struct MachineFiles {
    /// Name of the kernel image.
    pub(super) kernel: OsString,
    /// Name of the initramfs.
    pub(super) initramfs: OsString,
    /// Path of the kernel's log.
    pub(super) log: String,
    /// Path of the file or pipe for the events of PID 1.
    pub(super) channel: String,
}

/// The machine type: the value of QEMU's option `-M`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Machine(&'static str);

const SMALL: Machine = Machine("microvm,isa-serial=off,acpi=off");
const USUAL: Machine = Machine("q35,usb=off");

/// Chooses the smallest machine type that this QEMU has and that fits the guest.
pub(super) fn choose_machine(
    qemu: &Path,
    guest: &Guest,
    image: &Image,
    disks: &[Backed],
) -> Result<Machine, Error> {
    if !image.plain || !disks.is_empty() || guest.cpus > 1 {
        return Ok(USUAL);
    }
    let mut command =
        program::confined_command(qemu, User::choose_unprivileged(), None, Vec::new());
    let listed = program::output_of_wrapped("qemu-system-x86_64", command.args(["-M", "help"]))?;
    let has_small = listed.lines().any(|line| line.starts_with("microvm "));
    Ok(if has_small { SMALL } else { USUAL })
}

/// Builds all arguments of `qemu-system-x86_64`.
pub(super) fn arguments(
    guest: &Guest,
    accelerator: Accelerator,
    disks: &[Backed],
    machine: Machine,
    places: MachineFiles,
    folder: &Path,
) -> Vec<OsString> {
    let mut line: Vec<OsString> = accelerator.arguments(guest.count).map(Into::into).into();
    line.extend(["-M", machine.0, "-nodefaults", "-no-user-config"].map(Into::into));
    line.extend(["-nic", "none", "-name"].map(Into::into));
    line.push(name_argument(folder));
    line.extend(SANDBOX.map(Into::into));
    line.extend(["-display", "none", "-no-reboot", "-monitor", "none"].map(Into::into));
    let megabytes = guest.memory.get().div_ceil(1 << 20);
    line.extend(["-m".into(), format!("{megabytes}M").into()]);
    line.extend(["-smp".into(), guest.cpus.to_string().into()]);
    if guest.count {
        line.extend(["-icount", "shift=0,sleep=off"].map(Into::into));
    }
    line.extend(["-kernel".into(), places.kernel]);
    line.extend(["-initrd".into(), places.initramfs]);
    line.extend(["-append".into(), kernel_line(guest).into()]);
    // `append=on`: otherwise QEMU truncates these two files, which fails on a pipe.
    for (id, path) in [("log", places.log), ("channel", places.channel)] {
        line.extend(["-chardev".into(), format!("file,id={id},append=on,path={path}").into()]);
    }
    line.extend(["-device", "isa-serial,chardev=log,index=0"].map(Into::into));
    line.extend(["-device", "isa-serial,chardev=channel,index=1"].map(Into::into));
    line.extend(disk::arguments(disks));
    line
}

/// Words of the kernel's command line that disable address randomization, because it would vary the
/// number of instructions.
const STEADY: &str = " nokaslr norandmaps randomize_kstack_offset=off";

/// The kernel's command line. `panic=-1` makes the kernel restart at once after a panic; PID 1
/// recognises a guest by the mark. Without KVM a kernel would check that timer interrupts arrive in
/// time, and would panic if a busy host delays them; `no_timer_check` makes it behave as with KVM,
/// where it does not check.
fn kernel_line(guest: &Guest) -> String {
    let quiet = if guest.whole_log { "" } else { " quiet" };
    let steady = if guest.count { STEADY } else { "" };
    let own = format!(
        "console=ttyS0{quiet}{steady} panic=-1 reboot=t no_timer_check rdinit=/init {MARK}=1"
    );
    let words = guest.append.iter().map(String::as_str);
    [own.as_str()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}
