// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel log says about processes that the OOM killer killed.
//!
//! An [`OomKill`] is one report of the OOM killer, in the kernel's own numbers and without
//! interpretation. Its sizes are plain options and not Readings, because all of them come from the
//! few records that [`OomKill::source`] refers to; `None` means that the kernel did not print the
//! number.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::{Bytes, Limit, Name, Reading, Source};

/// What the kernel log and journald's files say about kills for lack of memory.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct KernelLog {
    /// Number of records in the kernel log; absent or denied if it could not be read.
    pub records: Reading<u64>,
    /// When the oldest record of the kernel log was written, in seconds since boot.
    pub oldest_boot_seconds: Option<f64>,
    /// Whether older records of the kernel log were overwritten, so that earlier kills cannot be
    /// seen.
    pub wrapped: bool,
    /// Reports of the OOM killer in the kernel log and in journald's files, oldest first.
    pub kills: Vec<OomKill>,
    /// Number of older reports that were left out because there are more than Pagewise keeps.
    pub left_out: u64,
    /// Where journald keeps its files: `persistent` means on disk, where the files of earlier boots
    /// are kept as well; `volatile` means in `/run`, with this boot's files only.
    pub journal: Reading<Name>,
    /// How many of journald's files were searched; absent or denied if no file could be searched.
    pub journal_files: Reading<u64>,
    /// How many of journald's files were not searched, or not completely: they were damaged, of an
    /// unknown version, not readable, or too many.
    pub journal_files_left_out: u64,
    /// When the oldest message in the searched files was written, in seconds since 1970, UTC.
    pub journal_unix_seconds: Option<f64>,
    /// Allocations that failed without a kill, oldest first.
    pub failures: Vec<AllocationFailure>,
    /// Number of older failed allocations that were left out because there are more than Pagewise
    /// keeps.
    pub failures_left_out: u64,
    /// Tasks that the kernel reported as blocked for a long time, oldest first.
    pub hung_tasks: Vec<HungTask>,
    /// Number of further blocked tasks that were left out.
    pub hung_tasks_left_out: u64,
    /// Number of messages read that were written by programs which kill for lack of memory, or by
    /// systemd about units. They come from journald's files or, if there are none, from the lines
    /// of a syslog; absent or denied if there was neither.
    pub program_messages: Reading<u64>,
    /// Lower limit of the number of such messages that were not read: old messages of a program
    /// that writes many, or messages in damaged files.
    pub program_messages_left_out: u64,
    /// Kills by programs such as systemd-oomd, oldest first.
    pub user_kills: Vec<UserKill>,
    /// systemd's messages about units in which something was killed for lack of memory, oldest
    /// first.
    pub unit_kills: Vec<UnitKill>,
    /// Number of records about kills that Pagewise did not understand, because their form is
    /// unknown or a part of them is missing.
    pub not_understood: u64,
    /// The first record that was not understood.
    #[serde(serialize_with = "as_text_or_null")]
    #[schemars(with = "Option<String>")]
    pub first_not_understood: Option<Source>,
}

/// A program that kills processes when memory is short, before the kernel does, or that reports
/// such a kill.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UserKiller {
    /// systemd-oomd.
    #[default]
    SystemdOomd,
    /// earlyoom.
    Earlyoom,
    /// lmkd, the low memory killer of Android.
    Lmkd,
    /// kubelet, the node agent of Kubernetes, which evicts pods.
    Kubelet,
    /// nohang.
    Nohang,
    /// Docker, which reports that the kernel killed a process in a container.
    Docker,
}

/// A kill that a program in user space carried out or reported.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct UserKill {
    /// The place of the message in the log.
    #[serde(rename = "at", serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub source: Source,
    /// The time of the message as the log prints it, if the log is a text.
    pub stamp: Option<Name>,
    /// When journald received the message, in seconds since 1970, UTC; `null` if the message was
    /// read from a text.
    pub unix_seconds: Option<f64>,
    /// Name of the machine that wrote the message, if the log names it.
    pub machine: Option<Name>,
    /// The program that killed or that reported the kill.
    pub by: UserKiller,
    /// Name of the cgroup, unit, process or pod that was killed.
    pub victim: Name,
    /// Id of the killed process, if the message contains it.
    pub pid: Option<u32>,
    /// The reason for the kill, in the program's own words.
    pub reason: Option<Name>,
    /// Whether the message is systemd's message about the unit and not the killing program's own.
    pub is_by_unit: bool,
}

