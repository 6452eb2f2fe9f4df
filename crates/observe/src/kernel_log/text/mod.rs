// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Turns a text with messages of the kernel, from any machine and program, into [`KernelLog`]: what
//! `dmesg`, a syslog, `journalctl`, a container or a serial console printed, whole or in parts.
//!
//! [`prefix`] removes what stands before each message, `entry` reads the forms that spread one
//! message over several lines. A message that has no prefix in a text that has some continues the
//! one before it, because the kernel prints `Mem-Info` and `memory.stat` in messages of several
//! lines. The messages then go through the parser of the kernel log.
//!
//! A text is read line by line and not kept, so its size does not matter. A text proves nothing:
//! anybody can write one. Messages that a syslog ascribes to a program are not used.

mod entry;
pub(super) mod hung;
mod journals;
pub(super) mod killers;
mod packed;
mod prefix;
pub(super) mod program_messages;

use std::collections::BTreeMap;
use std::io::{BufRead, Read};

use memchr::memmem;
use pagewise_model::{Bytes, HungTask, KernelLog, LogText, Name, OomKill, Reading, Source};

use super::record::{Head, Record, unescape};
use super::report::{Reports, Stamp};
use entry::{Entry, EntryReader};
use hung::HungTasks;
pub use journals::{journals_of_folder, read_journals};
use killers::{Killers, Place};
pub use packed::unpack_text;
use prefix::{Kind, Peeled, remove_prefixes};

/// Maximum number of bytes that are used of a line. The longest message of the kernel has 1 KiB, but a text of
/// statistics may have its lines joined.
const LONGEST_LINE: u64 = 256 << 10;
/// Maximum number of bytes that are read of a text: more than any log rotation keeps, and a limit for a packed text
/// that unpacks to much more than its size.
const LONGEST_TEXT: u64 = 4 << 30;
/// Maximum number of machines in a text that are distinguished.
const MACHINES: usize = 256;

/// The kernel's messages in a text, and what the text is.
///
/// # Errors
///
/// If reading fails, also because a packed text is damaged.
pub fn read_text(text: impl BufRead, shown: &str) -> std::io::Result<(KernelLog, LogText)> {
    let mut front = Front::new(shown);
    let mut text = text.take(LONGEST_TEXT);
    let mut line = Vec::new();
    loop {
        match read_line(&mut text, &mut line) {
            Ok(true) => {
                front.lines += 1;
                front.take_line(strip_marks(&mut line));
            }
            Ok(false) => break,
            Err(error) if error.kind() == packed::TOO_MUCH => {
                // the part of a line that was read before the budget was exceeded
                if !line.is_empty() {
                    front.lines += 1;
                    front.take_line(strip_marks(&mut line));
                }
                return Ok(front.finish(true));
            }
            Err(error) => return Err(error),
        }
    }
    let is_cut = text.limit() == 0;
    Ok(front.finish(is_cut))
}

/// Reads a line without its end; false at the end of the text.
fn read_line(text: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<bool> {
    line.clear();
    let read = text.by_ref().take(LONGEST_LINE).read_until(b'\n', line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
    } else if read as u64 == LONGEST_LINE {
        skip_line(text)?;
    }
    Ok(read > 0)
}

/// The line without a byte order mark and without NUL bytes. Of a text in UTF-16 this leaves the ASCII characters,
/// and the kernel's messages need no others.
fn strip_marks(line: &mut Vec<u8>) -> &[u8] {
    // a value of `journalctl -o export` begins with a length in eight bytes
    let zeros = memchr::memchr_iter(0, line).count();
    if zeros * 3 >= line.len() && zeros > 0 {
        line.retain(|byte| *byte != 0);
        if line.last() == Some(&b'\r') {
            line.pop();
        }
    }
    const MARKS: [&[u8]; 3] = [&[0xef, 0xbb, 0xbf], &[0xff, 0xfe], &[0xfe, 0xff]];
    let mark = MARKS.iter().find(|mark| line.starts_with(mark));
    &line[mark.map_or(0, |mark| mark.len())..]
}

fn skip_line(text: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let piece = text.fill_buf()?;
        if piece.is_empty() {
            return Ok(());
        }
        let end = memchr::memchr(b'\n', piece);
        let size = end.map_or(piece.len(), |at| at + 1);
        text.consume(size);
        if end.is_some() {
            return Ok(());
        }
    }
}

