// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A [`Subject`]: a process whose memory we may collapse.
//!
//! The process is identified by a pidfd and by its open pagemap, so another process that gets the
//! same process id is never touched. Permissions are checked before anything is done, with a
//! request for an empty range, which has no effect.

use pagewise_model::Advice;
use std::io;
use std::os::fd::OwnedFd;

use pagewise_procmem::coverage::{LookError, Memory, is_thp_allowed};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::calls::{collapse_range, has_collapse_advice};

/// Why a collapse or split is not done. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ActError {
    /// The kernel has no MADV_COLLAPSE.
    #[error("this kernel cannot collapse memory from outside (MADV_COLLAPSE)")]
    NoCollapse,
    /// The process could not be examined.
    #[error(transparent)]
    Look(#[from] LookError),
    /// The process belongs to another user, or we lack the capability.
    #[error(
        "process {0}: not allowed to collapse its memory: that takes CAP_SYS_NICE and the right to trace it"
    )]
    NotAllowed(u32),
    /// Huge pages are disabled for the process (`PR_SET_THP_DISABLE`).
    #[error(
        "process {0}: it has huge pages switched off (PR_SET_THP_DISABLE), which counts for a collapse too"
    )]
    SwitchedOff(u32),
    /// The targets contain no process.
    #[error("no process to collapse the memory of")]
    Nobody,
    /// No memory cgroup has this path.
    #[error("{0}: no memory cgroup of that path")]
    NoGroup(String),
    /// Any other error that the kernel returned.
    #[error("process {pid}: collapse")]
    Kernel {
        /// The id of the process.
        pid: u32,
        /// The error that the kernel returned.
        source: io::Error,
    },
}

impl Advice for ActError {
    fn next(&self) -> Option<String> {
        let next = match self {
            Self::NoCollapse => {
                "let khugepaged do it: advise the program (pagewise thp run --on), and raise \
                 khugepaged/pages_to_scan (pagewise thp profiles)"
            }
            Self::NotAllowed(_) => "run as root",
            Self::Look(error) => return error.next(),
            Self::SwitchedOff(_) => {
                "start it so that it does not switch them off: redis-server does where `enabled` is \
                 always, unless its configuration says disable-thp no; what a parent switched off \
                 comes back with pagewise thp run --on -- CMD"
            }
            Self::Nobody => "ps -eo pid,comm lists processes",
            Self::NoGroup(_) => "pagewise status lists memory cgroups",
            _ => return None,
        };
        Some(next.to_owned())
    }
}

/// A process whose memory we may collapse.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) pid: u32,
    pub(crate) memory: Memory,
    pub(crate) scans: bool,
    /// Whether the process may have huge pages at all; the process can change this at any time.
    pub(crate) allowed: bool,
    handle: OwnedFd,
}

/// How the kernel answered the request to collapse a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Called {
    Collapsed,
    /// The kernel had no free huge page, or could charge none to the cgroup.
    NoMemory,
    /// A page of the block was in use; trying again may succeed.
    Busy,
    /// The kernel does not collapse blocks of this mapping; up to Linux 6.12, also if no page of
    /// the block was written since a fork.
    Refused,
    Gone,
}

impl Subject {
    pub(crate) fn open(pid: u32, block: u64) -> Result<Self, ActError> {
        if !has_collapse_advice() {
            return Err(ActError::NoCollapse);
        }
        let handle = open_handle(pid)?;
        let memory = Memory::open(pid, block)?;
        if is_thp_allowed(pid) == Some(false) {
            return Err(ActError::SwitchedOff(pid));
        }
        check_allowed(pid, collapse_range(&handle, 0, 0))?;
        let scans = memory.can_scan();
        Ok(Self { pid, memory, scans, allowed: true, handle })
    }

    /// Checks again whether the process may have huge pages; returns the reason if not.
    pub(crate) fn recheck_allowed(&mut self) -> Option<String> {
        self.allowed = is_thp_allowed(self.pid) != Some(false);
        (!self.allowed).then(|| ActError::SwitchedOff(self.pid).to_string())
    }

    /// Collapses the block at this address into a huge page.
    pub(crate) fn collapse(&self, address: u64) -> Result<Called, ActError> {
        let block = self.memory.block();
        let error = match collapse_range(&self.handle, address, block) {
            Ok(()) => return Ok(Called::Collapsed),
            Err(error) => error,
        };
        Ok(match Errno::from_io_error(&error) {
            Some(Errno::NOMEM) => Called::NoMemory,
            Some(Errno::AGAIN | Errno::BUSY | Errno::INTR) => Called::Busy,
            Some(Errno::INVAL) => Called::Refused,
            Some(Errno::SRCH) => Called::Gone,
            Some(Errno::PERM | Errno::ACCESS) => return Err(ActError::NotAllowed(self.pid)),
            _ => return Err(ActError::Kernel { pid: self.pid, source: error }),
        })
    }
}

pub(crate) fn open_handle(pid: u32) -> Result<OwnedFd, ActError> {
    let gone = || ActError::Look(LookError::Gone(pid));
    let id = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
    pidfd_open(id, PidfdFlags::empty()).map_err(|errno| match errno {
        Errno::SRCH | Errno::INVAL => gone(),
        Errno::NOSYS => ActError::NoCollapse,
        errno => ActError::Kernel { pid, source: errno.into() },
    })
}

fn check_allowed(pid: u32, tried: io::Result<()>) -> Result<(), ActError> {
    let Err(error) = tried else { return Ok(()) };
    Err(match Errno::from_io_error(&error) {
        Some(Errno::PERM | Errno::ACCESS) => ActError::NotAllowed(pid),
        Some(Errno::SRCH) => ActError::Look(LookError::Gone(pid)),
        Some(Errno::INVAL | Errno::NOSYS) => ActError::NoCollapse,
        _ => ActError::Kernel { pid, source: error },
    })
}
