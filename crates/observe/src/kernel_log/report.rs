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
    AllocationFailure, Bytes, Limit, Name, OomBlocks, OomConstraint, OomGroup, OomHost, OomInvoker,
    OomKill, OomReaped, OomTask, OomUsage, OomVictim, OomZone, Source,
};

use super::line::{self, Blocks, Choice, Killed, MEMCG_KILLED, OomLine, Usage, Values, Zone};
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
    zones: Vec<OomZone>,
    /// How many pages of each zone are kept from requests for higher zones.
    reserves: Vec<Vec<u64>>,
    /// Before Linux 5.1: the process that was chosen.
    chosen: Option<OomVictim>,
    /// Whether the message about the chosen process says that a cgroup's limit was reached.
    is_of_group: bool,
    victim_group: Option<Vec<u8>>,
    panic: Option<&'static str>,
    /// The failed allocation, if the report is about one and not about a kill.
    failed: Option<Box<AllocationFailure>>,
    /// Size of a page in bytes, from the free blocks of a zone.
    page_size: Option<u64>,
    /// Values of `Mem-Info` and the two numbers of pages, in pages.
    mem_info: Values,
    pages: Option<u64>,
    reserved: Option<u64>,
    high_pages: Option<u64>,
    /// Number of records since the report began.
    records: usize,
    /// Whether the first line of the report was not seen, so that the following lines may not be a report.
    is_beheaded: bool,
}

/// Number of records after which a report that has no last line ends: one about a failed allocation, or one whose
/// first line was not seen.
const LONGEST_FAILURE: usize = 400;

/// The time and the machine of a record, as a text log prints them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) time: Option<Name>,
    pub(super) machine: Option<Name>,
}

/// Reports of the OOM killer assembled so far.
#[derive(Debug)]
pub(super) struct Reports {
    page_size: u64,
    /// The path of the log, as shown in evidence.
    log: String,
    /// Whether the records are those of a text, of which somebody may have cut the beginning.
    is_text: bool,
    /// Whether the text has its newest line first: then the lines of a report come after its kill, and would be
    /// taken for lines of the previous kill.
    is_reversed: bool,
    /// The size of a page in bytes, if the last report shows it only by the sizes of its victim.
    page_size_by_victim: Option<u64>,
    /// The stamp of the record that is being read.
    pub(super) stamp: Stamp,
    failures: VecDeque<AllocationFailure>,
    failures_left_out: u64,
    not_understood: u64,
    is_last_unknown: bool,
    first_not_understood: Option<Source>,
    open: Option<Open>,
    /// The beginning of an interrupted line, with the caller that wrote it.
    interrupted: Option<(Vec<u8>, Vec<u8>)>,
    kills: VecDeque<OomKill>,
    left_out: u64,
}

impl Reports {
    pub(super) fn new(page_size: u64, log: &str) -> Self {
        Self {
            page_size,
            log: log.to_owned(),
            is_text: false,
            is_reversed: false,
            page_size_by_victim: None,
            stamp: Stamp::default(),
            open: None,
            interrupted: None,
            kills: VecDeque::new(),
            left_out: 0,
            failures: VecDeque::new(),
            failures_left_out: 0,
            not_understood: 0,
            is_last_unknown: false,
            first_not_understood: None,
        }
    }

    /// Makes a collector for the records of a text, in which a report may lack its first lines.
    pub(super) fn of_text(page_size: u64, log: &str) -> Self {
        Self { is_text: true, ..Self::new(page_size, log) }
    }

    /// Ends reading; returns everything that was found, the oldest first.
    pub(super) fn finish(mut self) -> Found {
        self.close_failure();
        Found {
            kills: self.kills.into(),
            left_out: self.left_out,
            failures: self.failures.into(),
            failures_left_out: self.failures_left_out,
            not_understood: self.not_understood,
            page_size: self.page_size_by_victim,
            is_reversed: self.is_reversed,
            first_not_understood: self.first_not_understood,
        }
    }

