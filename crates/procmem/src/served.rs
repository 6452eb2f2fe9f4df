// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines whether another machine or a program provides the contents of a mapped file (NFS,
//! SMB, FUSE …), without waiting for that server.
//!
//! Opening such a file, and even fstatfs, waits for the server's answer; if the server hangs, the
//! waiting process cannot be killed. The file is therefore not opened. Its file system is looked up
//! in `/proc/PID/mountinfo`, which the kernel answers without the server, by the device number in
//! the mapping. Some file systems have another number there (for example for a subvolume of btrfs).
//! For these, statx returns the number of the mount, with a flag that prevents it from asking the
//! server (`AT_STATX_DONT_SYNC`).

use std::collections::HashMap;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use crate::backing::{Mapping, Mount, parse_mount};
use crate::devices::own_shared_memory;
use crate::open;

/// Types of file systems whose data are provided by another machine or, for `fuse`, by a program.
const SERVED: [&str; 16] = [
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "afs", "coda", "lustre", "orangefs",
    "virtiofs", "vboxsf", "ncpfs", "autofs", "fuse",
];

/// The mounts that another process and this process see.
#[derive(Debug)]
pub struct MountTable {
    by_device: HashMap<(u32, u32), String>,
    by_number: HashMap<u64, String>,
    /// The device number of shared memory, which is not in any list of mounts.
    shared_memory: Option<(u32, u32)>,
}

impl MountTable {
    /// Reads the mounts of the process `pid` and of this process.
    #[must_use]
    pub fn read_for(pid: u32) -> Self {
        let mut table = Self::empty();
        for pid in [std::process::id(), pid] {
            table.add(&open::text_of_process(pid, "mountinfo").unwrap_or_default());
        }
        table.shared_memory = own_shared_memory();
        table
    }

    fn empty() -> Self {
        Self { by_device: HashMap::new(), by_number: HashMap::new(), shared_memory: None }
    }

    fn add(&mut self, mountinfo: &[u8]) {
        for Mount { number, device, kind } in
            mountinfo.split(|&byte| byte == b'\n').filter_map(parse_mount)
        {
            self.by_device.insert(device, kind.to_owned());
            self.by_number.insert(number, kind.to_owned());
        }
    }

    /// Returns in words what provides the file of a mapping; `None` if the kernel itself does.
    #[must_use]
    pub fn find_server(&self, pid: u32, mapping: &Mapping) -> Option<String> {
        self.find_server_of_mount(mapping.device, || number_of_mount(pid, mapping))
    }

    fn find_server_of_mount(
        &self,
        device: (u32, u32),
        number: impl FnOnce() -> Option<u64>,
    ) -> Option<String> {
        let kind = self.by_device.get(&device);
        // the file is on a disk or in memory of the kernel
        if kind.is_none() && (device.0 != 0 || self.shared_memory == Some(device)) {
            return None;
        }
        let kind = kind.or_else(|| self.by_number.get(&number()?));
        match kind {
            Some(kind) if is_served(kind) => Some(format!("a file system of type {kind}")),
            Some(_) => None,
            None => Some("a file system that is mounted nowhere".to_owned()),
        }
    }
}

fn is_served(kind: &str) -> bool {
    SERVED.contains(&kind) || kind == "fuseblk" || kind.starts_with("fuse.")
}

fn number_of_mount(pid: u32, mapping: &Mapping) -> Option<u64> {
    let path = format!("/proc/{pid}/{}", open::of_mapping(mapping));
    let known = statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::MNT_ID).ok()?;
    (known.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(known.stx_mnt_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &[u8] = b"21 1 254:1 / / rw,noatime - ext4 /dev/root rw\n\
        22 21 0:44 / /far rw - nfs4 server:/far rw\n23 21 0:45 / /near rw - fuse.sshfs me@there rw\n\
        24 21 8:1 / /stick rw - fuseblk /dev/sda1 rw\n25 21 0:46 /sub /data rw - btrfs /dev/sdb rw\n";

    #[test]
    fn who_serves_a_file_is_known_by_its_device_or_its_mount() {
        let mut table = MountTable::empty();
        table.add(MOUNTS);
        table.shared_memory = Some((0, 1));
        let of = |device, number: Option<u64>| table.find_server_of_mount(device, || number);
        for (device, kind) in [((0, 44), "nfs4"), ((0, 45), "fuse.sshfs"), ((8, 1), "fuseblk")] {
            assert_eq!(of(device, None), Some(format!("a file system of type {kind}")));
        }
        for kernels in [(254, 1), (0, 46), (0, 1), (8, 2)] {
            assert_eq!(of(kernels, None), None, "{kernels:?}");
        }
        // a subvolume, a mount of NFS with another number, and a mount that is not listed
        assert_eq!(of((0, 50), Some(25)), None);
        assert!(of((0, 51), Some(22)).is_some_and(|kind| kind.ends_with("nfs4")));
        for number in [None, Some(99)] {
            assert!(of((0, 52), number).is_some_and(|kind| kind.ends_with("mounted nowhere")));
        }
    }

    /// This program and a memfd are provided by the kernel.
    #[test]
    fn our_own_program_is_served_by_the_kernel() {
        let pid = std::process::id();
        let maps = open::text_of_process(pid, "maps").unwrap();
        let lines = maps.split(|&byte| byte == b'\n').filter_map(Mapping::parse);
        let files: Vec<Mapping> = lines.filter(|it| it.executable && it.inode != 0).collect();
        assert!(!files.is_empty());
        let table = MountTable::read_for(pid);
        // only root may read map_files, which is needed for file systems with other device numbers
        if rustix::process::geteuid().is_root() {
            assert!(files.iter().all(|it| number_of_mount(pid, it).is_some()));
        }
        let disk = |it: &&Mapping| table.by_device.contains_key(&it.device);
        for file in files.iter().filter(disk) {
            assert_eq!(table.find_server(pid, file).filter(|kind| !kind.contains("fuse")), None);
        }
    }
}
