// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Takes memory of a cgroup away that it does not use (`memory.reclaim`).
//!
//! The kernel reads pages again when they are used, and the file keeps no value, so there is nothing to undo, also
//! after a kill. What is taken is requested in slices: a request of some megabytes can hold up the
//! programs of the cgroup for milliseconds. The requests are made by a child process, because a request
//! can block for as long as a disk takes; the child is killed after a time, and dies with its parent.
//!
//! The kernel returns EAGAIN if it took less than was requested, which is normal: what was freed is
//! measured, and nothing is concluded from that error.

use std::ffi::CString;
use std::io;
use std::path::Path;
use std::time::Duration;

use pagewise_model::{Advice, Bytes, Name, ReclaimKind};
use pagewise_observe::{HostRoot, charge, memory_cgroups};
use rustix::io::Errno;

use crate::calls::{self, SliceEnd};
use crate::error::{Doing, Error};
use crate::journal::Lock;
use crate::live;

/// Why memory was not reclaimed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReclaimError {
    /// There is no such cgroup of version 2.
    #[error("{0}: there is no such memory cgroup of version 2 now")]
    Gone(Name),
    /// The kernel has no `memory.reclaim` (before Linux 5.19).
    #[error("{0}: this kernel has no memory.reclaim")]
    NoFile(Name),
    /// The kernel does not let the caller choose between anonymous memory and files.
    #[error("this kernel takes no swappiness= in memory.reclaim")]
    CannotChoose,
    /// A request took longer than allowed.
    #[error("{0}: memory.reclaim did not return in time")]
    Late(Name),
    /// An earlier request still blocks.
    #[error("an earlier request to memory.reclaim still blocks")]
    Blocked,
    /// The kernel refused.
    #[error("{group}: memory.reclaim")]
    Kernel {
        /// The path of the cgroup.
        group: Name,
        /// The error that the kernel returned.
        source: io::Error,
    },
    /// Another run is active.
    #[error(transparent)]
    Run(#[from] Error),
}

impl Advice for ReclaimError {
    fn next(&self) -> Option<String> {
        let next = match self {
            Self::Gone(_) => "`pagewise limits` lists the memory cgroups",
            Self::NoFile(_) => {
                "Linux 5.19 and newer have it; `pagewise agent --check` names what uses it"
            }
            Self::CannotChoose => "omit the kind",
            Self::Late(_) | Self::Blocked => "a disk may be slow: dmesg may say more",
            Self::Kernel { .. } => "run as root",
            Self::Run(error) => return error.next(),
        };
        Some(next.to_owned())
    }
}

/// Makes requests, one at a time.
#[derive(Debug, Default)]
pub struct Reclaimer {
    /// A child that was killed and had not ended.
    stuck: Option<calls::Reclaiming>,
}

