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
    /// Mounted tmpfs file systems, the fullest first. One that is mounted in several places is
    /// listed once; those of other mount namespaces (containers) are not listed.
    pub mounts: Vec<TmpfsMount>,
    /// Mounts that were left out because there were more than Pagewise reads.
    pub mounts_left_out: u64,
    /// Deleted files of 1 MiB or more that processes keep open, the largest first. They are
    /// searched only if shmem is at least 5 % of RAM.
    pub deleted: Vec<DeletedFile>,
    /// How many processes were searched for such files.
    pub processes_searched: u64,
    /// How many processes were not searched because they belong to other users.
    pub processes_denied: u64,
    /// How many processes were not searched because too many files are open.
    pub processes_left_out: u64,
}

/// A mounted tmpfs.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct TmpfsMount {
    /// The mount point.
    pub point: Name,
    /// Size of its files, in RAM and in swap.
    pub used: Reading<Bytes>,
    /// Its size limit. The kernel does not count the use of a file system without a limit.
    pub limit: Reading<Bytes>,
    /// Number of files and folders in it.
    pub files: Reading<u64>,
}

/// A deleted file in memory: it is freed when the last process closes it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct DeletedFile {
    /// How it was created.
    pub kind: DeletedKind,
    /// Its size in RAM and in swap; the source is a file descriptor of the process below.
    pub bytes: Reading<Bytes>,
    /// A process that keeps it open.
    pub pid: u32,
    /// The name of that process.
    pub process: Name,
    /// How many other processes keep it open, among those that were searched.
    pub others: u64,
}

/// How a deleted file was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeletedKind {
    /// A file in a tmpfs.
    Tmpfs,
    /// With `memfd_create`: it never had a path.
    Memfd,
    /// By a driver, for its own memory.
    Object,
}
