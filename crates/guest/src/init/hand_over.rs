// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PID 1 of ours → systemd as PID 1, on a disk of its own.
//!
//! The job waits on the disk as a unit; what PID 1 mounted goes, for systemd mounts with options of
//! its own; and the initramfs is emptied, or it would stay in memory. On success nothing of this
//! program is left running: the unit starts it again (see [`super::unit`]).

use std::convert::Infallible;
use std::ffi::CStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::mount::{MountFlags, mount, mount_move};

use super::failure::{ErrorContext, Failure};
use super::system;
use crate::wire::{JOB, Job, MARK};

const NEW: &str = "/new";
/// Where the job waits, below the new root.
pub(super) const FOLDER: &str = "var/lib/pagewise";
const PROGRAM: &str = "usr/bin/pagewise";
const UNIT: &str = "pagewise-job.service";

/// The job ends the machine: in order where it came to its end, at once where the runner of the job
/// is lost. It is not held up by units that do not start, and an emergency does not end it.
const TEXT: &str = "[Unit]\nDescription=The command of pagewise lab guest\n\
    DefaultDependencies=no\nIgnoreOnIsolate=yes\nSuccessAction=reboot\n\
    FailureAction=reboot-immediate\n\n\
    [Service]\nType=exec\nExecStart=/usr/bin/pagewise\nEnvironment=MARK=unit\nDelegate=yes\n\
    OOMScoreAdjust=-1000\nOOMPolicy=continue\nTasksMax=infinity\nTimeoutStopSec=5s\n";

/// Does not come back where it succeeds.
pub(super) fn to_systemd(job: &Job, disk: &str) -> Result<Infallible, Failure> {
    let new = Path::new(NEW);
    fs::create_dir_all(new).context(NEW)?;
    mount(disk, NEW, "ext4", MountFlags::empty(), None::<&CStr>)
        .context(format!("{disk}: the root disk cannot be mounted"))?;
    furnish(job, new)?;
    system::unmount_all();
    empty(Path::new("/"), new);
    switch().context("the root cannot be changed")?;
    let what = "/usr/lib/systemd/systemd".to_owned();
    let error = Command::new(&what).env_clear().exec();
    Err(Failure::Refused { what, error })
}

/// The program, the job with its unit, and the user's files.
fn furnish(job: &Job, new: &Path) -> Result<(), Failure> {
    copy(Path::new("/init"), &new.join(PROGRAM), 0o755)?;
    copy(&Path::new("/").join(JOB), &new.join(FOLDER).join(JOB), 0o600)?;
    for (path, mode) in &job.files {
        let path = path.trim_start_matches('/');
        copy(&Path::new("/").join(path), &new.join(path), *mode)?;
    }
    let units = new.join("etc/systemd/system");
    let wants = units.join("multi-user.target.wants");
    let written = fs::create_dir_all(&wants)
        .and_then(|()| fs::write(units.join(UNIT), TEXT.replace("MARK", MARK)))
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
