// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files that exist only in memory: the contents of each tmpfs, deleted files that are still open,
//! and System V shared memory and message queues.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Name, Reading};

/// Files that exist only in memory. Unless they are swapped out, they count as shmem in
/// `/proc/meminfo`.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct MemoryFiles {
    /// Mounted tmpfs file systems, the fullest first. A file system that is mounted in several
    /// places is listed once; those mounted only in other mount namespaces (containers) are not
    /// listed.
    pub mounts: Vec<TmpfsMount>,
    /// Number of mounts that were left out because there were more than Pagewise reads.
    pub mounts_left_out: u64,
    /// Deleted files of 1 MiB or more that processes keep open or mapped, the largest first. The search is
    /// made only if shmem is at least 5 % of RAM.
    pub deleted: Vec<DeletedFile>,
    /// Folders where a ramfs is mounted. The kernel counts neither the files in a ramfs nor their
    /// size, and can neither drop nor swap them.
    pub ramfs: Vec<Name>,
    /// Segments of System V shared memory, the largest first; those of other IPC namespaces
    /// (containers) are not listed.
    pub segments: Vec<SharedSegment>,
    /// Number of segments that were left out because there were more than Pagewise keeps.
    pub segments_left_out: u64,
    /// System V message queues, the fullest first.
    pub queues: Vec<MessageQueue>,
    /// Number of queues that were left out because there were more than Pagewise keeps.
    pub queues_left_out: u64,
    /// How many processes were searched for deleted files.
    pub processes_searched: u64,
    /// How many processes were not searched for deleted files because they belong to other users.
    pub processes_denied: u64,
    /// How many processes were not searched for deleted files because too many files are open on
    /// this host.
    pub processes_left_out: u64,
}

/// A mounted tmpfs, with its use and limit.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct TmpfsMount {
    /// The folder where the tmpfs is mounted.
    pub point: Name,
    /// Size of the files in the tmpfs, both in RAM and in swap.
    pub used: Reading<Bytes>,
    /// Size limit of the tmpfs. Without a limit, the kernel does not count how much is used.
    pub limit: Reading<Bytes>,
    /// Number of files and folders in the tmpfs.
    pub files: Reading<u64>,
}

/// A deleted file in memory, which is freed when the last process closes it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct DeletedFile {
    /// How the file was created.
    pub kind: DeletedKind,
    /// Size of the file in RAM and in swap, read through a file descriptor or mapping of the
    /// process `pid`.
    pub bytes: Reading<Bytes>,
    /// Id of a process that keeps the file open.
    pub pid: u32,
    /// The name of that process.
    pub process: Name,
    /// How many other processes keep the file open or mapped, among those that were searched.
    pub others: u64,
    /// Whether the process only maps the file and has no file descriptor for it. Pagewise searches
    /// for such files only in the 16 processes that map the most shared memory.
    pub mapped: bool,
}

/// How a deleted file was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeletedKind {
    /// The file was created in a tmpfs.
    Tmpfs,
    /// The file was created with `memfd_create`, so that it never had a path.
    Memfd,
    /// The file was created by a driver for its own memory.
    Object,
}

/// A segment of System V shared memory. It exists until it is removed, even if no process is
/// attached to it.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct SharedSegment {
    /// The id of the segment, which `ipcs` and `ipcrm` call shmid.
    pub id: u64,
    /// Size of the segment, including pages that were never touched.
    pub size: Reading<Bytes>,
    /// How much of the segment is in RAM.
    pub resident: Reading<Bytes>,
    /// How much of the segment is in swap.
    pub swapped: Reading<Bytes>,
    /// Number of attachments of the segment by processes (`nattch`).
    pub attached: Reading<u64>,
    /// User id of the segment's owner.
    pub uid: Reading<u32>,
    /// Id of the process that created the segment; the process may have ended since.
    pub creator: u32,
    /// When a process last detached from the segment, in seconds since 1970, UTC.
    pub detached_at: Reading<u64>,
}

impl SharedSegment {
    /// RAM and swap that the segment takes; `None` if the kernel does not print it.
    pub fn held_bytes(&self) -> Option<Bytes> {
        Some(self.resident.get()?.saturating_add(self.swapped.get()?))
    }
}

/// A System V message queue. Its messages are kernel memory until they are received or the queue is
/// removed.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct MessageQueue {
    /// The id of the queue, which `ipcs` and `ipcrm` call msqid.
    pub id: u64,
    /// Size of the messages in the queue.
    pub bytes: Reading<Bytes>,
    /// Number of messages in the queue.
    pub messages: Reading<u64>,
    /// User id of the queue's owner.
    pub uid: Reading<u32>,
    /// When a message was last received from the queue, in seconds since 1970, UTC.
    pub received_at: Reading<u64>,
}