/// A message whose last line may not have been read.
#[derive(Debug)]
struct Pending {
    machine: Vec<u8>,
    is_kernel: Option<bool>,
    has_prefix: bool,
    /// Whether the message is a value of an entry, so that only the entry says where the message ends.
    is_entry: bool,
    /// Length of the message's last line with all prefixes.
    length: usize,
    stamp: Stamp,
    record: Record,
}

/// The messages of one machine.
#[derive(Debug)]
struct Machine {
    reports: Reports,
    micros: u64,
}

#[derive(Debug)]
struct Front {
    shown: String,
    lines: u64,
    entries: EntryReader,
    pending: Option<Pending>,
    machines: BTreeMap<Vec<u8>, Machine>,
    kinds: Vec<&'static str>,
    kernels: Vec<Name>,
    boots: u64,
    by_programs: u64,
    by_kernel: u64,
    killers: Killers,
    hung: HungTasks,
    signs: u64,
    first_sign: Option<Source>,
    /// Wall clock of the last message that has one, for a message that has none.
    last_stamp: Option<Name>,
}

impl Front {
    fn new(shown: &str) -> Self {
        Self {
            shown: shown.to_owned(),
            lines: 0,
            entries: EntryReader::default(),
            pending: None,
            machines: BTreeMap::new(),
            kinds: Vec::new(),
            kernels: Vec::new(),
            boots: 1,
            by_programs: 0,
            by_kernel: 0,
            killers: Killers::default(),
            hung: HungTasks::default(),
            signs: 0,
            first_sign: None,
            last_stamp: None,
        }
    }

    fn take_line(&mut self, raw: &[u8]) {
        match self.entries.take(raw) {
            Entry::No => self.take_message(&remove_markup(raw), raw.len(), None),
            Entry::Part => {}
            Entry::Message(kind, messages) => self.take_entry(kind, &messages),
        }
    }

    fn take_entry(&mut self, kind: &'static str, messages: &[entry::Message]) {
        self.name_kind(kind);
        for message in messages {
            let text = remove_markup(&message.text);
            self.take_message(&text, usize::MAX, Some(&message.about));
        }
    }

    fn name_kind(&mut self, kind: &'static str) {
        if !self.kinds.contains(&kind) {
            self.kinds.push(kind);
        }
    }

    /// Whether a message may be a part of a report, or continues a message that may be.
    fn can_belong_to_report(&self, text: &[u8]) -> bool {
        let goes_on = self.pending.is_some()
            || self.hung.is_in_stack()
            || self.machines.values().any(|machine| machine.reports.has_open_report());
        goes_on || is_of_interest(text)
    }

    fn take_message(&mut self, raw: &[u8], length: usize, about: Option<&entry::About>) {
        if !self.can_belong_to_report(raw) {
            return;
        }
        let peeled = remove_prefixes(raw);
        let is_prefixed = about.is_some() || peeled.kinds.iter().any(|kind| *kind != Kind::Quote);
        let continues = self.pending.as_ref().is_some_and(|pending| {
            let same = peeled.machine.is_none_or(|machine| machine == pending.machine);
            let unprefixed = pending.has_prefix && !pending.is_entry && !is_prefixed;
            unprefixed || (same && is_continuation(&peeled, pending))
        });
        if let Some(pending) = self.pending.as_mut().filter(|_| continues) {
            pending.extend(peeled.text, length);
            return;
        }
        self.flush();
        if !self.can_belong_to_report(peeled.text) && !is_of_interest(raw) {
            return;
        }
        for kind in &peeled.kinds {
            self.name_kind(kind.name());
        }
        self.pending = Some(self.set_pending(&peeled, is_prefixed, length, about));
    }

