// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Device number of a mapped file → the kind of its file system.
//!
//! `/proc/PID/mountinfo` lists what is mounted where the process is. Not listed anywhere is the
//! file system that the kernel mounts for itself for shared memory: a memfd of our own, empty and
//! closed at once, tells its number.

use std::collections::HashMap;

use rustix::fs::{MemfdFlags, fstat, major, memfd_create, minor};

use crate::backing::{Backing, Filesystem, Mapping, filesystems};
use crate::open;

/// What is known so far. Device numbers mean the same in all of the host.
#[derive(Debug, Clone)]
pub struct Devices {
    known: HashMap<(u32, u32), Filesystem>,
    /// The process whose mounts were looked at last.
    looked_at: Option<u32>,
}

impl Default for Devices {
    fn default() -> Self {
        Self::new()
    }
}

impl Devices {
    /// Nothing is known but the file system of shared memory.
    pub fn new() -> Self {
        let shared = own_shared_memory().map(|device| (device, Filesystem::Shmem));
        Self { known: shared.into_iter().collect(), looked_at: None }
    }

    /// What backs a mapping of the process.
    pub fn backing(&mut self, pid: u32, mapping: &Mapping) -> Backing {
        let backing = mapping.backing(|| self.filesystem(pid, mapping.device));
        let file = matches!(backing, Backing::Shmem | Backing::File) && mapping.might_be_device();
        if file && is_device(pid, mapping) { Backing::Other } else { backing }
    }

    fn filesystem(&mut self, pid: u32, device: (u32, u32)) -> Option<Filesystem> {
        if device.0 != 0 {
            return Some(Filesystem::Files);
        }
        if !self.known.contains_key(&device) && self.looked_at != Some(pid) {
            self.looked_at = Some(pid);
            let mounts = open::text_of_process(pid, "mountinfo").unwrap_or_default();
            for (device, kind) in filesystems(&mounts) {
                self.known.entry(device).or_insert(kind);
            }
        }
        self.known.get(&device).copied()
    }
}

/// Whether the mapped file is a device node, wherever it lies. Only root is told; for others the
/// file's place has to do (see [`crate::backing`]).
fn is_device(pid: u32, mapping: &Mapping) -> bool {
    let path = format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end);
    rustix::fs::stat(path).is_ok_and(|file| {
        let kind = rustix::fs::FileType::from_raw_mode(file.st_mode);
        kind != rustix::fs::FileType::RegularFile
    })
}

fn own_shared_memory() -> Option<(u32, u32)> {
    let file = memfd_create("pagewise", MemfdFlags::CLOEXEC).ok()?;
    let device = fstat(&file).ok()?.st_dev;
    Some((major(device), minor(device)))
}
