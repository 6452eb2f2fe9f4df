// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A journal file → the kernel messages around each report of the OOM killer.
//!
//! A file may hold a million messages, and the index finds only whole fields. Every report contains lines
//! that are the same in all reports, so these are looked up. The messages around them are then read
//! from the entries that have `_TRANSPORT=kernel`, which only journald itself can give a message, for as long
//! as the reader of reports takes them. Where the table of tasks is switched off (`vm.oom_dump_tasks`), the
//! stack trace leads to the report.

use std::collections::BTreeSet;

use pagewise_model::text::number as parse_number;

use crate::file::{Entries, Field, JournalFile};

/// Lines of each report, of every kernel since 4.20; the second of those for the whole machine.
const MARKS: [&[u8]; 2] = [b"MESSAGE=Tasks state (memory values in pages):", b"MESSAGE=Mem-Info:"];
/// The line before each stack trace, as architectures spell it.
const TRACES: [&[u8]; 2] = [b"MESSAGE=Call Trace:", b"MESSAGE=Call trace:"];
/// What a report begins with, a few lines before its stack trace.
const BEGIN: &[u8] = b" invoked oom-killer: ";
/// Lines between that and the trace.
const TO_TRACE: u64 = 8;
/// Lines between it and the other marks: the trace, and memory by node and zone.
const TO_MARK: u64 = 160;
/// Lines after a mark, or after what was part of a report, in which more of it may come.
const AFTER: u64 = 48;
/// The newest marks of each kind that are looked at.
const MOST_MARKS: u64 = 32;

const MESSAGE: &[u8] = b"MESSAGE=";
/// The time of the kernel's own record, on the clock of the kernel log.
const LOG_TIME: &[u8] = b"_SOURCE_MONOTONIC_TIMESTAMP=";

/// A message of the kernel as journald stored it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelMessage {
    /// Journald's own count of all entries.
    pub sequence: u64,
    /// The boot's id.
    pub boot: [u8; 16],
    /// On the clock of the kernel log.
    pub micros: u64,
    /// What time it was when that clock was 0, in microseconds since 1970.
    pub clock_zero: u64,
    /// What the kernel wrote.
    pub text: Vec<u8>,
}

/// Who reads the messages.
pub trait Reader {
    /// Whether it has this message already, and all that follow it.
    fn has(&self, message: &KernelMessage) -> bool;
    /// Takes a message; whether it was part of a report, or a report goes on.
    fn take(&mut self, message: &KernelMessage) -> bool;
    /// A stretch of messages that follow each other has ended; the next one is older.
    fn end_stretch(&mut self);
}

/// The kernel's messages in one file.
struct Kernel<'f, 'a> {
    file: &'f mut JournalFile<'a>,
    entries: Entries,
    /// The field that tells messages of the kernel itself from those that programs wrote into its log.
    own: Field,
}

/// Gives `reader` the messages around at most `most` reports, the newest first; how many there were.
pub fn search(file: &mut JournalFile<'_>, most: usize, reader: &mut dyn Reader) -> usize {
    let (Some(all), Some(own)) = (file.find(b"_TRANSPORT=kernel"), file.find(b"SYSLOG_FACILITY=0"))
    else {
        return 0;
    };
    let entries = file.entries(&all);
    let mut kernel = Kernel { file, entries, own };
    let windows = kernel.windows(reader);
    let mut later = u64::MAX;
    for &(begin, end) in windows.iter().rev().take(most) {
        kernel.read(begin, end, later, reader);
        reader.end_stretch();
        later = begin;
    }
    windows.len().min(most)
}

impl Kernel<'_, '_> {
    /// Where reports are, as numbers of messages: from, and at least to. In order, without overlap.
    fn windows(&mut self, reader: &dyn Reader) -> Vec<(u64, u64)> {
        let mut found = BTreeSet::new();
        for mark in MARKS {
            for at in self.marked(mark, reader) {
                found.insert((at.saturating_sub(TO_MARK), at.saturating_add(AFTER)));
            }
        }
        for trace in TRACES {
            for at in self.marked(trace, reader) {
                let begin = at.saturating_sub(TO_TRACE);
                if (begin..at).any(|number| self.begins_report(number)) {
                    found.insert((begin, at.saturating_add(AFTER)));
                }
            }
        }
        let mut windows: Vec<(u64, u64)> = Vec::new();
        for (begin, end) in found {
            match windows.last_mut().filter(|(_, before)| begin <= *before) {
                Some((_, before)) => *before = end.max(*before),
                None => windows.push((begin, end)),
            }
        }
        windows
    }

    /// The newest messages that are this field, of those that the reader does not have.
    fn marked(&mut self, field: &[u8], reader: &dyn Reader) -> Vec<u64> {
        let Some(field) = self.file.find(field) else { return Vec::new() };
        let marked = self.file.entries(&field);
        let from = marked.count.saturating_sub(MOST_MARKS);
        let mut found = Vec::new();
        for mark in (from..marked.count).rev() {
            let Some(entry) = self.file.entry_at(&marked, mark) else { continue };
            let number = self.file.number_of(&self.entries, entry);
            if self.file.entry_at(&self.entries, number) != Some(entry) {
                continue;
            }
            let Some(message) = self.message(number) else { continue };
            if !reader.has(&message) {
                found.push(number);
            }
        }
        found
    }

    fn begins_report(&mut self, number: u64) -> bool {
        let message = self.message(number);
        message.is_some_and(|message| memchr::memmem::find(&message.text, BEGIN).is_some())
    }

    /// Reads from `begin` to `end`, and further while a report goes on, but not to `later`.
    fn read(&mut self, begin: u64, mut end: u64, later: u64, reader: &mut dyn Reader) {
        let last = later.min(self.entries.count);
        let mut number = begin;
        while number < end.min(last) {
            if self.message(number).is_some_and(|message| reader.take(&message)) {
                end = end.max(number.saturating_add(AFTER));
            }
            number += 1;
        }
    }

    /// `None` for what a program wrote, or where the file is damaged.
    fn message(&mut self, number: u64) -> Option<KernelMessage> {
        let entry = self.file.entry_at(&self.entries, number)?;
        let stamp = self.file.stamp(entry)?;
        let fields = self.file.fields(entry, &stamp)?;
        if !fields.contains(&self.own.offset) {
            return None;
        }
        let (mut text, mut micros) = (None, None);
        // what is new with an entry lies right before it
        for &field in fields.iter().rev() {
            match self.file.value_of(field, &[MESSAGE, LOG_TIME]) {
                Some((0, value)) => text = Some(value),
                Some((_, value)) => micros = parse_number(&value),
                None => {}
            }
            if text.is_some() && micros.is_some() {
                break;
            }
        }
        Some(KernelMessage {
            sequence: stamp.sequence,
            boot: stamp.boot,
            micros: micros.unwrap_or(stamp.monotonic),
            clock_zero: stamp.realtime.saturating_sub(stamp.monotonic),
            text: text?,
        })
    }
}