    fn set_pending(
        &self,
        peeled: &Peeled<'_>,
        has_prefix: bool,
        length: usize,
        about: Option<&entry::About>,
    ) -> Pending {
        let is_entry = about.is_some();
        let about = about.cloned().unwrap_or_default();
        let micros = peeled.micros.or(about.micros).unwrap_or(0);
        let time = peeled.time.map(Name::from_bytes).or(about.time);
        let machine = peeled.machine.map(<[u8]>::to_vec).or(about.machine).unwrap_or_default();
        let is_kmsg = peeled.kinds.contains(&Kind::Kmsg);
        Pending {
            is_kernel: peeled.is_kernel.or(about.is_kernel),
            has_prefix,
            is_entry,
            length,
            stamp: Stamp {
                time,
                machine: Some(Name::from_bytes(&machine)).filter(|_| !machine.is_empty()),
            },
            machine,
            record: Record {
                head: Head::of_kernel(self.lines, micros),
                continues: false,
                caller: peeled.caller.to_vec(),
                text: if is_kmsg { unescape(peeled.text) } else { peeled.text.to_vec() },
            },
        }
    }

    /// Passes the pending message to the parser of the kernel log.
    fn flush(&mut self) {
        let Some(pending) = self.pending.take() else { return };
        let text = pending.record.text.as_slice();
        let place = self.place_of(&pending);
        if pending.is_kernel != Some(true) && self.killers.take(text, &place) {
            return;
        }
        if is_sign(text) {
            if pending.is_kernel != Some(true) {
                self.killers.take_unit(text, &place);
            }
            self.count_sign(&pending.record);
            return;
        }
        if pending.is_kernel == Some(false) {
            self.by_programs += u64::from(Reports::has_words_of_kill(text));
            return;
        }
        self.by_kernel += u64::from(pending.is_kernel == Some(true));
        self.name_kernel(text);
        let line = u32::try_from(pending.record.head.sequence).unwrap_or(0);
        self.hung.take(text, |task| HungTask {
            source: Source::line(self.shown.as_str(), line),
            boot_seconds: pending.record.head.micros as f64 / 1e6,
            stamp: pending.stamp.time.clone(),
            ..task
        });
        if pending.stamp.time.is_some() {
            self.last_stamp.clone_from(&pending.stamp.time);
        }
        let is_known = self.machines.contains_key(&pending.machine);
        if !is_known && self.machines.len() >= MACHINES {
            return;
        }
        let shown = self.shown.as_str();
        let micros = pending.record.head.micros;
        let machine = self
            .machines
            .entry(pending.machine)
            .or_insert_with(|| Machine { reports: Reports::of_text(4096, shown), micros });
        let starts = text.starts_with(b"Linux version ") && is_known;
        // messages of several processors may be a little out of order
        if starts || micros.saturating_add(1_000_000) < machine.micros && micros > 0 {
            machine.reports.close_fragment(&pending.record);
            self.boots += 1;
            machine.micros = micros;
        }
        machine.micros = machine.micros.max(micros);
        machine.reports.stamp = pending.stamp;
        let is_used = machine.reports.take_of_text(&pending.record);
        if !is_used && is_end_of_report(&pending.record.text) {
            self.count_sign(&pending.record);
        }
    }

    fn count_sign(&mut self, record: &Record) {
        self.signs += 1;
        let line = u32::try_from(record.head.sequence).unwrap_or(0);
        self.first_sign.get_or_insert_with(|| Source::line(self.shown.as_str(), line));
    }

    fn place_of(&self, pending: &Pending) -> Place {
        let line = u32::try_from(pending.record.head.sequence).unwrap_or(0);
        Place {
            source: Source::line(self.shown.as_str(), line),
            stamp: pending.stamp.time.clone(),
            machine: pending.stamp.machine.clone(),
            unix_seconds: None,
        }
    }

    /// Keeps the kernel's release, from its first message or from the head of a report.
    fn name_kernel(&mut self, text: &[u8]) {
        const KEPT: usize = 8;
        let release = match text.strip_prefix(b"Linux version ") {
            Some(rest) => rest.split(|&byte| byte == b' ').next(),
            None if text.starts_with(b"CPU: ") => memmem::find(text, b" #")
                .and_then(|at| text[..at].rsplit(|&byte| byte == b' ').next()),
            None => None,
        };
        let Some(release) = release.filter(|release| release.contains(&b'.')) else { return };
        let release = Name::from_bytes(release);
        if !self.kernels.contains(&release) && self.kernels.len() < KEPT {
            self.kernels.push(release);
        }
    }

