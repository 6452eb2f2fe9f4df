// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Assembles lines, in the order of the log, into [`OomKill`]s.
//!
//! The kernel writes one report at a time (it holds a lock), but messages of others may appear
//! between the lines, and if the log wrapped, the beginning of the first report is lost. A line
//! that fits nowhere is ignored. Therefore the lines that were used, read alone, give the same
//! reports.
//!
//! If reports come faster than the kernel's rate limit allows, it prints only the line that names
//! the killed process.

use std::collections::VecDeque;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use pagewise_model::{
    Bytes, Limit, Name, OomConstraint, OomGroup, OomHost, OomInvoker, OomKill, OomReaped, OomTask,
    OomUsage, OomVictim, Source,
};

use super::line::{Choice, Killed, MEMCG_KILLED, OomLine, Usage, Values};
use super::record::Record;
use crate::limits::{OOM_KILLS, OOM_OTHERS, OOM_TASKS};

/// An OOM report whose last line has not been read.
#[derive(Debug, Default)]
struct Open {
    invoker: Option<OomInvoker>,
    host: Option<OomHost>,
    group: Option<Vec<u8>>,
    group_memory: Option<OomGroup>,
    columns: Vec<&'static str>,
    in_stats: bool,
    tasks: Vec<OomTask>,
    choice: Option<Choice>,
}

/// Reports of the OOM killer assembled so far.
#[derive(Debug)]
pub(super) struct Reports {
    page_size: u64,
    /// The path of the log, as shown in evidence.
    log: &'static str,
    open: Option<Open>,
    /// The beginning of an interrupted line, with the caller that wrote it.
    interrupted: Option<(Vec<u8>, Vec<u8>)>,
    kills: VecDeque<OomKill>,
    left_out: u64,
}

impl Reports {
    pub(super) fn new(page_size: u64, log: &'static str) -> Self {
        let kills = VecDeque::new();
        Self { page_size, log, open: None, interrupted: None, kills, left_out: 0 }
    }

    /// The reports, oldest first, and the number of older ones that were dropped.
    pub(super) fn finish(self) -> (Vec<OomKill>, u64) {
        (self.kills.into(), self.left_out)
    }

    /// The columns of the task table being read; empty outside of a table.
    pub(super) fn columns(&self) -> &[&'static str] {
        self.open.as_ref().map_or(&[], |open| &open.columns)
    }

    /// Whether a report of the OOM killer or a line is still incomplete.
    pub(super) fn goes_on(&self) -> bool {
        self.open.is_some() || self.interrupted.is_some()
    }

