// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packs the program, busybox, modules, the job and its files into the initramfs of a guest.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, Mode, memfd_create};

use super::disk;
use super::guest::Guest;
use crate::cpio::Archive;
use crate::elf;
use crate::error::{Error, ErrorContext};
use crate::kernel::{Kernel, Module};
use crate::program;
use crate::user::User;
use crate::userland::{self, Userland};
use crate::wire::{BOOT, DISK_MODULES, JOB, Job, OUT};

/// Modules for every guest, if its kernel has them as modules: compressors, zswap's allocators, and
/// zram. The compressors come first, because zram of older kernels offers only those that are
/// loaded when it initialises. zswap would request them when it needs them, but a minimal guest has
/// no program that loads modules then.
const MODULES: &[&str] = &[
    "lz4", "lz4hc", "lzo", "lzo_rle", "zstd", "deflate", "842", "zbud", "z3fold", "zsmalloc",
    "zram",
];

/// Builds the initramfs: first the files that are the same for every job, then the job.
pub(super) fn build(guest: &Guest, kernel: &Kernel) -> Result<Vec<u8>, Error> {
    let busybox = match guest.userland {
        Userland::Minimal => kernel.busybox()?,
        Userland::Systemd(_) => None,
    };
    let modules = match &guest.boot {
        None => kernel.find_modules_to_load(&needed_modules(guest), &guest.modules)?,
        Some(_) => {
            kernel.find_modules_to_load(&[disk::MODULES, userland::ROOT_MODULES].concat(), &[])?
        }
    };
    let mut bytes = system(&read_pid_1(&guest.program)?, busybox, &modules)?;
    if guest.is_first_boot() {
        bytes.extend(disk_modules(guest, kernel)?);
    }
    bytes.extend(job(guest, &modules)?);
    Ok(bytes)
}

/// Makes the archive of modules that become `/lib/modules/RELEASE` on a root disk that is kept
/// across boots.
fn disk_modules(guest: &Guest, kernel: &Kernel) -> Result<Vec<u8>, Error> {
    let names = [&needed_modules(guest)[..], userland::DISK_MODULES].concat();
    let mut archive = Archive::default();
    archive.add_folder(DISK_MODULES);
    for module in kernel.find_modules_to_load(&names, &guest.modules)? {
        archive.add_file(&format!("{DISK_MODULES}/kernel/{}.ko", module.name), &module.bytes);
    }
    for (name, bytes) in kernel.module_lists()? {
        archive.add_file(&format!("{DISK_MODULES}/{name}"), &bytes);
    }
    Ok(archive.finish())
}

fn needed_modules(guest: &Guest) -> Vec<&'static str> {
    let disks = if guest.disks.is_empty() { &[] } else { disk::MODULES };
    let systemd = match guest.userland {
        Userland::Minimal => &[],
        Userland::Systemd(_) => userland::MODULES,
    };
    [MODULES, disks, systemd].concat()
}

/// Reads the executable for PID 1. It must be static, because a guest has no libraries.
fn read_pid_1(path: &Path) -> Result<Vec<u8>, Error> {
    let bytes = fs::read(path).with_path(path)?;
    match elf::read(&bytes) {
        Some(elf) if !elf.needs_loader => Ok(bytes),
        Some(_) => Err(Error::Unusable {
            path: path.to_owned(),
            what: "needs libraries, and a guest has none: use the static build (make build)".into(),
        }),
        None => Err(Error::Unusable {
            path: path.to_owned(),
            what: "expected an x86_64 program".into(),
        }),
    }
}

fn system(
    init: &[u8],
    busybox: Option<(&Path, Vec<u8>)>,
    modules: &[Module],
) -> Result<Vec<u8>, Error> {
    let mut archive = Archive::default();
    for folder in ["dev", "proc", "sys", "tmp", "run", "root", "etc", OUT] {
        archive.add_folder(folder);
    }
    archive.add_file("init", init);
    archive.add_link("bin/pagewise", "/init");
    archive.add_file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n");
    archive.add_file("etc/group", b"root:x:0:\n");
    if let Some((path, bytes)) = busybox {
        archive.add_file("bin/busybox", &bytes);
        for applet in list_applets(path, &bytes)? {
            archive.add_link(&format!("bin/{applet}"), "busybox");
        }
    }
    for module in modules {
        archive.add_file(&format!("modules/{}", module.name), &module.bytes);
    }
    Ok(archive.finish())
}