    fn finish(mut self, is_cut: bool) -> (KernelLog, LogText) {
        if let Entry::Message(kind, messages) = self.entries.end() {
            self.take_entry(kind, &messages);
        }
        self.flush();
        let source = Source::file(self.shown.as_str());
        let (hung_tasks, hung_tasks_left_out) = self.hung.finish();
        let (user_kills, unit_kills) = self.killers.finish();
        let mut log = KernelLog {
            records: Reading::found(self.lines, source.clone()),
            program_messages: Reading::found(self.lines, source),
            user_kills,
            unit_kills,
            hung_tasks,
            hung_tasks_left_out,
            ..KernelLog::default()
        };
        let machines = self.machines.keys().filter(|name| !name.is_empty());
        let machines: Vec<Name> = machines.map(|name| Name::from_bytes(name)).collect();
        let last = Record {
            head: Head::of_kernel(self.lines, 0),
            continues: false,
            caller: Vec::new(),
            text: Vec::new(),
        };
        let mut by_victim = None;
        let mut is_reversed = false;
        for mut machine in self.machines.into_values() {
            let head = Head::of_kernel(self.lines, machine.micros);
            machine.reports.close_fragment(&Record { head, ..last.clone() });
            let found = machine.reports.finish();
            log.kills.extend(found.kills);
            log.left_out += found.left_out;
            log.failures.extend(found.failures);
            log.failures_left_out += found.failures_left_out;
            log.not_understood += found.not_understood;
            by_victim = by_victim.or(found.page_size);
            is_reversed |= found.is_reversed;
            let first = [log.first_not_understood.take(), found.first_not_understood];
            log.first_not_understood = first.into_iter().flatten().min_by_key(Source::line_number);
        }
        log.kills.sort_by_key(|kill| kill.source.line_number());
        log.failures.sort_by_key(|failure| failure.source.line_number());
        let text = LogText {
            lines: self.lines,
            is_cut,
            is_reversed,
            files_unread: 0,
            messages_unread: 0,
            forms: self.kinds.iter().map(|kind| Name::from(*kind)).collect(),
            machines,
            kernels: self.kernels,
            boots: self.boots,
            names_kernel: self.by_kernel > 0,
            by_programs: self.by_programs,
            signs: self.signs,
            first_sign: self.first_sign,
            page_size: page_size(&log).or(by_victim.map(Bytes::new)),
        };
        (log, text)
    }
}

impl Pending {
    /// Adds a line that continues this message. A line that a terminal has wrapped at its width is continued
    /// without a space, because it may be broken inside of a word; a line that a mail program has wrapped is
    /// continued with a space; a line of statistics stays a line.
    fn extend(&mut self, text: &[u8], length: usize) {
        const WIDTH: usize = 80;
        const LONGEST: usize = 64 << 10;
        let is_wrapped = self.length == WIDTH;
        self.length = length;
        if self.record.text.len() + text.len() > LONGEST {
            return;
        }
        let own_line = text.first().is_some_and(u8::is_ascii_whitespace) || is_values(text);
        if own_line {
            self.record.text.push(b'\n');
            self.record.text.extend(text.trim_ascii_start());
        } else {
            if !is_wrapped {
                self.record.text.push(b' ');
            }
            self.record.text.extend(text);
        }
    }
}

/// Phrases of programs, and of Android's kernels, about a kill that the kernel's own report describes elsewhere.
const SIGNS: [&str; 10] = [
    "killed by the OOM killer",
    "Failed with result 'oom-kill'",
    "System OOM encountered",
    "TaskOOM",
    "OOMKilled",
    "OOMKilling",
    "container oom",
    "lowmemorykiller: Kill",
    "simple_lmk: Kill",
    "lmkd: Kill",
];

fn is_sign(text: &[u8]) -> bool {
    SIGNS.iter().any(|sign| memmem::find(text, sign.as_bytes()).is_some())
}

/// Whether a text is a line that the kernel writes after a kill.
fn is_end_of_report(text: &[u8]) -> bool {
    text.starts_with(b"oom_reaper: reaped process ")
        || memmem::find(text, b" are going to be killed due to memory.oom.group").is_some()
}

