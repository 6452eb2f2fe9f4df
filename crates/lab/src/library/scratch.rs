// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file system in a guest for workloads that read files.
//!
//! The guest's root file system is in memory: its files are shmem, which is swapped and never
//! dropped, so reading them does not show how the kernel treats file pages. Usually the files of
//! workloads are on a disk. A guest whose clock counts instructions has no disk, because reading a
//! disk takes time but no instructions. It uses the zram device that exists when the module is
//! loaded (arms add others), with ext2 (mounted by the ext4 module): its file pages are read,
//! dropped and read again like those on a disk.

#![expect(clippy::disallowed_methods, reason = "it makes a file system in a guest")]

use std::ffi::CStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pagewise_guest::{Error, ErrorContext};
use pagewise_model::{Bytes, TrialSwap};
use pagewise_workload::Workload;
use rustix::mount::{MountFlags, mount};
use serde::{Deserialize, Serialize};

use super::Cell;

/// Mount point of the file system in the guest.
pub(super) const FOLDER: &str = "/scratch";
/// Name of the kernel module of the file system.
pub(super) const MODULE: &str = "ext4";
/// Additional size in bytes, for the metadata of the file system and for small files of a workload.
const SPARE: u64 = 64 << 20;
const FIRST_ZRAM: &str = "/sys/block/zram0/disksize";
const FIRST_ZRAM_DEVICE: &str = "/dev/zram0";

/// The device of the file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scratch {
    /// The guest's first zram device, with this size in bytes.
    Zram(u64),
    /// A disk of the guest, by the path of its device.
    Disk(PathBuf),
}

impl Scratch {
    /// Makes the file system on its device and mounts it, in a guest.
    ///
    /// # Errors
    /// If a step failed.
    pub fn mount(&self) -> Result<(), NotReady> {
        let device = self.device()?;
        let mut make = Command::new("mke2fs");
        make.args(["-F", "-b", "4096", "-m", "0"]).arg(&device);
        run_to_success(&mut make)?;
        fs::create_dir_all(FOLDER).with_path(Path::new(FOLDER))?;
        // discard option: zram's memory is freed as soon as files are deleted
        let options: Option<&CStr> = matches!(self, Self::Zram(_)).then_some(c"discard");
        mount(&device, FOLDER, MODULE, MountFlags::NOATIME, options)
            .map_err(|errno| NotReady::NotMounted(errno.into()))
    }

    fn device(&self) -> Result<PathBuf, NotReady> {
        match self {
            Self::Disk(path) => Ok(path.clone()),
            Self::Zram(bytes) => {
                fs::write(FIRST_ZRAM, bytes.to_string()).with_path(Path::new(FIRST_ZRAM))?;
                Ok(PathBuf::from(FIRST_ZRAM_DEVICE))
            }
        }
    }
}

/// Size of the file system that the runs of a cell need.
pub(super) fn size_for(cell: &Cell) -> Bytes {
    let files = match &cell.workload {
        Workload::Swap(swap) => swap.code.0.get(),
        Workload::Coldpages(pages) => pages.library.0.get() + pages.stream.0.get(),
        Workload::Tiers(_)
        | Workload::Hugepages(_)
        | Workload::Redis(_)
        | Workload::Command { .. } => 0,
    };
    let of_arm = |areas: &Vec<TrialSwap>| areas.iter().map(bytes_of_file_area).sum::<u64>();
    let arms = cell.experiment.arms.iter().filter_map(|arm| arm.swap.as_ref());
    let swap = arms.map(of_arm).max().unwrap_or(0);
    // a swap file must leave a sixteenth of the file system free
    Bytes::new((files + swap) / 8 * 10 + SPARE)
}

fn bytes_of_file_area(area: &TrialSwap) -> u64 {
    match area {
        TrialSwap::File { size_bytes, .. } => *size_bytes,
        TrialSwap::Zram { .. } | TrialSwap::Device { .. } | TrialSwap::Zswap(_) => 0,
    }
}

/// Brings up the loopback interface, where redis-server listens.
pub(super) fn bring_up_loopback() -> Result<(), NotReady> {
    run_to_success(Command::new("ip").args(["link", "set", "lo", "up"]))
}

/// Why a guest could not be prepared for its workload.
#[derive(Debug, thiserror::Error)]
pub enum NotReady {
    /// A file cannot be used, or a program of the guest failed.
    #[error(transparent)]
    Guest(#[from] Error),
    /// The file system could not be mounted.
    #[error("{FOLDER}: {MODULE} is not mounted: {0}")]
    NotMounted(std::io::Error),
}

fn run_to_success(command: &mut Command) -> Result<(), NotReady> {
    let program = command.get_program().to_string_lossy().into_owned();
    let message = match command.output() {
        Ok(ended) if ended.status.success() => return Ok(()),
        Ok(ended) => String::from_utf8_lossy(&ended.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Err(Error::Failed { program, message }.into())
}

/// Path of the device of the disk that follows `before` other disks.
pub(super) fn disk_after(before: usize) -> PathBuf {
    let letter = ('a'..='z').nth(before).unwrap_or('z');
    Path::new("/dev").join(format!("vd{letter}"))
}
