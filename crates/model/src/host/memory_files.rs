// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that exist only in memory: the contents of each tmpfs, and deleted files that are still
//! open.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Name, Reading};

/// Files that exist only in memory. Unless they are swapped out, they count as shmem in
/// `/proc/meminfo`.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct MemoryFiles {
    /// Mounted tmpfs file systems, the fullest first. A file system that is mounted in several
    /// places is listed once; those of other mount namespaces (containers) are not listed.
    pub mounts: Vec<TmpfsMount>,
    /// Number of mounts that were left out because there were more than Pagewise reads.
    pub mounts_left_out: u64,
    /// Deleted files of 1 MiB or more that processes keep open, the largest first. The search is
    /// made only if shmem is at least 5 % of RAM.
    pub deleted: Vec<DeletedFile>,
    /// How many processes were searched for deleted files.
    pub processes_searched: u64,
    /// How many processes were not searched for them because they belong to other users.
    pub processes_denied: u64,
    /// How many processes were not searched for them because too many files are open.
    pub processes_left_out: u64,
}

/// A mounted tmpfs, with its use and limit.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct TmpfsMount {
    /// The folder where the tmpfs is mounted.
    pub point: Name,
    /// Size of the files in the tmpfs, in RAM and in swap.
    pub used: Reading<Bytes>,
    /// Size limit of the tmpfs. The kernel does not count the use of a file system without a limit.
    pub limit: Reading<Bytes>,
    /// Number of files and folders in the tmpfs.
    pub files: Reading<u64>,
}

/// A deleted file in memory, which is freed when the last process closes it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct DeletedFile {
    /// How the file was created.
    pub kind: DeletedKind,
    /// Size of the file in RAM and in swap; it was read through a file descriptor of the process
    /// below.
    pub bytes: Reading<Bytes>,
    /// Id of a process that keeps the file open.
    pub pid: u32,
    /// The name of that process.
    pub process: Name,
    /// How many other processes keep the file open, among those that were searched.
    pub others: u64,
}

/// How a deleted file was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeletedKind {
    /// As a file in a tmpfs.
    Tmpfs,
    /// With `memfd_create`, so that it never had a path.
    Memfd,
    /// By a driver, for memory of its own.
    Object,
}
