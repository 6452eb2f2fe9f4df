// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PID 1 of ours → systemd as PID 1, on a disk of its own.
//!
//! The job waits in /run as a unit; what PID 1 mounted goes, for systemd mounts with options of
//! its own; and the initramfs is emptied, or it would stay in memory. On success nothing of this
//! program is left running: the unit starts it again (see [`super::unit`]).
//!
//! What the user brings goes onto the disk. If the disk outlives the guest, that is done at its first boot
//! alone, and modules go there too, so that the system loads what it needs by itself.

use std::convert::Infallible;
use std::ffi::CStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::mount::{MountFlags, mount, mount_move};

use super::failure::{ErrorContext, Failure};
use super::system;
use crate::wire::{DISK_MODULES, Event, JOB, Job, MARK, OUT};

const NEW: &str = "/new";
/// Where the job waits. It is in memory: what is on the disk is the user's.
pub(super) const FOLDER: &str = "run/pagewise-guest";
const PROGRAM: &str = "usr/bin/pagewise";
const UNIT: &str = "pagewise-job.service";
const DEPMOD: &str = "/usr/sbin/depmod";

/// The job ends the machine: in order where it came to its end, at once where the runner of the job
/// is lost; but a machine that reboots always in order, as a command that asks for a reboot loses its
/// runner. It is not held up by units that do not start, and an emergency does not end it.
const TEXT: &str = "[Unit]\nDescription=The command of pagewise lab guest\n\
    DefaultDependencies=no\nIgnoreOnIsolate=yes\nSuccessAction=reboot\n\
    FailureAction=LOST\n\n\
    [Service]\nType=exec\nExecStart=/usr/bin/pagewise\nEnvironment=MARK=unit\nDelegate=yes\n\
    OOMScoreAdjust=-1000\nOOMPolicy=continue\nTasksMax=infinity\nTimeoutStopSec=5s\n";

/// Does not come back where it succeeds. What the mount repaired goes to `tell`.
pub(super) fn to_systemd(
    job: &Job,
    disk: &str,
    tell: impl Fn(&Event),
) -> Result<Infallible, Failure> {
    let new = Path::new(NEW);
    fs::create_dir_all(new).context(NEW)?;
    mount(disk, NEW, "ext4", MountFlags::empty(), None::<&CStr>)
        .context(format!("{disk}: the root disk cannot be mounted"))?;
    if job.boot.is_some() {
        system::repairs().into_iter().for_each(|line| tell(&Event::Repaired { line }));
        // else files of an earlier boot would be brought out again
        empty(&new.join(OUT.trim_start_matches('/')), Path::new(""));
    }
    let is_first = job.boot.is_none_or(|boot| boot == 0);
    if is_first {
        furnish(job, new)?;
    }
    announce(job, new)?;
    let modules = modules_folder(new).filter(|folder| folder.is_dir());
    system::unmount_all();
    empty(Path::new("/"), new);
    switch().context("the root cannot be changed")?;
    if let (true, Some(_)) = (is_first, modules) {
        list_modules()?;
    }
    // a loss of power in this boot loses nothing that the next one needs
    rustix::fs::sync();
    let what = "/usr/lib/systemd/systemd".to_owned();
    let error = Command::new(&what).env_clear().exec();
    Err(Failure::Refused { what, error })
}

/// The program, the user's files and, for a disk with several boots, modules.
fn furnish(job: &Job, new: &Path) -> Result<(), Failure> {
    copy(Path::new("/init"), &new.join(PROGRAM), 0o755)?;
    for (path, mode) in &job.files {
        let path = path.trim_start_matches('/');
        copy(&Path::new("/").join(path), &new.join(path), *mode)?;
    }
    for path in &job.removed {
        match fs::remove_file(new.join(path)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed.context(path)?,
        }
    }
    let from = Path::new("/").join(DISK_MODULES);
    match modules_folder(new) {
        Some(to) if from.is_dir() => copy_all(&from, &to),
        _ => Ok(()),
    }
}

fn modules_folder(new: &Path) -> Option<PathBuf> {
    let release = rustix::system::uname().release().to_str().ok()?.to_owned();
    Some(new.join("usr/lib/modules").join(release))
}

fn copy_all(from: &Path, to: &Path) -> Result<(), Failure> {
    for entry in fs::read_dir(from).at_path(from)? {
        let entry = entry.at_path(from)?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_all(&entry.path(), &target)?;
        } else {
            copy(&entry.path(), &target, 0o644)?;
        }
    }
    Ok(())
}

/// Has kmod read the modules that are on the disk, which is the root by now. There is no /dev/null here.
fn list_modules() -> Result<(), Failure> {
    let ran = Command::new(DEPMOD).env_clear().stdin(Stdio::inherit()).output().context(DEPMOD)?;
    if ran.status.success() {
        return Ok(());
    }
    let error = String::from_utf8_lossy(&ran.stderr).trim().to_owned();
    Err(Failure::Program { program: DEPMOD, error })
}

/// The job and its unit, in the folder that systemd takes over as its own /run.
fn announce(job: &Job, new: &Path) -> Result<(), Failure> {
    let run = new.join("run");
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::STRICTATIME;
    mount("tmpfs", &run, "tmpfs", flags, Some(c"mode=0755,size=20%,nr_inodes=800k"))
        .context("/run on the root disk")?;
    copy(&Path::new("/").join(JOB), &new.join(FOLDER).join(JOB), 0o600)?;
    let lost = if job.boot.is_some() { "reboot" } else { "reboot-immediate" };
    let units = run.join("systemd/system");
    let wants = units.join("multi-user.target.wants");
    let written = fs::create_dir_all(&wants)
        .and_then(|()| {
            fs::write(units.join(UNIT), TEXT.replace("MARK", MARK).replace("LOST", lost))
        })
        .and_then(|()| symlink(format!("../{UNIT}"), wants.join(UNIT)));
    written.context(UNIT)
}

fn copy(from: &Path, to: &Path, mode: u32) -> Result<(), Failure> {
    let folder = to.parent().unwrap_or(to);
    fs::create_dir_all(folder)
        .and_then(|()| fs::copy(from, to))
        .and_then(|_| fs::set_permissions(to, fs::Permissions::from_mode(mode)))
        .context(format!("{} on the root disk", to.display()))
}

/// Removes what lies in the initramfs, but nothing below the new root.
fn empty(folder: &Path, spared: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            _ if path == spared => {}
            Ok(kind) if kind.is_dir() => {
                let _ = fs::remove_dir_all(path);
            }
            _ => {
                let _ = fs::remove_file(path);
            }
        }
    }
}

fn switch() -> rustix::io::Result<()> {
    rustix::process::chdir(NEW)?;
    mount_move(".", "/")?;
    rustix::process::chroot(".")?;
    rustix::process::chdir("/")
}
