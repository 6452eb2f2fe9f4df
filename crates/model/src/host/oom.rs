// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel log says about processes that were killed for lack of memory.
//!
//! An [`OomKill`] is one report of the OOM killer, in the kernel's own numbers: nothing in it is
//! judged. Its sizes are plain options and not Readings, because all of them come from the few
//! records behind [`OomKill::source`]; `None` means that the kernel did not print the number.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::{Bytes, Limit, Name, Reading, Source};

/// The kernel log as far as it is about memory running out.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct KernelLog {
    /// How many records the log holds; absent or denied where it could not be read.
    pub records: Reading<u64>,
    /// When the oldest record was written, in seconds since boot.
    pub oldest_boot_seconds: Option<f64>,
    /// Whether records older than that were overwritten: kills before it cannot be seen.
    pub wrapped: bool,
    /// Reports of the OOM killer in the kernel log and in journald's files, oldest first.
    pub kills: Vec<OomKill>,
    /// Older reports that were left out because there were more than are kept.
    pub left_out: u64,
    /// Whether journald has files of its own: `persistent` also of earlier boots, `volatile` of this one.
    pub journal: Reading<Name>,
    /// How many of them were searched; absent or denied where none could be.
    pub journal_files: Reading<u64>,
    /// Files that were not searched, or not in full: damaged, too new, not readable, or too many.
    pub journal_files_left_out: u64,
    /// When the oldest message in those that were searched was written, in seconds since 1970, UTC.
    pub journal_unix_seconds: Option<f64>,
}

/// Which limit the memory was allocated under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OomConstraint {
    /// None: the whole machine ran out.
    Host,
    /// The nodes of a cpuset.
    Cpuset,
    /// The nodes of a NUMA policy.
    Policy,
    /// The limit of a memory cgroup.
    Cgroup,
}

/// One report of the OOM killer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct OomKill {
    /// The record that ends the report; the line is the record's sequence number.
    #[serde(rename = "at", serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub source: Source,
    /// The id of the boot in which it happened, if that was an earlier one.
    pub earlier_boot: Option<Name>,
    /// Seconds since boot, on the clock of the kernel log, which stops while the machine is suspended.
    pub boot_seconds: f64,
    /// Seconds since 1970, UTC: from the time of the reading and the clock of the kernel log at that
    /// time. Exact only if the machine was not suspended in between; `null` where neither is known. Of an
    /// earlier boot what journald wrote down.
    pub unix_seconds: Option<f64>,
    /// Seconds from the report to the reading, as exact as `unix_seconds`; of an earlier boot at least the
    /// time since this boot.
    pub seconds_ago: Option<f64>,
    /// Which limit was reached; `null` where the kernel printed only that a process was killed.
    pub constraint: Option<OomConstraint>,
    /// The cgroup whose limit was reached.
    pub group: Option<Name>,
    /// Who was killed; `null` where no process could be killed.
    pub victim: Option<OomVictim>,
    /// The victim's cgroup.
    pub victim_group: Option<Name>,
    /// Processes killed with the victim because `memory.oom.group` was set.
    pub others: Vec<OomVictim>,
    /// Whether `memory.oom.group` had the whole group killed.
    pub whole_group: bool,
    /// How often the same report without a victim was repeated right after this one.
    pub repeats: u64,
    /// The task that asked for memory when there was none.
    pub invoker: Option<OomInvoker>,
    /// The memory of the whole machine at that moment.
    pub host: Option<OomHost>,
    /// The memory of the group whose limit was reached.
    pub group_memory: Option<OomGroup>,
    /// The largest tasks that could be chosen, largest first.
    pub tasks: Vec<OomTask>,
    /// How many smaller tasks the kernel listed.
    pub tasks_left_out: u64,
    /// The memory of the tasks left out.
    pub left_out_rss: Bytes,
    /// What the victim still held after the OOM reaper had freed what it could.
    pub reaped: Option<OomReaped>,
}

/// A process that was killed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "each size is what the kernel prints under this name")]
pub struct OomVictim {
    pub pid: u32,
    pub name: Name,
    pub uid: Option<u32>,
    pub oom_score_adj: Option<i64>,
    pub total_vm: Option<Bytes>,
    pub anon: Option<Bytes>,
    pub file: Option<Bytes>,
    pub shmem: Option<Bytes>,
    pub page_tables: Option<Bytes>,
}

impl OomVictim {
    /// What it had in memory; `None` where none of it was printed.
    pub fn resident(&self) -> Option<Bytes> {
        let parts = [self.anon, self.file, self.shmem];
        parts.iter().any(Option::is_some).then(|| parts.into_iter().flatten().sum())
    }
}

/// The task whose allocation could not be satisfied.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OomInvoker {
    /// Its name.
    pub name: Name,
    /// How the memory was asked for, as the kernel prints it.
    pub gfp_mask: Name,
    /// 2 to the power of this many pages were asked for; -1 if a person asked (SysRq).
    pub order: i64,
    /// Its score adjustment.
    pub oom_score_adj: i64,
}

