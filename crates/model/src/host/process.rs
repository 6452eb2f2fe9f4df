// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes and the memory they hold.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Millis, Name, Nanos, Reading};

/// All processes that have memory of their own (kernel threads have none).
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Processes {
    /// In order of process id.
    pub list: Vec<Process>,
    /// How many kernel threads were passed over.
    pub kernel_threads: u64,
    /// How many vanished while they were read.
    pub vanished: u64,
    /// How far the time for proportional sizes went.
    pub smaps: SmapsTally,
}

/// A thread of the kernel that works on memory: kswapd, kcompactd or khugepaged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelThread {
    /// The thread's name, with the number of its NUMA node: `kswapd0`.
    pub name: Name,
    /// CPU time since it began (`schedstat`).
    pub cpu_time: Reading<Nanos>,
}

/// One process.
///
/// *Virtual* is address space that was asked for, most of it never touched. *Resident* (`rss_*`) is
/// what is in RAM, where pages shared by ten processes are counted ten times. *Proportional* is
/// resident with each shared page divided by the number of its users: only this may be summed.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// The command's name, as the kernel keeps it (15 bytes).
    pub name: Name,
    /// Owner's user id.
    pub uid: Reading<u32>,
    /// When it began, since boot ([`crate::Taken::uptime`]). Together with the id it names one process:
    /// ids are given out again.
    pub start_time: Reading<Millis>,
    /// CPU time of all its threads so far, in user space and in the kernel.
    pub cpu_time: Reading<Millis>,
    /// Page faults so far that had to wait for a disk or for compressed memory.
    pub major_faults: Reading<u64>,
    /// Its memory cgroup, as a path below the hierarchy's root.
    pub cgroup: Reading<Name>,
    /// Address space.
    #[serde(rename = "virtual")]
    pub virtual_size: Reading<Bytes>,
    /// Resident anonymous memory: heap and stacks; can only be swapped.
    pub rss_anon: Reading<Bytes>,
    /// Resident file pages: code and mapped files; can be dropped and read again.
    pub rss_file: Reading<Bytes>,
    /// Resident shared memory and tmpfs; can only be swapped.
    pub rss_shmem: Reading<Bytes>,
    /// Anonymous memory in swap.
    pub swap: Reading<Bytes>,
    /// Memory that it locked into RAM (mlock), whether it was touched or not.
    pub locked: Reading<Bytes>,
    /// Memory for its page tables.
    pub page_tables: Reading<Bytes>,
    /// Whether this process may have huge pages at all (`PR_SET_THP_DISABLE`).
    pub thp_allowed: Reading<bool>,
    /// Proportional size (`Pss` of smaps_rollup).
    pub proportional: Reading<Bytes>,
    /// Proportional share of what it has in swap.
    pub swap_proportional: Reading<Bytes>,
    /// Resident memory in huge pages: anonymous.
    pub anon_huge: Reading<Bytes>,
    /// Resident memory in huge pages: shmem.
    pub shmem_huge: Reading<Bytes>,
    /// Resident memory in huge pages: files.
    pub file_huge: Reading<Bytes>,
    /// How reading smaps_rollup went.
    pub smaps: SmapsOutcome,
}

impl Process {
    /// All that is resident; `None` where the kernel does not split it by kind.
    pub fn resident(&self) -> Option<Bytes> {
        let kinds = [&self.rss_anon, &self.rss_file, &self.rss_shmem];
        kinds.into_iter().map(Reading::get).sum()
    }

    /// All of its anonymous memory, in RAM and in swap: what a leak makes larger.
    pub fn anonymous(&self) -> Option<Bytes> {
        Some(self.rss_anon.get()?.saturating_add(self.swap.get()?))
    }
}

/// What became of reading a process's smaps_rollup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SmapsOutcome {
    /// It was read.
    Read,
    /// Its predicted cost did not fit into what was left of the budget, or none was given.
    #[default]
    NotRead,
    /// Another user's process; root could.
    Denied,
    /// It had not answered by the deadline: something holds the process's memory lock.
    Stuck,
    /// It ended while it was read, or has no memory.
    Gone,
    /// It was not read because enough processes with a larger size are known.
    Smaller,
}

/// How many processes each outcome has, and what reading was allowed to cost.
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
