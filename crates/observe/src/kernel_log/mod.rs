// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `/dev/kmsg` into [`KernelLog`]: the reports of the OOM killer, and how far back the log
//! goes.
//!
//! Nothing else of the log is kept or recorded: a recording contains the parsed lines of reports,
//! and of the oldest and newest record only their heads. If the log has wrapped, its first sequence
//! number is above 0. Names in it can be chosen by anybody; they are passed on as [`Name`]s. No
//! name can forge another line, because the kernel escapes newlines in records.
//!
//! Programs may write to the log too; the kernel marks their records, which are skipped.
//!
//! Records that were overwritten, and the logs of earlier boots, may be in journald's files:
//! `journal` adds the reports that only those contain.
//!
//! Of a host whose files somebody else collected, the logs among these files are read
//! ([`collected`]).
//!
//! [`Name`]: pagewise_model::Name

mod collected;
mod follow;
mod journal;
mod line;
mod programs;
mod record;
mod report;
#[cfg(test)]
mod tests;
mod text;

use pagewise_model::{HungTask, KernelLog, OomKill, Reading, Source, Taken};

use crate::limits::OOM_KILLS;
use journal::Buffer;
use line::OomLine;
use pagewise_hostfs::{Entry, HostRoot, ReadHost, Refusal};
use record::{Head, Raw, Record, raw_records, records};
use report::Reports;
use text::hung::HungTasks;

pub use collected::read_folder;
pub use follow::KillsSince;
pub use journal::rename as renamed_journal;
pub use line::Rename;
pub use programs::{check_count as check_program_count, check_kills as check_program_kills};
pub use text::{journals_of_folder, read_journals, read_text, unpack_text};

const PATH: &str = "dev/kmsg";
const SHOWN: &str = "/dev/kmsg";

/// What a recording contains in place of a record about a kill that was not understood, which may
/// have any names in it.
const NOT_KNOWN: &[u8] = b"Out of memory: a form that is not known";

/// Maximum size of a recorded excerpt in bytes: about 2,000 reports.
const MOST_KEPT: usize = 4 << 20;

/// Reads the reports in the kernel log and in journald's files. `taken` gives the current time on
/// the clock of the log, and the id of this boot.
pub fn read(host: &HostRoot, taken: &Taken) -> KernelLog {
    let (log, buffer) = read_kmsg(host, taken);
    let log = journal::complete(host, &buffer, taken, log);
    programs::complete(host, log)
}

/// Reads the reports in the kernel's buffer, without those that only journald's files have.
pub(crate) fn read_buffer(host: &HostRoot, taken: &Taken) -> KernelLog {
    read_kmsg(host, taken).0
}

fn read_kmsg(host: &HostRoot, taken: &Taken) -> (KernelLog, Buffer) {
    let page_size = host.facts().page_size.unwrap_or(4096);
    let mut excerpt = Excerpt::new(page_size);
    let answer = host.records(PATH, |raw| excerpt.take(raw));
    let missing = "no /dev/kmsg here (a container, or not in this recording)";
    let answer = answer.map(|()| excerpt.finish());
    // advice on rights does not help if a log was not collected
    let answer = answer.map_err(|refusal| match refusal {
        refusal if refusal.is_missing() => Refusal::Absent(missing.into()),
        refusal => refusal,
    });
    host.remember(PATH, || Entry::from_answer(&answer));
    let source = Source::file(SHOWN);
    let boot = taken.boot_id.value().cloned();
    let mut buffer = Buffer { boot, from: None, page_size };
    let log = match answer {
        Err(refusal) => {
            let collected = if host.is_copy() { collected::read(host) } else { None };
            let unread = KernelLog { records: refusal.reading(source), ..KernelLog::default() };
            collected.map_or(unread, |(log, _)| log)
        }
        Ok(kept) => {
            buffer.from = raw_records(&kept).next().map(|record| record.head.micros);
            parse_excerpt(&kept, source, page_size, taken)
        }
    };
    (log, buffer)
}

/// Merges the kills of the kernel log and those of journald's files in order of time, each report
/// once. Two files of journald may contain the same messages if it was interrupted while moving
/// them to disk.
fn merge(mut log: KernelLog, of_journal: impl IntoIterator<Item = OomKill>) -> KernelLog {
    let is_same = |one: &OomKill, other: &OomKill| {
        let pid = |kill: &OomKill| kill.victim.as_ref().map(|victim| victim.pid);
        // both are the time of the same record, stored in microseconds
        (one.boot_seconds - other.boot_seconds).abs() < 5e-7
            && pid(one) == pid(other)
            && one.earlier_boot == other.earlier_boot
    };
    let mut once: Vec<OomKill> = Vec::new();
    for kill in of_journal {
        if !once.iter().any(|known| is_same(known, &kill)) {
            once.push(kill);
        }
    }
    let has_memory = |kill: &OomKill| kill.host.is_some() || kill.group_memory.is_some();
    let (earlier, now): (Vec<_>, Vec<_>) =
        once.into_iter().partition(|kill| kill.earlier_boot.is_some());
    for kill in now {
        match log.kills.iter_mut().find(|known| is_same(known, &kill)) {
            // the kernel log has overwritten the beginning of this report
            Some(known) if has_memory(&kill) && !has_memory(known) => *known = kill,
            Some(_) => {}
            None => log.kills.push(kill),
        }
    }
    log.kills.sort_by(|one, other| one.boot_seconds.total_cmp(&other.boot_seconds));
    log.kills.splice(0..0, earlier);
    let over = log.kills.len().saturating_sub(OOM_KILLS);
    log.kills.drain(..over);
    KernelLog { left_out: log.left_out + over as u64, ..log }
}

