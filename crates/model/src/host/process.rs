// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes and the memory they hold.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Millis, Name, Nanos, Reading};

/// All processes with memory of their own (kernel threads have none).
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Processes {
    /// The processes in order of process id.
    pub list: Vec<Process>,
    /// How many kernel threads were skipped.
    pub kernel_threads: u64,
    /// How many processes exited while they were read.
    pub vanished: u64,
    /// How many proportional sizes could be read within the time allowed for it.
    pub smaps: SmapsTally,
}

/// A kernel thread that manages memory: kswapd, kcompactd or khugepaged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelThread {
    /// The thread's name, with the number of its NUMA node: `kswapd0`.
    pub name: Name,
    /// CPU time since the thread was created (`schedstat`).
    pub cpu_time: Reading<Nanos>,
}

/// One process.
///
/// *Virtual* is requested address space, most of which is never touched. *Resident* (`rss_*`) is
/// the memory in RAM; pages that ten processes share are counted ten times. *Proportional* is
/// resident memory with each shared page divided by the number of its users: only these sizes may
/// be summed.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// The command's name, as the kernel keeps it (15 bytes).
    pub name: Name,
    /// User id of its owner.
    pub uid: Reading<u32>,
    /// When it started, since boot ([`crate::Taken::uptime`]). Together with the id it identifies a
    /// process: ids are reused.
    pub start_time: Reading<Millis>,
    /// CPU time of all its threads so far, in user space and in the kernel.
    pub cpu_time: Reading<Millis>,
    /// Page faults so far that had to wait for a disk or for compressed memory.
    pub major_faults: Reading<u64>,
    /// Its memory cgroup, as a path below the hierarchy's root.
    pub cgroup: Reading<Name>,
    /// Size of its address space.
    #[serde(rename = "virtual")]
    pub virtual_size: Reading<Bytes>,
    /// Resident anonymous memory: heap and stacks; it can be reclaimed only by swapping.
    pub rss_anon: Reading<Bytes>,
    /// Resident file pages: code and mapped files; they can be dropped and read again.
    pub rss_file: Reading<Bytes>,
    /// Resident shared memory and tmpfs; it can be reclaimed only by swapping.
    pub rss_shmem: Reading<Bytes>,
    /// Anonymous memory in swap.
    pub swap: Reading<Bytes>,
    /// Memory that it locked into RAM (mlock), including pages that were never touched.
    pub locked: Reading<Bytes>,
    /// Memory for its page tables.
    pub page_tables: Reading<Bytes>,
    /// Whether the process may have huge pages at all; `false` after `PR_SET_THP_DISABLE`.
    pub thp_allowed: Reading<bool>,
    /// Proportional size (`Pss` of smaps_rollup).
    pub proportional: Reading<Bytes>,
    /// Proportional size of its memory in swap.
    pub swap_proportional: Reading<Bytes>,
    /// Anonymous memory in huge pages.
    pub anon_huge: Reading<Bytes>,
    /// Shmem in huge pages.
    pub shmem_huge: Reading<Bytes>,
    /// File pages in huge pages.
    pub file_huge: Reading<Bytes>,
    /// Whether smaps_rollup was read, or why not.
    pub smaps: SmapsOutcome,
}

impl Process {
    /// All resident memory; `None` if the kernel does not report it by kind.
    pub fn resident(&self) -> Option<Bytes> {
        let kinds = [&self.rss_anon, &self.rss_file, &self.rss_shmem];
        kinds.into_iter().map(Reading::get).sum()
    }

    /// All of its anonymous memory, in RAM and in swap, which grows if the process leaks.
    pub fn anonymous(&self) -> Option<Bytes> {
        Some(self.rss_anon.get()?.saturating_add(self.swap.get()?))
    }
}

/// Whether a process's smaps_rollup was read, or why not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SmapsOutcome {
    /// It was read.
    Read,
    /// Its predicted cost exceeded what was left of the time budget, or there was no budget.
    #[default]
    NotRead,
    /// It is another user's process; root may read it.
    Denied,
    /// It was not read before the deadline: a task holds the process's mmap lock.
    Stuck,
    /// The process exited meanwhile, or has no memory.
    Gone,
    /// It was not needed, because enough processes with a larger size are known.
    Smaller,
}

/// Number of processes with each outcome, and how much time reading was allowed to take.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "each field is the outcome of the same name")]
pub struct SmapsTally {
    pub budget: Millis,
    pub read: u64,
    pub not_read: u64,
    pub denied: u64,
    pub stuck: u64,
    pub gone: u64,
    pub smaller: u64,
}
