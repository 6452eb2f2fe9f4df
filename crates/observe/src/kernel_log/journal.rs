// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Turns the OOM killer reports in journald's files into an excerpt in the format of the kernel
//! log, and that into [`OomKill`]s.
//!
//! A recording stores the excerpt at a path that no machine has. Its first line describes the
//! search. The messages are in sections of consecutive messages; each section begins with a line
//! about its boot, and its records have the format of `/dev/kmsg`, so the parsers of the kernel log
//! read them too.
//!
//! The clock of the kernel log starts at each boot. A kill of the current boot is dated like those
//! in the kernel log, a kill of an earlier boot by the wall clock time that journald stored.
//! Because that clock may have been wrong, such a kill is taken to be at least as old as the
//! current boot.
//!
//! [`OomKill`]: pagewise_model::OomKill

use std::collections::VecDeque;

use pagewise_model::{KernelLog, Name, OomKill, Reading, Source, Taken};

use pagewise_hostfs::text::{lines, number, words};
use pagewise_hostfs::{Entry, HostRoot, NO_SUCH_FILE, ReadHost, Refusal, absolute_path};
use pagewise_journald::{KernelMessage, Reader};

use super::line::Rename;
use super::record::{Head, Record, records};
use super::report::{Found, Reports};
use super::{renamed_record, set_age};
use crate::journald::{self, FOLDERS, Searched};
use crate::limits::OOM_KILLS;

/// The path of the excerpt in a recording.
const PATH: &str = "journal/kernel";
/// The path of journald's files shown in evidence, together with journald's own number of the
/// entry.
const SHOWN: &str = "/var/log/journal";
/// Maximum size of the journal's excerpt in bytes.
const MOST_KEPT: usize = 4 << 20;
/// Longest time that a report takes, in microseconds: if the kernel log has overwritten the
/// beginning of a report but still has its end, the beginning is at most this much older.
const LONGEST_REPORT: u64 = 10_000_000;

/// The facts about the kernel log of this boot that the search in journald's files needs.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    /// The id of this boot.
    pub(super) boot: Option<Name>,
    /// Time of the oldest record in the kernel log's buffer, in microseconds.
    pub(super) from: Option<u64>,
    pub(super) page_size: u64,
}

/// Adds to `log` the reports that only journald's files contain.
pub(super) fn complete(
    host: &HostRoot,
    buffer: &Buffer,
    taken: &Taken,
    log: KernelLog,
) -> KernelLog {
    let source = Source::file(absolute_path(FOLDERS[0].0));
    let answer = excerpt(host, buffer);
    host.remember(PATH, || Entry::from_answer(&answer));
    let journal = kind(host);
    let kept = match answer {
        Err(refusal) => {
            let refusal = refusal.explain(NO_SUCH_FILE, "no files of journald here");
            return KernelLog { journal, journal_files: refusal.reading(source), ..log };
        }
        Ok(kept) => kept,
    };
    let (searched, kills) = parse_excerpt(&kept, buffer.page_size, taken);
    let known = searched.since > 0;
    let log = KernelLog {
        journal,
        journal_files: Reading::found(searched.files, source),
        journal_files_left_out: searched.left_out,
        journal_unix_seconds: known.then_some(searched.since as f64 / 1e6),
        left_out: log.left_out + kills.left_out,
        ..log
    };
    super::merge(log, kills.newest)
}

/// Whether journald's files survive a reboot (`persistent`) or not (`volatile`).
fn kind(host: &HostRoot) -> Reading<Name> {
    let found = FOLDERS.iter().find(|(path, _)| host.exists(path));
    match found {
        Some((path, kind)) => Reading::found(Name::from(*kind), Source::file(absolute_path(path))),
        None => {
            Reading::absent("no folder of journald here", Source::file(absolute_path(FOLDERS[0].0)))
        }
    }
}