/// Computes the age of a kill of this boot.
fn set_age(kill: &mut OomKill, taken: &Taken) {
    let ago = taken.awake_seconds.map(|now| (now - kill.boot_seconds).max(0.0));
    kill.seconds_ago = ago;
    let known = taken.unix_seconds > 0.0;
    kill.unix_seconds = ago.filter(|_| known).map(|ago| taken.unix_seconds - ago);
}

fn parse_excerpt(kept: &[u8], source: Source, page_size: u64, taken: &Taken) -> KernelLog {
    let mut reports = Reports::new(page_size, SHOWN);
    let mut hung = HungTasks::default();
    let (mut oldest, mut newest) = (None, 0);
    for record in records(kept) {
        oldest.get_or_insert((record.head.sequence, record.head.micros as f64 / 1e6));
        newest = record.head.sequence;
        reports.take(&record);
        if record.head.is_of_kernel() {
            hung.take(&record.text, |task| HungTask {
                source: record_source(&record),
                boot_seconds: record.head.micros as f64 / 1e6,
                ..task
            });
        }
    }
    let Some((first, seconds)) = oldest else {
        let why = "empty: the log holds no record that could be understood";
        return KernelLog { records: Reading::absent(why, source), ..KernelLog::default() };
    };
    let mut found = reports.finish();
    found.kills.iter_mut().for_each(|kill| set_age(kill, taken));
    let count = newest.saturating_sub(first).saturating_add(1);
    let (hung_tasks, hung_tasks_left_out) = hung.finish();
    KernelLog {
        hung_tasks,
        hung_tasks_left_out,
        records: Reading::found(count, source),
        oldest_boot_seconds: Some(seconds),
        wrapped: first > 0,
        kills: found.kills,
        left_out: found.left_out,
        failures: found.failures,
        failures_left_out: found.failures_left_out,
        not_understood: found.not_understood,
        first_not_understood: found.first_not_understood,
        ..KernelLog::default()
    }
}

fn record_source(record: &Record) -> Source {
    Source::line(SHOWN, u32::try_from(record.head.sequence).unwrap_or(u32::MAX))
}

/// The part of the kernel log that pagewise uses and records. The excerpt of an excerpt is the
/// excerpt itself.
struct Excerpt {
    reports: Reports,
    hung: HungTasks,
    kept: Vec<u8>,
    /// Whether the newest record of the kernel log is part of the excerpt.
    has_newest: bool,
    newest: Option<Head>,
}

impl Excerpt {
    fn new(page_size: u64) -> Self {
        Self {
            reports: Reports::new(page_size, SHOWN),
            hung: HungTasks::default(),
            kept: Vec::new(),
            has_newest: false,
            newest: None,
        }
    }

    fn take(&mut self, raw: &[u8]) {
        for record in raw_records(raw) {
            let may_take =
                self.reports.can_be_in_report(record.text) && self.kept.len() < MOST_KEPT;
            let line = if may_take { self.reports.take(&record.read()) } else { None };
            let text = line.map(|line| line.to_text());
            let is_unknown = may_take && self.reports.is_last_unknown();
            let text = text.or_else(|| is_unknown.then(|| NOT_KNOWN.to_vec()));
            let text = text.or_else(|| self.keep_hung(&record));
            // the oldest record is always kept, without its text if that is no part of a report
            let text = text.or_else(|| self.kept.is_empty().then(Vec::new));
            self.has_newest = text.is_some();
            if let Some(text) = text {
                self.kept.extend(record.head.with_text(&text));
            }
            self.newest = Some(record.head);
        }
    }

    /// What is kept of a message about a task that did not run.
    fn keep_hung(&mut self, record: &Raw<'_>) -> Option<Vec<u8>> {
        let may_keep = self.hung.is_in_stack() || HungTasks::is_of_interest(record.text);
        if !may_keep || !record.head.is_of_kernel() || self.kept.len() >= MOST_KEPT {
            return None;
        }
        self.hung.keep(&record.read().text, &mut <[u8]>::to_vec)
    }

    fn finish(mut self) -> Vec<u8> {
        if let Some(newest) = self.newest.filter(|_| !self.has_newest) {
            self.kept.extend(newest.with_text(b""));
        }
        self.kept
    }
}

/// Replaces the names of cgroups, processes and users in an excerpt.
pub fn rename(excerpt: &[u8], to: &mut dyn Rename) -> Vec<u8> {
    let mut reports = Reports::new(4096, SHOWN);
    let mut hung = HungTasks::default();
    let mut renamed = Vec::new();
    for record in records(excerpt) {
        let mut keep = || hung.keep(&record.text, &mut |name| to.program(name));
        let kept = if record.head.is_of_kernel() { keep() } else { None };
        renamed.extend(match kept {
            Some(text) => record.head.with_text(&text),
            None => renamed_record(&mut reports, &record, to),
        });
    }
    renamed
}

fn renamed_record(reports: &mut Reports, record: &Record, to: &mut dyn Rename) -> Vec<u8> {
    let columns = reports.columns().to_vec();
    let line = reports.take(record);
    let is_row = matches!(line, Some(OomLine::Task { .. }));
    let line = line.map(|line| line.rename(to));
    let line = line.map(|line| if is_row { line.replace_user(&columns, to) } else { line });
    let not_known = || if reports.is_last_unknown() { NOT_KNOWN.to_vec() } else { Vec::new() };
    record.head.with_text(&line.map_or_else(not_known, |line| line.to_text()))
}
