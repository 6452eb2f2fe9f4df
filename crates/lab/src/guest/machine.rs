// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A guest → QEMU's command line.
//!
//! microvm is the smallest machine and takes the plain kernel; it has no firmware, no ACPI and no
//! PCI. An image that could not be unpacked goes to q35, and so does a guest with disks: stock
//! kernels find microvm's disks by ACPI alone, and with ACPI microvm has no timer but the time
//! stamp counter, without which a kernel waits for ever where a busy host spoils its calibration.
//! Both end by a restart that QEMU is told not to do: a triple fault needs no device that the
//! machine may lack.

use std::ffi::OsString;
use std::path::Path;

use super::disk::{self, Backed, comma_doubled};
use super::{Accelerator, Guest};
use crate::kernel::Image;
use crate::wire::MARK;

/// Everything behind `qemu-system-x86_64`.
pub(super) fn arguments(
    guest: &Guest,
    accelerator: Accelerator,
    image: &Image,
    disks: &[Backed],
    folder: &Path,
) -> Vec<OsString> {
    let mut line: Vec<OsString> = accelerator.arguments(guest.count).map(Into::into).into();
    let machine = match image.plain && disks.is_empty() {
        true => "microvm,isa-serial=off,acpi=off",
        false => "q35,usb=off,graphics=off",
    };
    line.extend(["-M", machine, "-nodefaults", "-no-user-config"].map(Into::into));
    line.extend(["-display", "none", "-no-reboot", "-monitor", "none"].map(Into::into));
    let megabytes = guest.memory.get().div_ceil(1 << 20);
    line.extend(["-m".into(), format!("{megabytes}M").into()]);
    line.extend(["-smp".into(), guest.cpus.to_string().into()]);
    if guest.count {
        line.extend(["-icount", "shift=0,sleep=off"].map(Into::into));
    }
    line.extend(["-kernel".into(), image.path.clone().into()]);
    line.extend(["-initrd".into(), folder.join("initramfs").into()]);
    line.extend(["-append".into(), kernel_line(guest).into()]);
    let mut log = OsString::from("file,id=log,path=");
    log.push(comma_doubled(&folder.join("kernel.log")));
    line.extend(["-chardev".into(), log]);
    line.extend(["-chardev", "file,id=channel,path=/dev/fd/1"].map(Into::into));
    line.extend(["-device", "isa-serial,chardev=log,index=0"].map(Into::into));
    line.extend(["-device", "isa-serial,chardev=channel,index=1"].map(Into::into));
    line.extend(disk::arguments(disks));
    line
}

/// A panic ends the machine at once; the mark is what PID 1 knows itself by.
fn kernel_line(guest: &Guest) -> String {
    let own = format!("console=ttyS0 quiet panic=-1 reboot=t rdinit=/init {MARK}=1");
    let words = guest.append.iter().map(String::as_str);
    [own.as_str()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}