fn excerpt(host: &HostRoot, buffer: &Buffer) -> Result<Vec<u8>, Refusal> {
    if !host.is_live() {
        match host.bytes(PATH) {
            Err(refusal) if refusal.is_missing() => {}
            answer => return answer,
        }
    }
    let mut excerpt = Excerpt::new(buffer);
    let searched = journald::search(host, &mut excerpt)?;
    let mut kept = print_searched(&searched);
    excerpt.sections.iter().rev().for_each(|section| kept.extend(section));
    Ok(kept)
}

/// Collects the messages of the journal that an excerpt keeps.
struct Excerpt<'a> {
    buffer: &'a Buffer,
    reports: Reports,
    /// Finished sections of the excerpt, newest first.
    sections: Vec<Vec<u8>>,
    /// The consecutive messages being read, oldest first.
    stretch: Vec<(Section, Vec<u8>)>,
    size: usize,
}

impl<'a> Excerpt<'a> {
    fn new(buffer: &'a Buffer) -> Self {
        let reports = Reports::new(buffer.page_size, SHOWN);
        Self { buffer, reports, sections: Vec::new(), stretch: Vec::new(), size: 0 }
    }
}

impl Reader for Excerpt<'_> {
    /// Whether the kernel log certainly contains the whole report of this message. It has all
    /// messages from its oldest record on, but the start of the first report may be overwritten.
    fn has(&self, message: &KernelMessage) -> bool {
        let boot = self.buffer.boot.as_ref().map(Name::as_str);
        let from =
            self.buffer.from.filter(|_| boot == Some(Section::from_message(message).boot.as_str()));
        from.is_some_and(|from| message.micros >= from.saturating_add(LONGEST_REPORT))
    }

    fn take(&mut self, message: &KernelMessage) -> bool {
        let section = Section::from_message(message);
        if self.stretch.last().is_none_or(|(last, _)| last.boot != section.boot) {
            self.reports = Reports::new(self.buffer.page_size, SHOWN);
            self.stretch.push((section, Vec::new()));
        }
        let record = record(message);
        let line = self.reports.take(&record);
        let is_taken = line.is_some();
        let records = self.stretch.last_mut().filter(|_| self.size < MOST_KEPT);
        if let Some((line, (_, records))) = line.zip(records) {
            let printed = record.head.with_text(&line.to_text());
            self.size += printed.len();
            records.extend(printed);
        }
        is_taken || self.reports.has_open_report()
    }

    fn end_stretch(&mut self) {
        let sections = std::mem::take(&mut self.stretch).into_iter().rev();
        let with_records = sections.filter(|(_, records)| !records.is_empty());
        self.sections
            .extend(with_records.map(|(section, records)| [section.print(), records].concat()));
    }
}

/// A message of the journal in the form of a kernel log record. journald does not store the flag
/// that a record continues another one; in OOM reports such records begin with a comma.
fn record(message: &KernelMessage) -> Record {
    let text = message.text.clone();
    let head = Head::of_kernel(message.sequence, message.micros);
    Record { head, continues: text.starts_with(b","), caller: Vec::new(), text }
}

/// Formats the line about the search: `journal files=2 left_out=0 since=1764000000000000`.
fn print_searched(searched: &Searched) -> Vec<u8> {
    let Searched { files, left_out, since } = searched;
    format!("journal files={files} left_out={left_out} since={since}\n").into_bytes()
}

fn parse_searched(line: &[u8]) -> Option<Searched> {
    let mut parts = words(line.strip_prefix(b"journal ")?);
    let files = value(&mut parts, b"files=")?;
    let left_out = value(&mut parts, b"left_out=")?;
    Some(Searched { files, left_out, since: value(&mut parts, b"since=")? })
}

fn value<'a>(parts: &mut impl Iterator<Item = &'a [u8]>, name: &[u8]) -> Option<u64> {
    number(parts.next()?.strip_prefix(name)?)
}

/// What the records of a section have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Section {
    boot: String,
    /// Wall clock time at which the clock of the kernel log was 0, in microseconds since 1970.
    clock_zero: u64,
}