    /// Adds the report that is still open, of which the line about the kill is missing, if it names
    /// the process that was chosen. A fragment of a text may lack that line; in the kernel's own
    /// log it is about to be written.
    pub(super) fn close_fragment(&mut self, record: &Record) {
        let Some(open) = self.open.take_if(|open| open.failed.is_none()) else { return };
        let chosen = open.chosen.clone();
        let of_choice = open.choice.as_ref().map(|choice| OomVictim {
            pid: choice.pid,
            name: Name::from_bytes(&choice.name),
            uid: Some(choice.uid),
            ..OomVictim::default()
        });
        if let Some(victim) = of_choice.or(chosen) {
            let mut kill = open.close(self.page_size);
            kill.victim = Some(victim);
            self.push(record, kill);
        } else if open.invoker.is_some() {
            // the report began, but its result is missing
            self.not_understood += 1;
            let source = self.source(record);
            self.first_not_understood.get_or_insert(source);
        }
    }

    /// The columns of the task table being read; empty outside of a table.
    pub(super) fn columns(&self) -> &[&'static str] {
        self.open.as_ref().map_or(&[], |open| &open.columns)
    }

    /// Whether the last record speaks of a kill and was not understood.
    pub(super) fn is_last_unknown(&self) -> bool {
        self.is_last_unknown
    }

    /// Whether a report of the OOM killer, or a line of one, is still incomplete.
    pub(super) fn has_open_report(&self) -> bool {
        self.open.is_some() || self.interrupted.is_some()
    }

    /// Whether a record with this text (escapes included) could be part of a report. Most records
    /// cannot, and this check takes a tenth of the time of decoding and parsing one.
    pub(super) fn can_be_in_report(&self, text: &[u8]) -> bool {
        self.has_open_report() || Self::is_of_interest(text)
    }

