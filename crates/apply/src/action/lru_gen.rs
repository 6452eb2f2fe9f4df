// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file `lru_gen` of debugfs: the generations of each memory cgroup, and the command that adds
//! one.
//!
//! If the host has not mounted debugfs, it is mounted for this process alone, as a mount without a
//! place in the tree of files, which ends with the process: the host's mounts do not change. If the
//! host has mounted it, that mount is used, because a second one would reset the options (`mode`,
//! `gid`) that `/proc/mounts` shows for the first.

#![expect(clippy::disallowed_methods, reason = "this is where the command is written")]

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// Maximum number of bytes that are read of the file, which has some 300 bytes for each cgroup and
/// node.
const MAX_LENGTH: u64 = 64 << 20;
const NAME: &str = "lru_gen";
/// Where hosts mount debugfs.
const USUAL: &str = "/sys/kernel/debug/lru_gen";

/// `lru_gen`, which is opened anew for each access.
#[derive(Debug)]
pub(super) struct LruGen {
    /// debugfs, mounted for this process; `None` if the host has it mounted.
    root: Option<OwnedFd>,
}

impl LruGen {
    /// Finds the file, and checks that it may be written.
    ///
    /// # Errors
    /// If this process is not root of the host, or the kernel has no debugfs or no multi-gen LRU.
    pub(super) fn open() -> io::Result<Self> {
        let mounted = Self { root: None };
        if mounted.file(OFlags::RDWR).is_ok() {
            return Ok(mounted);
        }
        let own = Self { root: Some(mount_debugfs()?) };
        own.file(OFlags::RDWR)?;
        Ok(own)
    }

    fn file(&self, access: OFlags) -> io::Result<File> {
        let Some(root) = &self.root else {
            let writes = access == OFlags::RDWR;
            let file = OpenOptions::new().read(true).write(writes).open(USUAL)?;
            if rustix::fs::fstatfs(&file)?.f_type != libc::DEBUGFS_MAGIC {
                return Err(io::Error::other("it lies in no debugfs"));
            }
            return Ok(file);
        };
        let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(root, NAME, flags, Mode::empty())?))
    }

    /// Reads the file, which lists the generations of all cgroups.
    pub(super) fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file(OFlags::RDONLY)?.take(MAX_LENGTH + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_LENGTH {
            let why = format!("longer than {} MiB", MAX_LENGTH >> 20);
            return Err(io::Error::new(ErrorKind::FileTooLarge, why));
        }
        Ok(bytes)
    }

    /// Carries out one command; the kernel has done so when this returns.
    pub(super) fn command(&self, command: &str) -> io::Result<()> {
        let mut file = self.file(OFlags::RDWR)?;
        let written = file.write(command.as_bytes())?;
        if written == command.len() {
            return Ok(());
        }
        Err(io::Error::other(format!("took {written} of {} bytes", command.len())))
    }
}

/// debugfs as a mount without a place in the tree of files.
fn mount_debugfs() -> io::Result<OwnedFd> {
    let context = fsopen("debugfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}