    /// Whether a record with this text (escapes included) could be part of a report. Most records
    /// cannot, and this check takes a tenth of the time of decoding and parsing one.
    pub(super) fn may_take(&self, text: &[u8]) -> bool {
        static OOM: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("oom"));
        static MEMORY: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("of memory"));
        self.goes_on()
            || OOM.find(text).is_some()
            || MEMORY.find(text).is_some()
            || OomLine::may_continue(text)
    }

    /// Processes a record; returns the parsed line if the record is part of a report.
    pub(super) fn take(&mut self, record: &Record) -> Option<OomLine> {
        if !record.head.is_of_kernel() {
            return None;
        }
        let line = self.line(record)?;
        self.fit(record, &line).then_some(line)
    }

    fn line(&mut self, record: &Record) -> Option<OomLine> {
        let joined = record.continues.then(|| self.continue_report(record)).flatten();
        let text = joined.as_deref().unwrap_or(&record.text);
        let line = OomLine::parse(text, self.columns());
        if line.is_none() && OomLine::may_continue(text) {
            self.interrupted = Some((record.caller.clone(), text.to_vec()));
        }
        line
    }

    /// The complete line, if this record continues the interrupted one.
    fn continue_report(&mut self, record: &Record) -> Option<Vec<u8>> {
        const LONGEST: usize = 16 << 10;
        let (caller, begin) = self.interrupted.as_ref()?;
        if *caller != record.caller || begin.len() > LONGEST {
            return None;
        }
        let joined = [begin, record.text.as_slice()].concat();
        self.interrupted = None;
        Some(joined)
    }

    /// Adds a line to the open report or starts a new one; false if it fits nowhere.
    fn fit(&mut self, record: &Record, line: &OomLine) -> bool {
        match line {
            OomLine::Invoked { name, gfp_mask, order, oom_score_adj } => {
                let (name, gfp_mask) = (Name::from_bytes(name), Name::from_bytes(gfp_mask));
                let (order, oom_score_adj) = (*order, *oom_score_adj);
                let invoker = Some(OomInvoker { name, gfp_mask, order, oom_score_adj });
                self.open = Some(Open { invoker, ..Open::default() });
                true
            }
            OomLine::Choice(choice) => {
                self.open.get_or_insert_with(Open::default).choose(choice);
                true
            }
            OomLine::Killed(killed) => {
                self.add_kill(record, killed);
                true
            }
            OomLine::WholeGroup(_) => self.whole_group(),
            OomLine::NoneKillable => self.none_killable(record),
            OomLine::Reaped { pid, sizes, .. } => self.add_reaped(*pid, sizes),
            line => self.open.as_mut().is_some_and(|open| open.add_line(line, self.page_size)),
        }
    }

    fn add_kill(&mut self, record: &Record, killed: &Killed) {
        let victim = victim(killed);
        let chosen =
            |open: &Open| open.choice.as_ref().is_none_or(|choice| choice.pid == killed.pid);
        let open = self.open.take().filter(chosen);
        let together = self.kills.back_mut().filter(|last| open.is_none() && last.whole_group);
        if let Some(last) = together {
            let known = last.victim.as_ref().is_some_and(|first| first.pid == victim.pid);
            if !known && last.others.len() < OOM_OTHERS {
                last.others.push(victim);
            }
            return;
        }
        let mut kill =
            open.map_or_else(|| bare(killed), |open| open.with_name(&killed.name).close());
        kill.victim = Some(victim);
        self.push(record, kill);
    }

    fn whole_group(&mut self) -> bool {
        let last = self.kills.back_mut().filter(|last| last.victim.is_some());
        let last = last.filter(|_| self.open.is_none());
        last.map(|last| last.whole_group = true).is_some()
    }

    /// Closes a report that found no process to kill. The kernel repeats it as long as the
    /// allocation is retried.
    fn none_killable(&mut self, record: &Record) -> bool {
        let Some(open) = self.open.take() else { return false };
        let mut kill = open.close();
        let same = |last: &OomKill| {
            last.victim.is_none() && last.group == kill.group && last.constraint == kill.constraint
        };
        if self.kills.back().is_some_and(same) {
            kill.repeats = self.kills.pop_back().map_or(0, |last| last.repeats + 1);
        }
        self.push(record, kill);
        true
    }

    fn add_reaped(&mut self, pid: u32, sizes: &Values) -> bool {
        let is_victim =
            |kill: &&mut OomKill| kill.victim.as_ref().is_some_and(|victim| victim.pid == pid);
        let Some(kill) = self.kills.iter_mut().rev().find(is_victim) else { return false };
        let size = |of| size_of(sizes, of).unwrap_or_default();
        let (anon, file, shmem) = (size("anon-rss"), size("file-rss"), size("shmem-rss"));
        kill.reaped = Some(OomReaped { anon, file, shmem });
        true
    }

    fn push(&mut self, record: &Record, kill: OomKill) {
        let line = u32::try_from(record.head.sequence).unwrap_or(0);
        let source = Source::line(self.log, line);
        self.kills.push_back(OomKill {
            source,
            boot_seconds: record.head.micros as f64 / 1e6,
            ..kill
        });
        if self.kills.len() > OOM_KILLS {
            self.kills.pop_front();
            self.left_out += 1;
        }
    }
}

