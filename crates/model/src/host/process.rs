// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes and the memory they hold.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Limit, Millis, Name, Nanos, Reading};

/// All processes with memory of their own (kernel threads have none).
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Processes {
    /// The processes in order of process id.
    pub list: Vec<Process>,
    /// Number of kernel threads, which are not in the list.
    pub kernel_threads: u64,
    /// Number of processes that exited while they were read.
    pub vanished: u64,
    /// Number of processes with memory that were left out because Pagewise reads a limited number
    /// of processes: those with the most memory in RAM.
    pub left_out: u64,
    /// Number of processes whose proportional size was read, or was not read for each reason.
    pub smaps: SmapsTally,
}

/// A kernel thread that manages memory: kswapd, kcompactd or khugepaged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelThread {
    /// Name of the thread, with the number of its NUMA node, such as `kswapd0`.
    pub name: Name,
    /// CPU time since the thread was created (`schedstat`).
    pub cpu_time: Reading<Nanos>,
}

/// One process and its memory.
///
/// *Virtual* is requested address space, most of which is never touched. *Resident* (`rss_*`) is
/// the memory in RAM; pages that ten processes share are counted ten times. *Proportional* is
/// resident memory with each shared page divided by the number of its users: only these sizes may
/// be summed.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Process {
    /// Process id of the process.
    pub pid: u32,
    /// Name of the process's command, as the kernel keeps it (15 bytes).
    pub name: Name,
    /// User id of the process's owner.
    pub uid: Reading<u32>,
    /// When the process started, in time since boot ([`crate::Taken::uptime`]). Together with the
    /// id it identifies a process: ids are reused.
    pub start_time: Reading<Millis>,
    /// CPU time of all threads of the process so far, in user space and in the kernel.
    pub cpu_time: Reading<Millis>,
    /// Page faults of the process so far that had to wait for a disk or for compressed memory.
    pub major_faults: Reading<u64>,
    /// Memory cgroup of the process, as a path below the hierarchy's root.
    pub cgroup: Reading<Name>,
    /// Size of the process's address space.
    #[serde(rename = "virtual")]
    pub virtual_size: Reading<Bytes>,
    /// Anonymous memory of the process in RAM: heap and stacks, which can be reclaimed only by
    /// swapping.
    pub rss_anon: Reading<Bytes>,
    /// File pages of the process in RAM: code and mapped files, which can be dropped and read
    /// again.
    pub rss_file: Reading<Bytes>,
    /// Shared memory and tmpfs of the process in RAM, which can be reclaimed only by swapping.
    pub rss_shmem: Reading<Bytes>,
    /// Largest amount of RAM that the process has had at one time since it started (`VmHWM`):
    /// anonymous memory, file pages and shmem together.
    pub peak: Reading<Bytes>,
    /// Anonymous memory of the process in swap.
    pub swap: Reading<Bytes>,
    /// Private writable address space of the process, touched or not (`VmData`). A fork of the
    /// process commits the same amount once more.
    pub data: Reading<Bytes>,
    /// Maximum address space of the process (`RLIMIT_AS`, soft limit). Pagewise reads this limit
    /// and [`Process::data_limit`] only for the processes with the most private writable address
    /// space.
    pub address_space_limit: Reading<Limit>,
    /// Maximum of [`Process::data`], the private writable address space of the process
    /// (`RLIMIT_DATA`, soft limit).
    pub data_limit: Reading<Limit>,
    /// Number of threads of the process.
    pub threads: Reading<u64>,
    /// Memory that the process locked into RAM (mlock), including pages that were never touched.
    pub locked: Reading<Bytes>,
    /// Memory for the process's page tables.
    pub page_tables: Reading<Bytes>,
    /// Whether the process may have huge pages at all; `false` after `PR_SET_THP_DISABLE`.
    pub thp_allowed: Reading<bool>,
    /// Proportional size of the memory in RAM (`Pss` of smaps_rollup).
    pub proportional: Reading<Bytes>,
    /// Proportional size of the memory in swap.
    pub swap_proportional: Reading<Bytes>,
    /// Anonymous memory of the process in huge pages.
    pub anon_huge: Reading<Bytes>,
    /// Shmem that the process has mapped in huge pages.
    pub shmem_huge: Reading<Bytes>,
    /// File pages that the process has mapped in huge pages.
    pub file_huge: Reading<Bytes>,
    /// Whether the process's smaps_rollup was read, or why not.
    pub smaps: SmapsOutcome,
}

impl Process {
    /// All resident memory of the process; `None` if the kernel does not report it by kind.
    pub fn resident(&self) -> Option<Bytes> {
        let kinds = [&self.rss_anon, &self.rss_file, &self.rss_shmem];
        kinds.into_iter().map(Reading::get).sum()
    }

    /// Whether this process runs a Pagewise command, judged by the process's name.
    pub fn is_pagewise(&self) -> bool {
        self.name.as_str() == "pagewise"
    }

    /// All anonymous memory of the process, in RAM and in swap, which grows if the process leaks.
    pub fn anonymous(&self) -> Option<Bytes> {
        Some(self.rss_anon.get()?.saturating_add(self.swap.get()?))
    }
}

/// Whether a process's smaps_rollup was read, or why not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SmapsOutcome {
    /// smaps_rollup was read.
    Read,
    /// smaps_rollup was not read, because its predicted cost exceeded what was left of the time
    /// budget, or there was no budget.
    #[default]
    NotRead,
    /// smaps_rollup may not be read, because the process belongs to another user; root may read it.
    Denied,
    /// smaps_rollup was not read before the deadline: a task holds the process's mmap lock.
    Stuck,
    /// The process exited in the meantime, or has no memory.
    Gone,
    /// smaps_rollup was not needed, because enough processes with a larger size are known.
    Smaller,
}

/// Number of processes for each [`SmapsOutcome`], and the time budget for reading smaps_rollup
/// files.
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