/// Whether a text has a word of a message about a kill, or begins a boot.
fn is_of_interest(text: &[u8]) -> bool {
    Reports::is_of_interest(text)
        || memmem::find(text, b"active_anon:").is_some()
        || memmem::find(text, b"memory: usage ").is_some()
        || HungTasks::is_of_interest(text)
        || memmem::find(text, b"Linux version ").is_some()
        || memmem::find(text, b"Eviction manager").is_some()
        || memmem::find(text, b"OOM").is_some()
        || memmem::find(text, b" to the victim").is_some()
        || memmem::find(text, b", EUID: ").is_some()
        || is_sign(text)
        || is_end_of_report(text)
}

/// Whether a message with a prefix of its own continues the one before it: each of its lines got a
/// prefix.
fn is_continuation(peeled: &Peeled<'_>, pending: &Pending) -> bool {
    let begins = |begin: &[u8]| pending.record.text.starts_with(begin);
    let is_indented = peeled.text.first().is_some_and(u8::is_ascii_whitespace);
    begins(b"active_anon:")
        && (is_indented || is_values(peeled.text))
        && has_only_names(peeled.text)
}

/// Whether a text is `NAME:VALUE …` or `NAME VALUE` alone, as in `Mem-Info` and `memory.stat`.
fn is_values(text: &[u8]) -> bool {
    let mut words = text.split(|&byte| byte == b' ').filter(|word| !word.is_empty());
    let (Some(first), second) = (words.next(), words.next()) else { return false };
    let is_name = |name: &[u8]| {
        !name.is_empty()
            && name.iter().all(|byte| byte.is_ascii_lowercase() || b"_()".contains(byte))
    };
    let is_number = |word: &[u8]| !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    match memchr::memchr(b':', first) {
        Some(at) => is_name(&first[..at]) && is_number(&first[at + 1..]),
        None => is_name(first) && second.is_some_and(is_number) && words.next().is_none(),
    }
}

fn has_only_names(text: &[u8]) -> bool {
    text.trim_ascii()
        .split(|&byte| byte == b' ')
        .all(|word| word.contains(&b':') || word.is_empty())
}

/// The line without escape sequences for colours, and with the characters that a web page writes as entities.
fn remove_markup(raw: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = memchr::memchr2(0x1b, b'&', rest) {
        text.extend_from_slice(&rest[..at]);
        let special = &rest[at..];
        let (plain, size) =
            if special[0] == 0x1b { replace_escape(special) } else { replace_entity(special) };
        text.extend_from_slice(plain);
        rest = &special[size..];
    }
    text.extend_from_slice(rest);
    text
}

/// The replacement of an escape sequence, which is empty, and the length of the sequence.
fn replace_escape(text: &[u8]) -> (&[u8], usize) {
    const LONGEST: usize = 16;
    if text.get(1) != Some(&b'[') {
        return (b"", 1);
    }
    let end = text.iter().skip(2).take(LONGEST).position(|byte| (0x40..0x7f).contains(byte));
    (b"", end.map_or(1, |at| at + 3))
}

fn replace_entity(text: &[u8]) -> (&[u8], usize) {
    const KNOWN: [(&[u8], &[u8]); 6] = [
        (b"&gt;", b">"),
        (b"&lt;", b"<"),
        (b"&amp;", b"&"),
        (b"&quot;", b"\""),
        (b"&#39;", b"'"),
        (b"&nbsp;", b" "),
    ];
    let known = KNOWN.iter().find(|(entity, _)| text.starts_with(entity));
    known.map_or((&text[..1], 1), |(entity, plain)| (*plain, entity.len()))
}

/// The size of a page: the smallest free block that a report prints.
fn page_size(log: &KernelLog) -> Option<Bytes> {
    let of_kills = log.kills.iter().flat_map(|kill: &OomKill| &kill.zones);
    let of_failures = log.failures.iter().flat_map(|failure| &failure.zones);
    let mut blocks = of_kills.chain(of_failures).filter_map(|zone| zone.blocks.first());
    blocks.next().map(|block| block.size)
}

#[cfg(test)]
mod tests;