impl Open {
    /// Adds a line about memory or tasks to the report.
    fn add_line(&mut self, line: &OomLine, page_size: u64) -> bool {
        // the only line after the choice of the victim is the kill
        if self.choice.is_some() {
            return false;
        }
        match line {
            OomLine::MemInfo(values) => mem_info(self.host(), values, page_size),
            OomLine::Pages(of, pages) => count_pages(self.host(), of, *pages, page_size),
            OomLine::Swap(of, kib) => {
                let size = Bytes::from_kib(*kib);
                let host = self.host();
                *(if *of == "Free swap" { &mut host.swap_free } else { &mut host.swap_total }) =
                    size;
            }
            OomLine::Usage(usage) => add_usage(self.group_memory(), *usage),
            OomLine::StatsOf(path) => {
                self.group = Some(path.clone());
                self.in_stats = true;
            }
            OomLine::Stats(values) if self.in_stats => add_stats(self.group_memory(), values),
            OomLine::TaskHeader(columns) => {
                self.columns.clone_from(columns);
                self.in_stats = false;
            }
            OomLine::Task { pid, values, name } => self.task(*pid, values, name, page_size),
            _ => return false,
        }
        true
    }

    fn host(&mut self) -> &mut OomHost {
        self.host.get_or_insert_default()
    }

    fn group_memory(&mut self) -> &mut OomGroup {
        self.group_memory.get_or_insert_default()
    }

    fn task(&mut self, pid: u32, values: &[i64], name: &[u8], page_size: u64) {
        let value = |of: &str| {
            let at = self.columns.iter().position(|column| *column == of)?;
            values.get(at).copied()
        };
        let pages = |of| {
            let pages = value(of).and_then(|pages| u64::try_from(pages).ok()).unwrap_or(0);
            Bytes::new(pages.saturating_mul(page_size))
        };
        let task = OomTask {
            pid,
            name: Name::from_bytes(name),
            uid: value("uid").and_then(|uid| u32::try_from(uid).ok()).unwrap_or(0),
            rss: pages("rss"),
            swapped: pages("swapents"),
            oom_score_adj: value("oom_score_adj").unwrap_or(0),
        };
        self.tasks.push(task);
    }

    fn choose(&mut self, choice: &Choice) {
        let choice = choice.clone();
        self.choice = Some(match &self.group {
            Some(path) => choice.with_group(path),
            None => choice,
        });
        self.columns.clear();
    }

    /// Resolves the victim's cgroup with the name from the line that reports the kill.
    fn with_name(mut self, name: &[u8]) -> Self {
        if let Some(choice) = &mut self.choice {
            choice.victim_group = choice.victim_group(name);
        }
        self
    }

    fn close(mut self) -> OomKill {
        self.tasks.sort_by_key(|task| std::cmp::Reverse(task.size()));
        let left_out = self.tasks.split_off(self.tasks.len().min(OOM_TASKS));
        let choice = self.choice;
        let constraint = match choice.as_ref().map(|choice| choice.constraint) {
            Some("CONSTRAINT_NONE") => Some(OomConstraint::Host),
            Some("CONSTRAINT_CPUSET") => Some(OomConstraint::Cpuset),
            Some("CONSTRAINT_MEMORY_POLICY") => Some(OomConstraint::Policy),
            Some(_) => Some(OomConstraint::Cgroup),
            None if self.group_memory.is_some() => Some(OomConstraint::Cgroup),
            None => self.host.is_some().then_some(OomConstraint::Host),
        };
        let group = choice.as_ref().and_then(|choice| choice.group.clone()).or(self.group);
        OomKill {
            constraint,
            group: group.map(|path| Name::from_bytes(&path)),
            victim_group: choice.map(|choice| Name::from_bytes(&choice.victim_group)),
            invoker: self.invoker,
            host: self.host,
            group_memory: self.group_memory,
            tasks: self.tasks,
            tasks_left_out: left_out.len() as u64,
            left_out_rss: left_out.iter().map(|task| task.rss).sum(),
            ..OomKill::default()
        }
    }
}