    /// Whether a text has words of the first line of a report, or of a line that is a whole report.
    pub(super) fn is_of_interest(text: &[u8]) -> bool {
        static OOM: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("oom"));
        static MEMORY: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("of memory"));
        static KILLED: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("Killed process"));
        static FAILED: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("allocation failure"));
        static DEADLOCKED: LazyLock<Finder<'_>> =
            LazyLock::new(|| Finder::new("deadlocked on memory"));
        [&OOM, &MEMORY, &KILLED, &FAILED, &DEADLOCKED]
            .iter()
            .any(|finder| finder.find(text).is_some())
            || OomLine::may_continue(text)
    }

    /// Whether a text speaks of a kill as the kernel does, so that it counts as not understood if it
    /// is no line of a report.
    pub(super) fn has_words_of_kill(text: &[u8]) -> bool {
        let begins = |begin: &str| text.starts_with(begin.as_bytes());
        let has = |words: &str| line::find(text, words).is_some();
        begins("Out of memory")
            || begins("Memory cgroup out of memory")
            || begins("oom-kill:")
            || has("Killed process ")
            || has(" invoked oom-killer")
    }

    /// Processes a record; returns the parsed line if the record is part of a report.
    pub(super) fn take(&mut self, record: &Record) -> Option<OomLine> {
        self.is_last_unknown = false;
        if !record.head.is_of_kernel() {
            return None;
        }
        if let Some(open) = &mut self.open {
            open.records += 1;
            if open.records > LONGEST_FAILURE {
                self.open.take_if(|open| {
                    open.is_beheaded && !open.has_chosen() && open.columns.is_empty()
                });
                self.close_failure();
            }
        }
        let line = self.parse_line(record).filter(|line| self.add_to_report(record, line));
        let is_begun = self.interrupted.as_ref().is_some_and(|(_, text)| *text == record.text);
        self.is_last_unknown = line.is_none() && !is_begun && Self::has_words_of_kill(&record.text);
        if self.is_last_unknown {
            self.not_understood += 1;
            let source = self.source(record);
            self.first_not_understood.get_or_insert(source);
        }
        line
    }

    /// Processes a record of a text, in which a chosen process whose kill is not in the text counts
    /// as killed.
    ///
    /// False if the record is no part of a report.
    pub(super) fn take_of_text(&mut self, record: &Record) -> bool {
        let line = OomLine::parse(&record.text, self.columns());
        let is_chosen = self.open.as_ref().is_some_and(Open::has_chosen)
            || matches!(line, Some(OomLine::Invoked { .. }));
        let begins = matches!(
            line,
            Some(OomLine::Invoked { .. } | OomLine::Choice(_) | OomLine::Chosen { .. })
        );
        if begins && is_chosen {
            self.close_fragment(record);
        }
        self.take(record).is_some()
    }

    fn parse_line(&mut self, record: &Record) -> Option<OomLine> {
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
    fn add_to_report(&mut self, record: &Record, line: &OomLine) -> bool {
        if self.is_text && !self.is_reversed && self.open.is_none() {
            self.is_reversed = self.is_directly_after_kill(record, line);
        }
        if self.is_reversed && !matches!(line, OomLine::Killed(_)) {
            return true;
        }
        match line {
            OomLine::Invoked { name, gfp_mask, order, oom_score_adj } => {
                let (name, gfp_mask) = (Name::from_bytes(name), Name::from_bytes(gfp_mask));
                let (order, oom_score_adj) = (*order, *oom_score_adj);
                let invoker = Some(OomInvoker { name, gfp_mask, order, oom_score_adj });
                self.close_failure();
                self.open = Some(Open { invoker, ..Open::default() });
                true
            }
            OomLine::AllocationFailed { name, order, gfp_mask } => {
                self.close_failure();
                let failed = AllocationFailure {
                    source: self.source(record),
                    boot_seconds: record.head.micros as f64 / 1e6,
                    stamp: self.stamp.time.clone(),
                    name: Name::from_bytes(name),
                    gfp_mask: Name::from_bytes(gfp_mask),
                    order: *order,
                    ..AllocationFailure::default()
                };
                self.open = Some(Open { failed: Some(Box::new(failed)), ..Open::default() });
                true
            }
            OomLine::Chosen { message, pid, name } => {
                self.close_failure();
                let open = self.open.get_or_insert_with(Open::default);
                let (pid, name) = (*pid, Name::from_bytes(name));
                open.chosen = Some(OomVictim { pid, name, ..OomVictim::default() });
                open.is_of_group = *message == MEMCG_KILLED;
                open.columns.clear();
                true
            }
            OomLine::Panic(why) => {
                self.close_failure();
                let open = self.open.take();
                let without_victim =
                    |last: &&mut OomKill| last.victim.is_none() && last.panic.is_none();
                // the report before this line found no process to kill
                let last = self.kills.back_mut().filter(|_| open.is_none()).filter(without_victim);
                if let Some(last) = last {
                    last.panic = Some(Name::from(*why));
                    return true;
                }
                let mut open = open.unwrap_or_default();
                open.panic = Some(why);
                let kill = open.close(self.page_size);
                self.push(record, kill);
                true
            }
            OomLine::Choice(choice) => {
                self.close_failure();
                self.open.get_or_insert_with(Open::default).choose(choice);
                true
            }
            OomLine::Killed(killed) => {
                self.add_kill(record, killed);
                true
            }
            OomLine::WholeGroup(_) => self.whole_group(),
            OomLine::NoneKillable => self.close_without_victim(record),
            OomLine::Reaped { pid, sizes, .. } => self.add_reaped(*pid, sizes),
            line if self.is_text && self.open.is_none() => {
                let mut open = Open { is_beheaded: true, ..Open::default() };
                let is_part = open.add_line(line, self.page_size);
                self.open = Some(open).filter(|_| is_part);
                is_part
            }
            line => self.open.as_mut().is_some_and(|open| open.add_line(line, self.page_size)),
        }
    }

    /// Whether this line about the choice of a process comes directly after the line about its kill.
    fn is_directly_after_kill(&self, record: &Record, line: &OomLine) -> bool {
        let pid = match line {
            OomLine::Choice(choice) => choice.pid,
            OomLine::Chosen { pid, .. } => *pid,
            _ => return false,
        };
        self.kills.back().is_some_and(|last| {
            let is_next = last
                .source
                .line_number()
                .is_some_and(|line| u64::from(line) + 1 == record.head.sequence);
            is_next && last.victim.as_ref().is_some_and(|victim| victim.pid == pid)
        })
    }

    fn add_kill(&mut self, record: &Record, killed: &Killed) {
        let victim = victim(killed);
        let chosen =
            |open: &Open| open.choice.as_ref().is_none_or(|choice| choice.pid == killed.pid);
        self.close_failure();
        let open = self.open.take().filter(chosen);
        let together = self.kills.back_mut().filter(|last| open.is_none() && last.whole_group);
        if let Some(last) = together {
            let known = last.victim.as_ref().is_some_and(|first| first.pid == victim.pid);
            if !known && last.others.len() < OOM_OTHERS {
                last.others.push(victim);
            }
            return;
        }
        let mut kill = open.map_or_else(
            || kill_without_report(killed),
            |open| {
                let mut open = open.with_name(&killed.name);
                if self.is_text {
                    self.page_size_by_victim = open.find_page_size(killed, self.page_size);
                }
                open.close(self.page_size)
            },
        );
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
    fn close_without_victim(&mut self, record: &Record) -> bool {
        self.close_failure();
        let Some(open) = self.open.take() else { return false };
        let mut kill = open.close(self.page_size);
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

    fn source(&self, record: &Record) -> Source {
        let line = u32::try_from(record.head.sequence).unwrap_or(0);
        Source::line(self.log.as_str(), line)
    }

    /// Closes the report about a failed allocation, if one is open.
    fn close_failure(&mut self) {
        let Some(mut open) = self.open.take_if(|open| open.failed.is_some()) else { return };
        let failed = open.failed.take().map(|failed| *failed).unwrap_or_default();
        let kill = open.close(self.page_size);
        let failed = AllocationFailure { host: kill.host, zones: kill.zones, ..failed };
        self.failures.push_back(failed);
        if self.failures.len() > OOM_KILLS {
            self.failures.pop_front();
            self.failures_left_out += 1;
        }
    }

    fn push(&mut self, record: &Record, kill: OomKill) {
        self.kills.push_back(OomKill {
            source: self.source(record),
            boot_seconds: record.head.micros as f64 / 1e6,
            stamp: self.stamp.time.clone(),
            machine: self.stamp.machine.clone(),
            ..kill
        });
        if self.kills.len() > OOM_KILLS {
            self.kills.pop_front();
            self.left_out += 1;
        }
    }
}

impl Open {
    fn has_chosen(&self) -> bool {
        self.choice.is_some() || self.chosen.is_some()
    }

    /// Adds a line about memory or tasks to the report.
    fn add_line(&mut self, line: &OomLine, page_size: u64) -> bool {
        // the only line after the choice of the victim is the kill
        if self.choice.is_some() || self.chosen.is_some() {
            return false;
        }
        match line {
            OomLine::MemInfo(values) => {
                self.host();
                self.mem_info.clone_from(values);
            }
            OomLine::Pages(of, pages) => {
                self.host();
                let count = match *of {
                    "pages RAM" => &mut self.pages,
                    "pages reserved" => &mut self.reserved,
                    _ => &mut self.high_pages,
                };
                *count = Some(*pages);
            }
            OomLine::TaskIn { victim_group, group } => {
                self.group = Some(group.clone());
                self.victim_group = Some(victim_group.clone());
                self.group_memory();
            }
            OomLine::OldStats { values, .. } => add_old_stats(self.group_memory(), values),
            OomLine::Zone(zone) => self.zones.push(zone_of(zone)),
            OomLine::Reserve(pages) => self.reserves.push(pages.clone()),
            OomLine::Blocks(blocks) => self.add_blocks(blocks),
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

    fn add_blocks(&mut self, of: &Blocks) {
        self.page_size = of.blocks.first().and_then(|(_, kib)| kib.checked_mul(1024));
        let is_it = |zone: &&mut OomZone| {
            zone.node == of.node && zone.name.as_str().as_bytes() == of.name.as_slice()
        };
        if let Some(zone) = self.zones.iter_mut().find(is_it) {
            let blocks = of.blocks.iter().filter_map(|(count, kib)| {
                Some(OomBlocks { size: Bytes::from_kib(*kib)?, count: *count })
            });
            zone.blocks = blocks.collect();
        }
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
        let page_size = self.page_size.unwrap_or(page_size);
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
            total_vm: value("total_vm").map(|_| pages("total_vm")),
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

    /// Finds the size of a page if no zone's blocks show it: the line about the kill has the victim's sizes in KiB,
    /// and the task table has the same sizes in pages. The sizes of the tasks read so far are corrected by it.
    /// `None` if a zone shows the size, or it cannot be found.
    fn find_page_size(&mut self, killed: &Killed, assumed: u64) -> Option<u64> {
        if self.page_size.is_some() {
            return None;
        }
        let task = self.tasks.iter().find(|task| task.pid == killed.pid)?;
        let pages = task.total_vm?.get() / assumed.max(1);
        let bytes = value_of(&killed.sizes, "total-vm")?.checked_mul(1024)?;
        // both are the same counter, read twice
        let is_it = |size: &u64| {
            let by_pages = pages.saturating_mul(*size);
            pages > 0 && by_pages.abs_diff(bytes) <= bytes / 8
        };
        let found = [4 << 10, 16 << 10, 64 << 10].into_iter().find(is_it)?;
        let corrected = |size: &mut Bytes| *size = Bytes::new(size.get() / assumed * found);
        for task in &mut self.tasks {
            corrected(&mut task.rss);
            corrected(&mut task.swapped);
            task.total_vm.iter_mut().for_each(corrected);
        }
        self.page_size = Some(found);
        Some(found)
    }

    fn close(mut self, page_size: u64) -> OomKill {
        let page_size = self.page_size.unwrap_or(page_size);
        let bytes = |pages: u64| Bytes::new(pages.saturating_mul(page_size));
        if let Some(host) = &mut self.host {
            mem_info(host, &self.mem_info, page_size);
            let reserved = self.reserved.unwrap_or(0);
            host.high_memory = self.high_pages.map(bytes);
            host.total = self.pages.map(|pages| bytes(pages.saturating_sub(reserved)));
        }
        for (zone, reserve) in self.zones.iter_mut().zip(&self.reserves) {
            zone.reserve = reserve.iter().map(|pages| bytes(*pages)).collect();
        }
        self.tasks.sort_by_key(|task| std::cmp::Reverse(task.size()));
        let left_out = self.tasks.split_off(self.tasks.len().min(OOM_TASKS));
        let choice = self.choice;
        let constraint = match choice.as_ref().map(|choice| choice.constraint) {
            Some("CONSTRAINT_NONE") => Some(OomConstraint::Host),
            Some("CONSTRAINT_CPUSET") => Some(OomConstraint::Cpuset),
            Some("CONSTRAINT_MEMORY_POLICY") => Some(OomConstraint::Policy),
            Some(_) => Some(OomConstraint::Cgroup),
            None if self.group_memory.is_some() || self.is_of_group => Some(OomConstraint::Cgroup),
            None => self.host.is_some().then_some(OomConstraint::Host),
        };
        let group = choice.as_ref().and_then(|choice| choice.group.clone()).or(self.group);
        OomKill {
            constraint,
            group: group.map(|path| Name::from_bytes(&path)),
            victim_group: choice
                .map(|choice| choice.victim_group)
                .or(self.victim_group)
                .map(|path| Name::from_bytes(&path)),
            panic: self.panic.map(Name::from),
            zones: self.zones,
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

/// What the records of a log contain.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) kills: Vec<OomKill>,
    /// Number of older kills that were dropped.
    pub(super) left_out: u64,
    pub(super) failures: Vec<AllocationFailure>,
    pub(super) failures_left_out: u64,
    pub(super) not_understood: u64,
    pub(super) first_not_understood: Option<Source>,
    /// The size of a page in bytes, if only a victim's sizes show it.
    pub(super) page_size: Option<u64>,
    /// Whether the text has its newest line first, so that only the lines about the kills were used.
    pub(super) is_reversed: bool,
}

/// A report of which only the line about the kill was printed. Its constraint is known only if it
/// was a cgroup's limit.
fn kill_without_report(killed: &Killed) -> OomKill {
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
    host.free_cma = bytes(pages("free_cma"));
}

fn zone_of(zone: &Zone) -> OomZone {
    let size = |of| value_of(&zone.sizes, of).and_then(Bytes::from_kib);
    OomZone {
        node: zone.node,
        name: Name::from_bytes(&zone.name),
        free: size("free"),
        free_cma: size("free_cma"),
        min: size("min"),
        managed: size("managed").or_else(|| size("present")),
        ..OomZone::default()
    }
}

/// Adds the sizes of one cgroup of version 1 without those below it. The kernel prints a line for
/// each cgroup from the one at its limit downwards, so that their sum is the group's memory. Its
/// page cache includes shmem, of which older kernels do not print the size.
fn add_old_stats(group: &mut OomGroup, values: &Values) {
    let size = |of| value_of(values, of).and_then(Bytes::from_kib);
    let add = |to: &mut Option<Bytes>, size: Option<Bytes>| {
        if let Some(size) = size {
            *to = Some(to.unwrap_or_default().saturating_add(size));
        }
    };
    let shmem = size("shmem");
    add(&mut group.anon, size("rss"));
    add(&mut group.file, size("cache").map(|all| all.saturating_sub(shmem.unwrap_or_default())));
    add(&mut group.shmem, shmem);
    add(&mut group.swapped, size("swap"));
    add(&mut group.unevictable, size("unevictable"));
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