/// systemd's messages about a unit in which the OOM killer killed a process: "A process of this
/// unit has been killed by the OOM killer.", "Failed with result 'oom-kill'.", or both.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct UnitKill {
    /// The place in the log of the first of these messages.
    #[serde(rename = "at", serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub source: Source,
    /// The time of the message as the log prints it, if the log is a text.
    pub stamp: Option<Name>,
    /// When journald received the message, in seconds since 1970, UTC; `null` if the message was
    /// read from a text.
    pub unix_seconds: Option<f64>,
    /// Name of the machine that wrote the message, if the log names it.
    pub machine: Option<Name>,
    /// Name of the unit.
    pub unit: Name,
    /// Whether systemd reported that a process of the unit was killed.
    pub is_process: bool,
    /// Whether systemd reported that the unit failed with the result `oom-kill`.
    pub is_result: bool,
}

/// One kill in the list of all kills, by the kernel or by a program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct OomEvent {
    /// The place in the log of the program's message, or of the last record of the kernel's report.
    #[serde(rename = "at", serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub source: Source,
    /// Time of the kill, in seconds since 1970, UTC.
    pub unix_seconds: Option<f64>,
    /// The time as the log prints it, if the log is a text.
    pub stamp: Option<Name>,
    /// The kernel or the name of the program that killed, such as `systemd-oomd`.
    pub by: &'static str,
    /// Name of the killed process, cgroup, unit or pod.
    pub victim: Name,
    /// Id of the killed process, if it is known.
    pub pid: Option<u32>,
    /// The limit that was reached, or the rule of the program, because of which it killed.
    pub rule: String,
    /// The unit that the kill belongs to: systemd reported within a minute that something in it was
    /// killed.
    pub unit: Option<Name>,
}

/// Properties of a text that contains messages of the kernel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct LogText {
    /// Number of lines.
    pub lines: u64,
    /// Whether the text is longer than Pagewise reads, so that its end was not searched.
    pub is_cut: bool,
    /// Whether the text is in reverse order (`journalctl -r`). The sizes in the reports were then
    /// not read.
    pub is_reversed: bool,
    /// Number of journald's files that could not be read, because they are damaged, were written by
    /// a newer version of systemd, or are too many; 0 if a text was read.
    pub files_unread: u64,
    /// Lower limit of the number of kernel messages in journald's files that could not be read,
    /// because the files are damaged or their end is missing; 0 if a text was read.
    pub messages_unread: u64,
    /// The kinds of prefixes in front of the messages, such as those of a syslog or a container
    /// runtime; empty if there are no prefixes.
    pub forms: Vec<Name>,
    /// Names of the machines that wrote the messages, as the text prints them.
    pub machines: Vec<Name>,
    /// The releases of the kernels that wrote the messages.
    pub kernels: Vec<Name>,
    /// Lower limit of the number of boots that the messages about kills belong to.
    pub boots: u64,
    /// Whether the prefixes in the text say that the kernel wrote the messages.
    pub names_kernel: bool,
    /// Number of messages about kills that were written by programs and not by the kernel. They are
    /// not evaluated.
    pub by_programs: u64,
    /// Number of messages that only mention a kill for lack of memory, for which the kernel's own
    /// report is missing: messages of systemd, a container runtime or Android's kernel.
    pub signs: u64,
    /// The place of the first message that only mentions a kill.
    #[serde(serialize_with = "as_text_or_null")]
    #[schemars(with = "Option<String>")]
    pub first_sign: Option<Source>,
    /// Size of a page on the machine; `null` if no report shows the size. In this case 4 KiB is
    /// assumed.
    pub page_size: Option<Bytes>,
}

/// Which constraint on memory made an allocation fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OomConstraint {
    /// No constraint: the whole machine ran out of memory.
    Host,
    /// Only memory nodes of a cpuset could be used.
    Cpuset,
    /// Only nodes of a NUMA memory policy could be used.
    Policy,
    /// The memory limit of a cgroup was reached.
    Cgroup,
}