/// A report of which only the line about the kill was printed. Its constraint is known only if it
/// was a cgroup's limit.
fn bare(killed: &Killed) -> OomKill {
    let by_group = killed.message == MEMCG_KILLED;
    OomKill { constraint: by_group.then_some(OomConstraint::Cgroup), ..OomKill::default() }
}

fn victim(killed: &Killed) -> OomVictim {
    let size = |of| size_of(&killed.sizes, of);
    OomVictim {
        pid: killed.pid,
        name: Name::from_bytes(&killed.name),
        uid: killed.uid,
        oom_score_adj: killed.oom_score_adj,
        total_vm: size("total-vm"),
        anon: size("anon-rss"),
        file: size("file-rss"),
        shmem: size("shmem-rss"),
        page_tables: size("pgtables"),
    }
}

fn size_of(sizes: &Values, of: &str) -> Option<Bytes> {
    Bytes::from_kib(value_of(sizes, of)?)
}

fn value_of(values: &Values, of: &str) -> Option<u64> {
    values.iter().find(|(name, _)| *name == of).map(|(_, value)| *value)
}

/// Adds the sizes of the host from the `Mem-Info` lines. The LRU lists of anonymous memory include
/// shmem.
fn mem_info(host: &mut OomHost, values: &Values, page_size: u64) {
    let pages = |of: &str| value_of(values, of);
    let sum = |parts: [&str; 3]| {
        parts.into_iter().map(pages).try_fold(0u64, |sum, part| Some(sum.saturating_add(part?)))
    };
    let bytes = |pages: Option<u64>| Some(Bytes::new(pages?.saturating_mul(page_size)));
    let shmem = pages("shmem");
    let anon = sum(["active_anon", "inactive_anon", "isolated_anon"]);
    host.anon = bytes(anon.zip(shmem).map(|(all, shmem)| all.saturating_sub(shmem)));
    host.file = bytes(sum(["active_file", "inactive_file", "isolated_file"]));
    host.shmem = bytes(shmem);
    host.unevictable = bytes(pages("unevictable"));
    host.slab_reclaimable = bytes(pages("slab_reclaimable"));
    host.slab_unreclaimable = bytes(pages("slab_unreclaimable"));
    host.page_tables = bytes(pages("pagetables"));
    host.free = bytes(pages("free"));
}

/// Adds the host's total memory: the RAM minus the pages that the kernel reserves at boot.
fn count_pages(host: &mut OomHost, of: &str, pages: u64, page_size: u64) {
    let size = Bytes::new(pages.saturating_mul(page_size));
    host.total = match of {
        "pages RAM" => Some(size),
        _ => host.total.map(|total| total.saturating_sub(size)),
    };
}

fn add_usage(group: &mut OomGroup, usage: Usage) {
    let Usage { of, usage, limit, failures } = usage;
    let Some(usage) = Bytes::from_kib(usage) else { return };
    let limit =
        Bytes::from_kib(limit).map_or(Limit::Max, |limit| crate::cgroup::limit_of(limit.get()));
    let all = OomUsage { usage, limit, reached: failures };
    match of {
        "memory" => group.memory = Some(all),
        "swap" => group.swap = Some(all),
        "memory+swap" => group.memory_and_swap = Some(all),
        _ => group.kernel = Some(usage),
    }
}

/// Adds the sizes of a cgroup from its statistics in the report. `file` and `total_cache` include
/// shmem, so it is subtracted.
fn add_stats(group: &mut OomGroup, values: &Values) {
    for (name, value) in values {
        let size = Some(Bytes::new(*value));
        match *name {
            "anon" | "total_rss" => group.anon = size,
            "file" | "total_cache" => group.file = size,
            "shmem" | "total_shmem" => {
                group.shmem = size;
                group.file = group.file.zip(size).map(|(file, shmem)| file.saturating_sub(shmem));
            }
            "kernel" => group.kernel = size,
            "unevictable" | "total_unevictable" => group.unevictable = size,
            _ => group.swapped = size,
        }
    }
}
