// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that have no disk behind them: what each tmpfs holds, and deleted files that are still open.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Name, Reading};

/// Files in memory. They count as shmem in `/proc/meminfo` as far as they are not swapped out.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct MemoryFiles {
    /// File systems in memory that are mounted here, the fullest first. One that is mounted in several
    /// places is listed once; those of other mount namespaces (containers) are not.
    pub mounts: Vec<TmpfsMount>,
    /// Mounts that were left out because there were more than are asked.
    pub mounts_left_out: u64,
    /// Deleted files of 1 MiB or more that processes keep open, the largest first. Searched for only
    /// where shmem is 5 % of RAM or more.
    pub deleted: Vec<DeletedFile>,
    /// How many processes were searched for them.
    pub processes_searched: u64,
    /// How many processes were not, because they belong to other users.
    pub processes_denied: u64,
    /// How many processes were not, because more files are open than are looked at.
    pub processes_left_out: u64,
}

/// A file system in memory.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct TmpfsMount {
    /// Where it is mounted.
    pub point: Name,
    /// What its files take, in RAM and in swap.
    pub used: Reading<Bytes>,
    /// The most that they may take. A file system without a limit does not count what it holds.
    pub limit: Reading<Bytes>,
    /// How many files and folders it has.
    pub files: Reading<u64>,
}

/// A file in memory that no path leads to any more: it goes when the last process closes it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct DeletedFile {
    /// What kind it is.
    pub kind: DeletedKind,
    /// What it takes, in RAM and in swap; the source is a descriptor of the process below.
    pub bytes: Reading<Bytes>,
    /// A process that has it open.
    pub pid: u32,
    /// The name of that process.
    pub process: Name,
    /// How many other processes have it open, of those that were searched.
    pub others: u64,
}

/// What a file without a path was made as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeletedKind {
    /// A file in a tmpfs.
    Tmpfs,
    /// A file that never had a path (`memfd_create`).
    Memfd,
    /// Memory of a driver.
    Object,
}
