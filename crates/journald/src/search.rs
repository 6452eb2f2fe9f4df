// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the kernel messages around each report of the OOM killer in a journal file.
//!
//! A file may contain a million messages, and its index finds only complete fields. Each report
//! contains some lines that are the same in all reports; these are looked up in the index. The
//! messages around them are then read from the entries with `_TRANSPORT=kernel`, a field that only
//! journald can set, for as long as the reader of reports accepts them. If the list of tasks is
//! disabled (`vm.oom_dump_tasks`), the line before the stack trace is looked up instead.

use std::collections::BTreeSet;

use pagewise_model::text::number as parse_number;

use crate::file::{Entries, Field, JournalFile};

/// Lines that each report of the OOM killer contains, in every kernel since 4.20. The second line
/// is there only if the whole machine ran out of memory.
const MARKS: [&[u8]; 2] = [b"MESSAGE=Tasks state (memory values in pages):", b"MESSAGE=Mem-Info:"];
/// The line before each stack trace, as spelled by different architectures.
const TRACES: [&[u8]; 2] = [b"MESSAGE=Call Trace:", b"MESSAGE=Call trace:"];
/// Text in the first line of a report, a few lines before its stack trace.
const BEGIN: &[u8] = b" invoked oom-killer: ";
/// Maximum number of lines from the first line of a report to its stack trace.
const TO_TRACE: u64 = 8;
/// Maximum number of lines from the first line of a report to the lines in [`MARKS`]. Between them
/// are the stack trace, and the memory of each node and zone.
const TO_MARK: u64 = 160;
/// A report may continue for this many lines after a line of [`MARKS`], or after any line that
/// belongs to it.
const AFTER: u64 = 48;
/// Maximum number of lines of each kind in [`MARKS`] that are examined, newest first.
const MOST_MARKS: u64 = 32;

const MESSAGE: &[u8] = b"MESSAGE=";
/// The field with the time at which the kernel logged the message, by the clock of the kernel log.
const LOG_TIME: &[u8] = b"_SOURCE_MONOTONIC_TIMESTAMP=";

/// A message of the kernel as journald stored it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelMessage {
    /// The sequence number that journald gave to the message.
    pub sequence: u64,
    /// The id of the boot in which the kernel logged the message.
    pub boot: [u8; 16],
    /// When the kernel logged the message, in microseconds of the kernel log's clock.
    pub micros: u64,
    /// When the kernel log's clock was 0, in microseconds since 1970.
    pub clock_zero: u64,
    /// The text of the message.
    pub text: Vec<u8>,
}

/// Receives the messages that [`search`] finds.
pub trait Reader {
    /// Whether the reader already knows this message, and therefore all messages after it.
    fn has(&self, message: &KernelMessage) -> bool;
    /// Receives a message. Returns whether the message belonged to a report, or whether a report
    /// continues.
    fn take(&mut self, message: &KernelMessage) -> bool;
    /// Called after the last of several consecutive messages. The next message that is received is
    /// older.
    fn end_stretch(&mut self);
}

/// The messages of the kernel in one journal file.
struct Kernel<'f, 'a> {
    file: &'f mut JournalFile<'a>,
    entries: Entries,
    /// A field that only messages of the kernel itself have. Messages that programs wrote into the
    /// kernel's log lack it.
    own: Field,
}

/// Passes the messages around at most `most` reports to `reader`, newest reports first. Returns the
/// number of reports.
pub fn search(file: &mut JournalFile<'_>, most: usize, reader: &mut dyn Reader) -> usize {
    let (Some(all), Some(own)) = (file.find(b"_TRANSPORT=kernel"), file.find(b"SYSLOG_FACILITY=0"))
    else {
        return 0;
    };
    let entries = file.find_entries(&all);
    let mut kernel = Kernel { file, entries, own };
    let windows = kernel.find_windows(reader);
    let mut later = u64::MAX;
    for &(begin, end) in windows.iter().rev().take(most) {
        kernel.read(begin, end, later, reader);
        reader.end_stretch();
        later = begin;
    }
    windows.len().min(most)
}