/// Names of the applets of this busybox. Host and guest have the same architecture, so the host
/// runs `busybox --list`, which saves starting it in each guest. It runs a copy of the bytes that
/// were read and verified, not the file at the path, and as an unprivileged user.
fn list_applets(path: &Path, bytes: &[u8]) -> Result<Vec<String>, Error> {
    let copy = memory_file(bytes).with_path(path)?;
    let place = PathBuf::from(format!("/proc/self/fd/{}", copy.as_raw_fd()));
    let mut command =
        program::confined_command(&place, User::choose_unprivileged(), None, vec![copy.into()]);
    // busybox lists its applets only if it is started under its own name.
    let listed = program::output_of_wrapped("busybox", command.arg0("busybox").arg("--list"))?;
    let plain = |name: &&str| !name.is_empty() && !name.contains('/') && *name != "busybox";
    Ok(listed.lines().filter(plain).map(str::to_owned).collect())
}

/// Puts a program into a memfd that nobody else can write to. The file is opened again read-only,
/// because a file that is open for writing cannot be executed (ETXTBSY).
fn memory_file(bytes: &[u8]) -> std::io::Result<File> {
    let flags = MemfdFlags::CLOEXEC;
    // Kernels before 6.3 do not know MFD_EXEC: there every memfd is executable.
    let file = memfd_create("busybox", flags | MemfdFlags::EXEC)
        .or_else(|_| memfd_create("busybox", flags))?;
    let mut file = File::from(file);
    file.write_all(bytes)?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(0o555))?;
    File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn job(guest: &Guest, modules: &[Module]) -> Result<Vec<u8>, Error> {
    let mut environment = BTreeMap::from(
        [
            ("PATH", "/bin:/sbin:/usr/bin:/usr/sbin"),
            ("HOME", "/root"),
            ("LANG", "C.UTF-8"),
            ("TERM", "dumb"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    environment.extend(guest.environment.iter().cloned());
    let boot = guest.boot.as_ref();
    environment.extend(boot.map(|boot| (BOOT.to_owned(), boot.number.to_string())));
    let modules = modules.iter().map(|module| module.name.clone()).collect();
    let (argv, disks) = (guest.argv.clone(), guest.disks.len());
    let job = Job {
        argv,
        environment,
        modules,
        disks,
        root: root_device(guest),
        files: permissions(guest)?,
        boot: boot.map(|boot| boot.number),
        removed: boot.map(|boot| boot.removed.clone()).unwrap_or_default(),
        quiet: guest.count,
        settle_seconds: guest.start_deadline.as_secs() / 2,
    };
    let mut archive = Archive::default();
    archive.add_file(JOB, &serde_json::to_vec(&job).unwrap_or_default());
    for (from, to) in &guest.files {
        // the file is held in the guest's memory
        const LONGEST: u64 = 1 << 30;
        archive.add_file(to, &pagewise_observe::UserFile::open(from, LONGEST)?.into_bytes()?);
    }
    for (bytes, to) in &guest.texts {
        archive.add_file(to, bytes);
    }
    Ok(archive.finish())
}

/// Path of the device of the userland's root disk, which is the last disk.
fn root_device(guest: &Guest) -> Option<String> {
    guest.userland.item()?;
    let letter = ('a'..='z').nth(guest.disks.len().checked_sub(1)?)?;
    Some(format!("/dev/vd{letter}"))
}

/// Modes of the user's files on the host, to be set on the root disk: in the archive every file is
/// executable.
fn permissions(guest: &Guest) -> Result<Vec<(String, u32)>, Error> {
    let one = |(from, to): &(PathBuf, String)| {
        let data = from.metadata().with_path(from)?;
        Ok((to.clone(), data.permissions().mode() & 0o777))
    };
    guest.files.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The host executes the bytes of busybox that were verified, not the file at the path, and as
    /// an unprivileged user.
    #[test]
    fn the_host_asks_busybox_without_rights() {
        let script = b"#!/bin/sh\nid -u\nprintf 'x/y\\nbusybox\\nsh\\n'\n";
        let found = list_applets(Path::new("/nonexistent/busybox"), script).unwrap();
        let [user, shell] = &found[..] else { panic!("{found:?}") };
        let us = rustix::process::geteuid();
        assert!(shell == "sh" && (us.is_root() || *user == us.as_raw().to_string()), "{found:?}");
        assert!(!us.is_root() || user.parse::<u32>().is_ok_and(|user| user > 65533), "{found:?}");
    }
}