impl Reclaimer {
    /// Asks the kernel for `most` bytes of the cgroup with this path, rounded down to slices, and returns
    /// by how much the cgroup became smaller. After `limit` no further slice is requested, and a request
    /// that blocks is given up.
    ///
    /// # Errors
    /// If nothing could be requested; what was taken before an error stays taken.
    pub fn reclaim(
        &mut self,
        state: &Path,
        path: &str,
        (most, slice): (Bytes, Bytes),
        kind: ReclaimKind,
        limit: Duration,
    ) -> Result<Bytes, ReclaimError> {
        if let Some(child) = self.stuck.take() {
            if !child.has_ended() {
                self.stuck = Some(child);
                return Err(ReclaimError::Blocked);
            }
        }
        let host = HostRoot::live().doing(|| "/".to_owned())?;
        let name = || Name::from(path);
        let gone = || ReclaimError::Gone(name());
        let (mount, _) = memory_cgroups(&host).filter(|(_, is_v2)| *is_v2).ok_or_else(gone)?;
        let file =
            format!("{}/{}/memory.reclaim", mount.trim_end_matches('/'), path.trim_matches('/'));
        let file =
            live::open_setting(&file).map_err(|error| match Errno::from_io_error(&error) {
                Some(Errno::NOENT | Errno::NODEV) if charge(&host, path).is_some() => {
                    ReclaimError::NoFile(name())
                }
                Some(Errno::NOENT | Errno::NODEV) => gone(),
                _ => ReclaimError::Kernel { group: name(), source: error },
            })?;
        // a trial or tune would measure the effect as its own
        let _lock = Lock::take(state)?;
        let before = charge(&host, path).ok_or_else(gone)?.current;
        let count = u32::try_from(most.get() / slice.get().max(1)).unwrap_or(u32::MAX);
        let mut end = SliceEnd::Done;
        for suffix in suffixes(kind) {
            let command = CString::new(format!("{slice}{suffix}", slice = slice.get()));
            let command = command
                .map_err(|error| ReclaimError::Kernel { group: name(), source: error.into() })?;
            let started = calls::Reclaiming::start(&file, &command, count, limit);
            let child = started.map_err(|source| ReclaimError::Kernel { group: name(), source })?;
            end = child
                .wait(limit)
                .map_err(|source| ReclaimError::Kernel { group: name(), source })?;
            // the next spelling, if this kernel does not know this one
            if !matches!(&end, SliceEnd::Error(errno) if *errno == libc::EINVAL) {
                break;
            }
        }
        let after = charge(&host, path).ok_or_else(gone)?.current;
        let freed = Bytes::new(before.get().saturating_sub(after.get()));
        match end {
            SliceEnd::Done => Ok(freed),
            SliceEnd::Late => Err(ReclaimError::Late(name())),
            SliceEnd::Stuck(child) => {
                self.stuck = Some(child);
                Err(ReclaimError::Late(name()))
            }
            SliceEnd::Error(libc::EINVAL) if kind != ReclaimKind::Any => {
                Err(ReclaimError::CannotChoose)
            }
            SliceEnd::Error(libc::ENODEV | libc::ENOENT) => Err(gone()),
            SliceEnd::Error(errno) => Err(ReclaimError::Kernel {
                group: name(),
                source: io::Error::from_raw_os_error(errno),
            }),
        }
    }
}

/// What follows the size: the newest spelling first.
fn suffixes(kind: ReclaimKind) -> &'static [&'static str] {
    match kind {
        ReclaimKind::Any => &[""],
        ReclaimKind::File => &[" swappiness=0"],
        // Linux 7.2 knows both, 6.12 only the second
        ReclaimKind::Anon => &[" swappiness=max", " swappiness=200"],
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "tests make and read a file that stands for memory.reclaim"
)]
mod tests {
    use super::*;

    const SLICE: Bytes = Bytes::new(4096);

    #[test]
    fn a_cgroup_that_does_not_exist_is_said_to_be_gone() {
        let state = tempfile::tempdir().unwrap();
        let mut reclaimer = Reclaimer::default();
        let asked = (SLICE, SLICE);
        let refused = reclaimer
            .reclaim(state.path(), "/pagewise-nonesuch", asked, ReclaimKind::Any, Duration::ZERO)
            .unwrap_err();
        assert!(matches!(refused, ReclaimError::Gone(_)), "{refused}");
        assert!(refused.next().is_some());
    }

    #[test]
    fn a_child_writes_each_slice_and_says_how_it_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = std::fs::File::create(&path).unwrap();
        let command = CString::new("4096 swappiness=0").unwrap();
        let limit = Duration::from_secs(30);
        let child = calls::Reclaiming::start(&file, &command, 3, limit).unwrap();
        assert!(matches!(child.wait(limit).unwrap(), SliceEnd::Done));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "4096 swappiness=0".repeat(3));
        // a file that is open for reading only
        let file = std::fs::File::open(&path).unwrap();
        let child = calls::Reclaiming::start(&file, &command, 3, limit).unwrap();
        assert!(matches!(child.wait(limit).unwrap(), SliceEnd::Error(libc::EBADF)));
    }

    /// A pipe that is full blocks the writer as a slow disk does.
    #[test]
    fn a_child_that_blocks_is_killed_after_the_time_limit() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let file = std::fs::File::from(writer);
        let command = CString::new("x".repeat(4096)).unwrap();
        let limit = Duration::from_millis(50);
        let child =
            calls::Reclaiming::start(&file, &command, 1000, Duration::from_secs(60)).unwrap();
        assert!(matches!(child.wait(limit).unwrap(), SliceEnd::Late));
        drop(reader);
    }
}
