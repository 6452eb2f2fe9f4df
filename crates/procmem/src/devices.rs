// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines the kind of file system that a mapped file is on, from its device number.
//!
//! `/proc/PID/mountinfo` lists the mounts that the process sees. The file system that the kernel
//! mounts internally for shared memory is not listed anywhere. To find its device number, this
//! process creates an empty memfd, reads its device number, and closes it at once.

use std::collections::HashMap;

use rustix::fs::{
    AtFlags, CWD, FileType, MemfdFlags, StatxFlags, fstat, major, memfd_create, minor, statx,
};

use crate::backing::{Backing, Filesystem, Mapping, filesystems};
use crate::open;

/// The kinds of the file systems found so far, by device number. Device numbers have the same
/// meaning on the whole host.
#[derive(Debug, Clone)]
pub struct Devices {
    known: HashMap<(u32, u32), Filesystem>,
    /// Id of the process whose mounts were read most recently.
    looked_at: Option<u32>,
}

impl Default for Devices {
    fn default() -> Self {
        Self::new()
    }
}

impl Devices {
    /// Creates the list with only the file system of shared memory.
    pub fn new() -> Self {
        let shared = own_shared_memory().map(|device| (device, Filesystem::Shmem));
        Self { known: shared.into_iter().collect(), looked_at: None }
    }

    /// Returns what backs a mapping of the process.
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

/// Whether the mapped file is a device node, whatever folder it is in. Only root can determine
/// this; for other users the file's path is used (see [`crate::backing`]). If a server provides the
/// file, the server is not asked, because it might not answer.
fn is_device(pid: u32, mapping: &Mapping) -> bool {
    let path = format!("/proc/{pid}/{}", open::of_mapping(mapping));
    statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE)
        .is_ok_and(|file| FileType::from_raw_mode(file.stx_mode.into()) != FileType::RegularFile)
}

pub(crate) fn own_shared_memory() -> Option<(u32, u32)> {
    let file = memfd_create("pagewise", MemfdFlags::CLOEXEC).ok()?;
    let device = fstat(&file).ok()?.st_dev;
    Some((major(device), minor(device)))
}