/// The memory of the whole machine (`Mem-Info`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct OomHost {
    /// All memory that the kernel manages.
    pub total: Option<Bytes>,
    /// Anonymous memory on the LRU lists.
    pub anon: Option<Bytes>,
    /// Page cache on the LRU lists, without shmem.
    pub file: Option<Bytes>,
    /// Shared memory and tmpfs.
    pub shmem: Option<Bytes>,
    /// Memory that cannot be reclaimed: mlock, ramfs.
    pub unevictable: Option<Bytes>,
    /// Slab caches that can shrink.
    pub slab_reclaimable: Option<Bytes>,
    /// Slab caches that cannot.
    pub slab_unreclaimable: Option<Bytes>,
    /// Page tables.
    pub page_tables: Option<Bytes>,
    /// Free memory.
    pub free: Option<Bytes>,
    /// All swap.
    pub swap_total: Option<Bytes>,
    /// Swap that was free.
    pub swap_free: Option<Bytes>,
}

impl OomHost {
    /// What none of the other numbers accounts for: zram's and zswap's pool, drivers, kernel stacks,
    /// huge pages of a pool. `None` where a number is missing.
    pub fn other(&self) -> Option<Bytes> {
        let counted = [
            self.anon?,
            self.file?,
            self.shmem?,
            self.slab_reclaimable?,
            self.slab_unreclaimable?,
            self.page_tables?,
            self.free?,
        ];
        Some(self.total?.saturating_sub(counted.into_iter().sum()))
    }
}

/// Memory, or memory and swap, of a cgroup beside its limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct OomUsage {
    /// In use.
    pub usage: Bytes,
    /// At most this.
    pub limit: Limit,
    /// How often the limit was reached.
    pub reached: u64,
}

/// The memory of the cgroup whose limit was reached, with all groups below it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct OomGroup {
    /// Memory.
    pub memory: Option<OomUsage>,
    /// Swap (version 2).
    pub swap: Option<OomUsage>,
    /// Memory and swap together (version 1).
    pub memory_and_swap: Option<OomUsage>,
    /// Anonymous memory.
    pub anon: Option<Bytes>,
    /// Page cache without shmem.
    pub file: Option<Bytes>,
    /// Shared memory and tmpfs.
    pub shmem: Option<Bytes>,
    /// The kernel's own on behalf of the group.
    pub kernel: Option<Bytes>,
    /// Memory that cannot be reclaimed: mlock, ramfs.
    pub unevictable: Option<Bytes>,
    /// Swapped out (version 1; version 2 says it in `swap`).
    pub swapped: Option<Bytes>,
}

/// A task that could be chosen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct OomTask {
    /// Its process.
    pub pid: u32,
    /// Its name.
    pub name: Name,
    /// Whose it is.
    pub uid: u32,
    /// In memory.
    pub rss: Bytes,
    /// Swapped out.
    pub swapped: Bytes,
    /// Its score adjustment; -1000 is never killed.
    pub oom_score_adj: i64,
}

impl OomTask {
    /// What killing it would free, in memory and swap.
    pub fn size(&self) -> Bytes {
        self.rss.saturating_add(self.swapped)
    }
}

/// What the OOM reaper left of the victim.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "each size is what the kernel prints under this name")]
pub struct OomReaped {
    pub anon: Bytes,
    pub file: Bytes,
    pub shmem: Bytes,
}

/// An [`OomKill`] in sentences: what was decided about it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OomExplanation {
    /// The record that ends the report.
    #[serde(rename = "at", serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub source: Source,
    /// Seconds since 1970, UTC, as exact as that of the kill.
    pub unix_seconds: Option<f64>,
    /// Who was killed, by whose limit, and whether the machine was short.
    pub title: String,
    /// Facts in the order in which they are told, each with a label of few words.
    pub facts: Vec<OomFact>,
    /// What would have prevented it: commands with whether they last and how to undo them.
    pub change: Vec<String>,
}

/// A fact about a kill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OomFact {
    /// What it is about.
    pub label: &'static str,
    /// The fact.
    pub text: String,
}

/// The kills that matter now.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecentKills {
    /// Reports of the whole machine, or of a part that no cgroup's limit makes.
    pub host: Vec<OomKill>,
    /// Reports by a cgroup's limit.
    pub groups: Vec<OomKill>,
}

fn as_text<S: Serializer>(source: &Source, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_number_accounts_for_is_other_and_unknown_without_one() {
        let mib = |mib: u64| Some(Bytes::new(mib << 20));
        let mut host = OomHost {
            total: mib(100),
            anon: mib(40),
            file: mib(1),
            shmem: mib(2),
            slab_reclaimable: mib(3),
            slab_unreclaimable: mib(4),
            page_tables: mib(5),
            free: mib(6),
            ..OomHost::default()
        };
        assert_eq!(host.other(), mib(39));
        host.free = None;
        assert_eq!(host.other(), None);
    }

    #[test]
    fn a_victim_of_which_nothing_was_printed_has_no_size() {
        let mut victim = OomVictim::default();
        assert_eq!(victim.resident(), None);
        victim.anon = Some(Bytes::new(3));
        victim.shmem = Some(Bytes::new(4));
        assert_eq!(victim.resident(), Some(Bytes::new(7)));
    }
}