/// One report of the OOM killer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct OomKill {
    /// The last record of the report in the kernel log; its line is the record's sequence number.
    #[serde(rename = "at", serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub source: Source,
    /// The id of the boot in which the report was written, if it was an earlier boot.
    pub earlier_boot: Option<Name>,
    /// When the report was written: seconds since boot, by the clock of the kernel log, which does
    /// not advance while the machine is suspended.
    pub boot_seconds: f64,
    /// When the report was written: seconds since 1970, UTC, computed from the time of the reading
    /// and the clock of the kernel log at that time. Exact only if the machine was not suspended in
    /// between; `null` if either is not known. For an earlier boot, the time that journald
    /// recorded.
    pub unix_seconds: Option<f64>,
    /// Seconds from the report to the time at which the log was read, as exact as `unix_seconds`.
    /// For an earlier boot, at least the time since this boot started.
    pub seconds_ago: Option<f64>,
    /// Which constraint on memory made the allocation fail; `null` if the kernel printed only that
    /// a process was killed.
    pub constraint: Option<OomConstraint>,
    /// The time of the report as the log prints it, if the log is a text.
    pub stamp: Option<Name>,
    /// The machine that wrote the report, if the log is a text that names it.
    pub machine: Option<Name>,
    /// The cgroup whose memory limit was reached.
    pub group: Option<Name>,
    /// Why the kernel panicked instead of killing a process, in its words.
    pub panic: Option<Name>,
    /// The process that was killed; `null` if none could be killed.
    pub victim: Option<OomVictim>,
    /// The cgroup of the process that was killed.
    pub victim_group: Option<Name>,
    /// Other processes that were killed with the victim because `memory.oom.group` was set.
    pub others: Vec<OomVictim>,
    /// Whether the whole cgroup was killed because of `memory.oom.group`.
    pub whole_group: bool,
    /// How many more times the kernel printed the same report, without a victim, right after this
    /// one.
    pub repeats: u64,
    /// The task whose allocation failed.
    pub invoker: Option<OomInvoker>,
    /// The memory of the whole machine when the report was written.
    pub host: Option<OomHost>,
    /// The zones of the machine's memory when the report was written.
    pub zones: Vec<OomZone>,
    /// The memory of the cgroup whose limit was reached.
    pub group_memory: Option<OomGroup>,
    /// The largest tasks that the OOM killer could have killed, largest first.
    pub tasks: Vec<OomTask>,
    /// How many smaller tasks the kernel listed besides these.
    pub tasks_left_out: u64,
    /// Resident memory of the smaller tasks that `tasks_left_out` counts.
    pub left_out_rss: Bytes,
    /// Memory that the victim still held after the OOM reaper had run.
    pub reaped: Option<OomReaped>,
}

/// A process that the OOM killer killed.
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
    /// Resident memory of the victim; `None` if the kernel printed none of its parts.
    pub fn resident(&self) -> Option<Bytes> {
        let parts = [self.anon, self.file, self.shmem];
        parts.iter().any(Option::is_some).then(|| parts.into_iter().flatten().sum())
    }
}

/// The task whose allocation failed and called the OOM killer.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OomInvoker {
    /// Name of the task.
    pub name: Name,
    /// Flags of the allocation (GFP mask), as the kernel prints them.
    pub gfp_mask: Name,
    /// The allocation was for 2^order pages; -1 if the OOM killer was called by a person (SysRq).
    pub order: i64,
    /// The task's `oom_score_adj`.
    pub oom_score_adj: i64,
}

/// A failed allocation that did not lead to a kill ("page allocation failure").
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct AllocationFailure {
    /// The place in the kernel log of the record that reports the failure.
    #[serde(rename = "at", serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub source: Source,
    /// When the record was written, in seconds since boot.
    pub boot_seconds: f64,
    /// The time of the record as the log prints it, if the log is a text.
    pub stamp: Option<Name>,
    /// Name of the task whose allocation failed.
    pub name: Name,
    /// Flags of the allocation (GFP mask), as the kernel prints them.
    pub gfp_mask: Name,
    /// The allocation was for 2^order pages.
    pub order: i64,
    /// The memory of the whole machine when the allocation failed.
    pub host: Option<OomHost>,
    /// The zones of the machine's memory when the allocation failed.
    pub zones: Vec<OomZone>,
}

/// A task that was blocked for longer than `kernel.hung_task_timeout_secs`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct HungTask {
    /// The place in the kernel log of the record that reports the task.
    #[serde(rename = "at", serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub source: Source,
    /// When the record was written, in seconds since boot.
    pub boot_seconds: f64,
    /// The time of the record as the log prints it.
    pub stamp: Option<Name>,
    /// Name of the task.
    pub name: Name,
    /// Process id of the task.
    pub pid: u32,
    /// Number of seconds for which the task was blocked at least.
    pub seconds: u64,
    /// The kernel functions in which the task was blocked, innermost first; empty if the log does
    /// not contain them.
    pub stack: Vec<Name>,
}

