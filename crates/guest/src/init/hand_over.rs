// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Replaces Pagewise as PID 1 by systemd, on a root disk.
//!
//! The job is written to /run, with a unit that starts it. Everything that this PID 1 mounted is
//! unmounted, because systemd mounts it with its own options, and the initramfs is emptied, because
//! it would stay in memory. No process of this program remains; the unit starts a new one (see
//! [`super::unit`]).
//!
//! The user's files are copied to the disk. If the disk is kept across reboots of the guest, they
//! are copied at the first boot only, together with the kernel modules, so that the system can load
//! modules by itself.

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
/// Folder with the job and its unit: on a tmpfs, so that they are not written to the user's disk.
pub(super) const FOLDER: &str = "run/pagewise-guest";
const PROGRAM: &str = "usr/bin/pagewise";
const UNIT: &str = "pagewise-job.service";
const DEPMOD: &str = "/usr/sbin/depmod";

/// The unit of the job. When the job ends, the machine ends, too: by an orderly reboot if the job
/// finished, and immediately if the process that runs the job failed. A guest with several boots
/// always reboots in an orderly way, because a command that requests a reboot kills that process.
/// The unit starts even if other units fail, and keeps running in emergency mode.
const TEXT: &str = "[Unit]\nDescription=The command of pagewise lab guest\n\
    DefaultDependencies=no\nIgnoreOnIsolate=yes\nSuccessAction=reboot\n\
    FailureAction=LOST\n\n\
    [Service]\nType=exec\nExecStart=/usr/bin/pagewise\nEnvironment=MARK=unit\nDelegate=yes\n\
    OOMScoreAdjust=-1000\nOOMPolicy=continue\nTasksMax=infinity\nTimeoutStopSec=5s\n";

/// Starts systemd in place of this process; returns only on failure. Messages about repairs of the
/// file system are sent to `tell`.
pub(super) fn start_systemd(
    job: &Job,
    disk: &str,
    tell: impl Fn(&Event),
) -> Result<Infallible, Failure> {
    let new = Path::new(NEW);
    fs::create_dir_all(new).context(NEW)?;
    mount(disk, NEW, "ext4", MountFlags::empty(), None::<&CStr>)
        .context(format!("{disk}: the root disk cannot be mounted"))?;
    if job.boot.is_some() {
        system::repair_messages().into_iter().for_each(|line| tell(&Event::Repaired { line }));
        // otherwise files that an earlier boot left in /out would be sent again
        remove_contents(&new.join(OUT.trim_start_matches('/')), Path::new(""));
    }
    let is_first = job.boot.is_none_or(|boot| boot == 0);
    if is_first {
        copy_files(job, new)?;
    }
    write_unit(job, new)?;
    let modules = find_modules_folder(new).filter(|folder| folder.is_dir());
    system::unmount_all();
    remove_contents(Path::new("/"), new);
    switch_root().context("the root cannot be changed")?;
    if let (true, Some(_)) = (is_first, modules) {
        run_depmod()?;
    }
    // write everything to the disk, so that a power loss in this boot cannot lose what the next
    // boot needs
    rustix::fs::sync();
    let what = "/usr/lib/systemd/systemd".to_owned();
    let error = Command::new(&what).env_clear().exec();
    Err(Failure::Refused { what, error })
}

/// Copies the program and the user's files; for a disk that is used for several boots, also
/// modules.
fn copy_files(job: &Job, new: &Path) -> Result<(), Failure> {
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
    match find_modules_folder(new) {
        Some(to) if from.is_dir() => copy_all(&from, &to),
        _ => Ok(()),
    }
}

fn find_modules_folder(new: &Path) -> Option<PathBuf> {
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

/// Runs depmod on the modules on the disk, which is the root file system by now. Standard input is
/// inherited, because this root has no /dev/null yet.
fn run_depmod() -> Result<(), Failure> {
    let ran = Command::new(DEPMOD).env_clear().stdin(Stdio::inherit()).output().context(DEPMOD)?;
    if ran.status.success() {
        return Ok(());
    }
    let error = String::from_utf8_lossy(&ran.stderr).trim().to_owned();
    Err(Failure::Program { program: DEPMOD, error })
}

/// Writes the job and its unit to a new tmpfs, which systemd then uses as /run.
fn write_unit(job: &Job, new: &Path) -> Result<(), Failure> {
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

/// Removes everything in the folder, except `spared` and what is below `spared`.
fn remove_contents(folder: &Path, spared: &Path) {
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

fn switch_root() -> rustix::io::Result<()> {
    rustix::process::chdir(NEW)?;
    mount_move(".", "/")?;
    rustix::process::chroot(".")?;
    rustix::process::chdir("/")
}