impl Section {
    fn from_message(message: &KernelMessage) -> Self {
        let id = format!("{:032x}", u128::from_be_bytes(message.boot));
        let parts = [&id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]];
        Self { boot: parts.join("-"), clock_zero: message.clock_zero }
    }

    /// Formats the first line of a section: `boot=6d0e5b3c-… clock_zero=1764000000000000`.
    fn print(&self) -> Vec<u8> {
        format!("boot={} clock_zero={}\n", self.boot, self.clock_zero).into_bytes()
    }

    fn parse(line: &[u8]) -> Option<Self> {
        let mut parts = words(line);
        let boot = parts.next()?.strip_prefix(b"boot=")?;
        let is_id = |byte: &u8| byte.is_ascii_hexdigit() || *byte == b'-';
        let boot = std::str::from_utf8(boot).ok().filter(|_| boot.iter().all(is_id))?;
        let boot = Some(boot.to_owned()).filter(|boot| (1..=36).contains(&boot.len()))?;
        Some(Self { boot, clock_zero: value(&mut parts, b"clock_zero=")? })
    }
}

/// The newest OOM kills, oldest first, and the number of older ones that were dropped.
#[derive(Debug, Default, PartialEq)]
struct Kills {
    newest: VecDeque<OomKill>,
    left_out: u64,
}

impl Kills {
    fn extend(&mut self, section: &Section, reports: Reports, taken: &Taken) {
        let (kills, left_out) = add_dates(section, reports, taken);
        self.left_out += left_out;
        self.newest.extend(kills);
        while self.newest.len() > OOM_KILLS {
            self.newest.pop_front();
            self.left_out += 1;
        }
    }
}

fn parse_excerpt(kept: &[u8], page_size: u64, taken: &Taken) -> (Searched, Kills) {
    let mut searched = Searched::default();
    let mut kills = Kills::default();
    let mut open: Option<(Section, Reports)> = None;
    for line in lines(kept) {
        if let Some(section) = Section::parse(line) {
            if let Some((before, reports)) = open.replace((section, Reports::new(page_size, SHOWN)))
            {
                kills.extend(&before, reports, taken);
            }
        } else if let Some((_, reports)) = &mut open {
            records(line).for_each(|record| drop(reports.take(&record)));
        } else if let Some(found) = parse_searched(line) {
            searched = found;
        }
    }
    if let Some((section, reports)) = open {
        kills.extend(&section, reports, taken);
    }
    (searched, kills)
}

/// The OOM kills of a section, with the times at which they happened.
fn add_dates(section: &Section, reports: Reports, taken: &Taken) -> (Vec<OomKill>, u64) {
    let Found { mut kills, left_out, .. } = reports.finish();
    let is_now = taken.boot_id.value().is_some_and(|boot| boot.as_str() == section.boot);
    for kill in &mut kills {
        if is_now {
            set_age(kill, taken);
        } else {
            date_earlier_kill(kill, section, taken);
        }
    }
    (kills, left_out)
}

fn date_earlier_kill(kill: &mut OomKill, section: &Section, taken: &Taken) {
    let unix = section.clock_zero as f64 / 1e6 + kill.boot_seconds;
    let since_boot = taken.awake_seconds.unwrap_or(0.0);
    kill.earlier_boot = Some(Name::from(section.boot.as_str()));
    kill.unix_seconds = Some(unix).filter(|_| section.clock_zero > 0);
    let ago = kill.unix_seconds.filter(|_| taken.unix_seconds > 0.0);
    kill.seconds_ago = ago.map(|unix| (taken.unix_seconds - unix).max(since_boot));
}

/// Replaces names and boot ids in an excerpt.
pub fn rename(excerpt: &[u8], to: &mut dyn Rename) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut reports = Reports::new(4096, SHOWN);
    for line in lines(excerpt) {
        if let Some(searched) = parse_searched(line) {
            kept.extend(print_searched(&searched));
        } else if let Some(section) = Section::parse(line) {
            reports = Reports::new(4096, SHOWN);
            kept.extend(Section { boot: to.boot(section.boot.as_bytes()), ..section }.print());
        } else {
            records(line).for_each(|record| kept.extend(renamed_record(&mut reports, &record, to)));
        }
    }
    kept
}