/// A zone of memory, as a report of the OOM killer prints it. The kernel allocates a page from the
/// highest zone that the request allows, or from a lower one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct OomZone {
    /// The NUMA node; `null` if the kernel has no NUMA.
    pub node: Option<u32>,
    /// Name of the zone: `DMA`, `DMA32`, `Normal`, `HighMem` or `Movable`.
    pub name: Name,
    /// Free memory of the zone.
    pub free: Option<Bytes>,
    /// The part of the free memory that only movable pages may use (CMA).
    pub free_cma: Option<Bytes>,
    /// The min watermark: with less free memory than this, only privileged allocations succeed.
    pub min: Option<Bytes>,
    /// Memory of the zone that the kernel manages.
    pub managed: Option<Bytes>,
    /// Free memory of this zone that is reserved from allocations which could use a higher zone
    /// (`lowmem_reserve`), by the index of the higher zone.
    pub reserve: Vec<Bytes>,
    /// Free blocks of the zone by size, smallest first.
    pub blocks: Vec<OomBlocks>,
}

/// The free blocks of one size in a zone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OomBlocks {
    /// Size of a block.
    pub size: Bytes,
    /// Number of free blocks of this size.
    pub count: u64,
}

/// The memory of the whole machine (`Mem-Info`) at the time of the report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct OomHost {
    /// All memory of the machine that the kernel manages.
    pub total: Option<Bytes>,
    /// The part of `total` that a 32-bit kernel cannot address directly (HighMem), or that only
    /// movable pages may use.
    pub high_memory: Option<Bytes>,
    /// Anonymous memory on the LRU lists.
    pub anon: Option<Bytes>,
    /// Page cache on the LRU lists, without shmem.
    pub file: Option<Bytes>,
    /// Shared memory and tmpfs.
    pub shmem: Option<Bytes>,
    /// Memory of the machine that cannot be reclaimed: mlock, ramfs.
    pub unevictable: Option<Bytes>,
    /// Size of the slab caches that can be reclaimed.
    pub slab_reclaimable: Option<Bytes>,
    /// Size of the slab caches that cannot be reclaimed.
    pub slab_unreclaimable: Option<Bytes>,
    /// Size of the page tables.
    pub page_tables: Option<Bytes>,
    /// Size of the memory that was free.
    pub free: Option<Bytes>,
    /// The part of the free memory that only movable pages may use (CMA).
    pub free_cma: Option<Bytes>,
    /// Size of all swap areas.
    pub swap_total: Option<Bytes>,
    /// Free space in all swap areas.
    pub swap_free: Option<Bytes>,
}

impl OomHost {
    /// Memory that none of the other numbers covers: the pools of zram and zswap, drivers, kernel
    /// stacks, hugetlb pools. `None` if a number is missing.
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

/// How much a cgroup used of its memory, its swap or both together, and the limit on it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct OomUsage {
    /// How much the cgroup used.
    pub usage: Bytes,
    /// The limit on that usage.
    pub limit: Limit,
    /// How often the cgroup reached the limit.
    pub reached: u64,
}

/// The memory of the cgroup whose limit was reached, including its child groups.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct OomGroup {
    /// The group's memory usage and its limit.
    pub memory: Option<OomUsage>,
    /// The group's swap usage and its limit (cgroup version 2).
    pub swap: Option<OomUsage>,
    /// The group's usage of memory and swap together, and the limit on it (cgroup version 1).
    pub memory_and_swap: Option<OomUsage>,
    /// Anonymous memory of the group.
    pub anon: Option<Bytes>,
    /// Page cache of the group, without shmem.
    pub file: Option<Bytes>,
    /// Shared memory and tmpfs of the group.
    pub shmem: Option<Bytes>,
    /// Kernel memory charged to the group.
    pub kernel: Option<Bytes>,
    /// Memory of the group that cannot be reclaimed: mlock, ramfs.
    pub unevictable: Option<Bytes>,
    /// Memory of the group in swap (version 1; for version 2 see `swap`).
    pub swapped: Option<Bytes>,
}