/// Passes every message of the kernel to `take`, oldest first. Returns the number of kernel
/// messages that could not be read, because the file is damaged or the budget is used up.
pub fn read_all(file: &mut JournalFile<'_>, mut take: impl FnMut(&KernelMessage)) -> u64 {
    let (all, own) = match [b"_TRANSPORT=kernel".as_slice(), b"SYSLOG_FACILITY=0"]
        .map(|field| file.look_up(field))
    {
        [Some(Some(all)), Some(Some(own))] => (all, own),
        [None, _] => return 1,
        [Some(Some(all)), None] => return all.count.max(1),
        // a journal of a user, or a journal without messages of the kernel itself
        [Some(None), _] | [_, Some(None)] => return 0,
    };
    let entries = file.find_entries(&all);
    // if a chain of arrays ends too early, it has fewer entries than the field states
    let mut missing = all.count.saturating_sub(entries.count);
    let count = entries.count;
    let mut kernel = Kernel { file, entries, own };
    for number in 0..count {
        if kernel.file.is_spent() {
            return missing.saturating_add(count - number);
        }
        match kernel.read_entry(number) {
            Some(message) => message.iter().for_each(&mut take),
            None => missing += 1,
        }
    }
    missing
}

impl Kernel<'_, '_> {
    /// Returns ranges of message numbers that contain reports: the start, and the earliest end.
    /// They are in order and do not overlap.
    fn find_windows(&mut self, reader: &dyn Reader) -> Vec<(u64, u64)> {
        let mut found = BTreeSet::new();
        for mark in MARKS {
            for at in self.find_marked(mark, reader) {
                found.insert((at.saturating_sub(TO_MARK), at.saturating_add(AFTER)));
            }
        }
        for trace in TRACES {
            for at in self.find_marked(trace, reader) {
                let begin = at.saturating_sub(TO_TRACE);
                if (begin..at).any(|number| self.is_first_line_of_report(number)) {
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

    /// Returns the numbers of the newest messages that have this field and that `reader` does not
    /// know.
    fn find_marked(&mut self, field: &[u8], reader: &dyn Reader) -> Vec<u64> {
        let Some(field) = self.file.find(field) else { return Vec::new() };
        let marked = self.file.find_entries(&field);
        let from = marked.count.saturating_sub(MOST_MARKS);
        let mut found = Vec::new();
        for mark in (from..marked.count).rev() {
            let Some(entry) = self.file.entry_at(&marked, mark) else { continue };
            let number = self.file.number_of(&self.entries, entry);
            if self.file.entry_at(&self.entries, number) != Some(entry) {
                continue;
            }
            let Some(message) = self.read_kernel_message(number) else { continue };
            if !reader.has(&message) {
                found.push(number);
            }
        }
        found
    }

    fn is_first_line_of_report(&mut self, number: u64) -> bool {
        let message = self.read_kernel_message(number);
        message.is_some_and(|message| memchr::memmem::find(&message.text, BEGIN).is_some())
    }

    /// Passes the messages from `begin` to `end` to the reader. Continues as long as the reader
    /// says that a report continues, but not beyond `later`.
    fn read(&mut self, begin: u64, mut end: u64, later: u64, reader: &mut dyn Reader) {
        let last = later.min(self.entries.count);
        let mut number = begin;
        while number < end.min(last) {
            if self.read_kernel_message(number).is_some_and(|message| reader.take(&message)) {
                end = end.max(number.saturating_add(AFTER));
            }
            number += 1;
        }
    }

    /// Returns the message of an entry; `None` if a program wrote it or if the file is damaged.
    fn read_kernel_message(&mut self, number: u64) -> Option<KernelMessage> {
        self.read_entry(number)?
    }

    /// Returns the message of an entry: `None` if the file is damaged there, `Some(None)` if a
    /// program wrote the message.
    fn read_entry(&mut self, number: u64) -> Option<Option<KernelMessage>> {
        let entry = self.file.entry_at(&self.entries, number)?;
        let stamp = self.file.read_stamp(entry)?;
        let fields = self.file.read_fields(entry, &stamp)?;
        if !fields.contains(&self.own.offset) {
            return Some(None);
        }
        let (mut text, mut micros) = (None, None);
        // a new field is stored directly before the entry that first uses it
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
        Some(Some(KernelMessage {
            sequence: stamp.sequence,
            boot: stamp.boot,
            micros: micros.unwrap_or(stamp.monotonic),
            clock_zero: stamp.realtime.saturating_sub(stamp.monotonic),
            text: text?,
        }))
    }
}