/// A task that the OOM killer could have killed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct OomTask {
    /// Process id of the task.
    pub pid: u32,
    /// Name of the task.
    pub name: Name,
    /// User id of the task's owner.
    pub uid: u32,
    /// Resident memory of the task.
    pub rss: Bytes,
    /// Memory of the task in swap.
    pub swapped: Bytes,
    /// All memory that the task had mapped, whether it used it or not; `null` if the kernel did not
    /// print it.
    pub total_vm: Option<Bytes>,
    /// The task's `oom_score_adj`; a task with -1000 is never killed by the OOM killer.
    pub oom_score_adj: i64,
}

impl OomTask {
    /// Memory in RAM and swap that killing the task would free.
    pub fn size(&self) -> Bytes {
        self.rss.saturating_add(self.swapped)
    }

    /// Memory that the task had mapped and not touched yet. It includes parts of programs and
    /// libraries that were never read, and address space that was only reserved.
    pub fn unused_memory(&self) -> Option<Bytes> {
        Some(self.total_vm?.saturating_sub(self.size()))
    }
}

/// Memory that the victim still held after the OOM reaper had run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "each size is what the kernel prints under this name")]
pub struct OomReaped {
    pub anon: Bytes,
    pub file: Bytes,
    pub shmem: Bytes,
}

/// An [`OomKill`] explained in sentences.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OomExplanation {
    /// The last record of the explained report in the kernel log.
    #[serde(rename = "at", serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub source: Source,
    /// When the report was written: seconds since 1970, UTC, as exact as [`OomKill::unix_seconds`].
    pub unix_seconds: Option<f64>,
    /// The time of the report as the log prints it, if the log is a text.
    pub stamp: Option<Name>,
    /// Which process was killed, because of which limit, and whether the machine was short of
    /// memory.
    pub title: String,
    /// The facts about the kill in the order to present them, each with a short label.
    pub facts: Vec<OomFact>,
    /// Commands that would have prevented the kill; each says how long its effect lasts and how to
    /// undo it.
    pub change: Vec<String>,
    /// The effects that single changes would have had, computed from the numbers in the log alone;
    /// empty unless they were requested.
    pub what_if: Vec<WhatIf>,
}

/// The effect that a single change would have had on a kill.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WhatIf {
    /// The change in words, such as `a limit of 96.0 MiB for /a`.
    pub change: String,
    /// The kind of thing that is changed.
    pub kind: WhatIfKind,
    /// The new size of the limit, of the swap or of the memory. If the change removes something,
    /// the size of what is removed.
    pub size: Option<Bytes>,
    /// The effect that the change would have had on the kill.
    pub effect: WhatIfEffect,
    /// Only with the effect `delayed`: how many seconds later the kill would have happened, if
    /// memory had grown at the rate that the log shows.
    pub seconds_later: Option<f64>,
    /// The numbers that the effect is derived from, and the condition under which it holds.
    pub because: String,
}

/// The kind of thing that a change concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhatIfKind {
    /// The memory limit of the cgroup.
    Limit,
    /// The limit on the cgroup's swap.
    GroupSwap,
    /// The size of the machine's swap.
    Swap,
    /// Swap in compressed RAM is added.
    Zram,
    /// The size of the machine's memory.
    Memory,
    /// The process that grew does not run.
    WithoutProcess,
    /// The shared memory does not exist.
    WithoutShmem,
    /// Something that is not a size.
    Other,
}

/// The effect of a change on a kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhatIfEffect {
    /// The kill would not have happened, under the condition in `because`.
    Avoided,
    /// The kill would have happened later.
    Delayed,
    /// The kill would have happened at the same time.
    None,
    /// The log does not contain enough to determine the effect.
    NotKnown,
}

/// One fact about a kill, with a label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OomFact {
    /// Label of the fact.
    pub label: &'static str,
    /// The fact, in a sentence.
    pub text: String,
}

/// Kills by the OOM killer that are recent enough to affect the verdict.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecentKills {
    /// Kills because the machine, or a part of it other than a cgroup, ran out of memory.
    pub host: Vec<OomKill>,
    /// Kills because of a cgroup's limit.
    pub groups: Vec<OomKill>,
}

fn as_text_or_null<S: Serializer>(
    source: &Option<Source>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match source {
        Some(source) => serializer.collect_str(source),
        None => serializer.serialize_none(),
    }
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
