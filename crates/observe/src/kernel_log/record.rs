// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses `/dev/kmsg` into [`Record`]s, and writes them again.
//!
//! A record is `priority,sequence,microseconds,flags[,…];text` and a newline; following lines that
//! begin with a space are its dictionary and are skipped. The kernel writes control characters,
//! bytes above 126 and the backslash as `\xNN`, so a newline inside a text never ends a record.

use pagewise_hostfs::text::{lines, number};

/// The fields before the text of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    /// Level and facility of the record: below 8 for the kernel's own messages.
    priority: u32,
    /// Sequence number of the record, counted since boot.
    pub(super) sequence: u64,
    /// Time of the record on the clock of the log, in microseconds.
    pub(super) micros: u64,
}

/// One record of the kernel log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) head: Head,
    /// Whether the record continues a message of the same task that another message interrupted.
    pub(super) continues: bool,
    /// The task or CPU that wrote the record, if the kernel was built with `CONFIG_PRINTK_CALLER`.
    pub(super) caller: Vec<u8>,
    /// The text of the record, with escapes decoded.
    pub(super) text: Vec<u8>,
}

/// A record whose text is not decoded yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Raw<'a> {
    pub(super) head: Head,
    flags: &'a [u8],
    /// The text of the record, with escapes as the kernel prints them.
    pub(super) text: &'a [u8],
}

impl Head {
    /// The head of a kernel message that was stored in another log.
    pub(super) fn of_kernel(sequence: u64, micros: u64) -> Self {
        Self { priority: 4, sequence, micros }
    }

    /// Prints a record of the kernel log with this head and the given text.
    pub(super) fn with_text(self, text: &[u8]) -> Vec<u8> {
        let Self { priority, sequence, micros } = self;
        let mut line = format!("{priority},{sequence},{micros},-;").into_bytes();
        escape(text, &mut line);
        line.push(b'\n');
        line
    }

    /// Whether the kernel itself wrote the record: records of programs have another facility.
    pub(super) fn is_of_kernel(self) -> bool {
        self.priority < 8
    }
}

impl<'a> Raw<'a> {
    /// Parses the start of a record; `None` for a dictionary line and for text that is not a
    /// record.
    fn parse(line: &'a [u8]) -> Option<Self> {
        let end = memchr::memchr(b';', line).filter(|_| line.first() != Some(&b' '))?;
        let (head, text) = (&line[..end], &line[end + 1..]);
        let mut fields = head.splitn(4, |&byte| byte == b',');
        let (priority, sequence, micros) =
            (number(fields.next()?)?, number(fields.next()?)?, number(fields.next()?)?);
        Some(Self { head: Head { priority, sequence, micros }, flags: fields.next()?, text })
    }

    /// Decodes the text of the record.
    pub(super) fn read(self) -> Record {
        let mut fields = self.flags.split(|&byte| byte == b',');
        let continues = fields.next().is_some_and(|flags| flags.contains(&b'c'));
        let caller = fields.find_map(|field| field.strip_prefix(b"caller="));
        let caller = caller.unwrap_or_default().to_vec();
        Record { head: self.head, continues, caller, text: unescape(self.text) }
    }
}

/// All records in a piece of the log; other lines are skipped.
pub(super) fn records(raw: &[u8]) -> impl Iterator<Item = Record> {
    raw_records(raw).map(Raw::read)
}

/// The records of a log, without decoding their texts.
pub(super) fn raw_records(raw: &[u8]) -> impl Iterator<Item = Raw<'_>> {
    lines(raw).filter_map(Raw::parse)
}

fn escape(text: &[u8], line: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b' '..=b'~' if byte != b'\\' => line.push(byte),
            _ => line.extend(format!("\\x{byte:02x}").bytes()),
        }
    }
}

pub(super) fn unescape(mut text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    while let Some(at) = memchr::memchr(b'\\', text) {
        plain.extend_from_slice(&text[..at]);
        let byte = text.get(at + 1..at + 4).and_then(hexadecimal);
        plain.push(byte.unwrap_or(b'\\'));
        text = &text[at + if byte.is_some() { 4 } else { 1 }..];
    }
    plain.extend_from_slice(text);
    plain
}

/// Parses an escaped byte: `xNN` in hexadecimal.
fn hexadecimal(digits: &[u8]) -> Option<u8> {
    let digits = digits.strip_prefix(b"x").filter(|two| two.iter().all(u8::is_ascii_hexdigit))?;
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn only(raw: &str) -> Record {
        let all: Vec<Record> = records(raw.as_bytes()).collect();
        assert_eq!(all.len(), 1, "{all:?}");
        all.into_iter().next().unwrap()
    }

    #[test]
    fn a_record_has_a_head_and_a_text_and_a_dictionary_is_skipped() {
        let record =
            only("30,339,5140900,c,caller=T1;a;b\\x0ac\\x5c\n SUBSYSTEM=x\n DEVICE=+y;z\n");
        assert_eq!(
            (record.head.sequence, record.head.micros, record.continues),
            (339, 5_140_900, true)
        );
        assert_eq!(record.text, b"a;b\nc\\");
        assert_eq!(record.caller, b"T1");
        assert!(!record.head.is_of_kernel());
        assert!(only("7,0,0,-;x\n").head.is_of_kernel());
    }

    #[test]
    fn what_is_no_record_is_skipped() {
        for bad in ["", ";", "1,2,3;x", "a,1,2,-;x", "1,2,-3,-;x", " 1,2,3,-;x", "1,2,3,-"] {
            assert_eq!(records(bad.as_bytes()).count(), 0, "{bad}");
        }
    }

    proptest! {
        /// A written record is a single line and is parsed back unchanged, whatever its text.
        #[test]
        fn a_written_record_reads_back(text in prop::collection::vec(any::<u8>(), 0..80)) {
            let record = only("4,1,2,-;x");
            let line = record.head.with_text(&text);
            prop_assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1);
            let read: Vec<Record> = records(&line).collect();
            prop_assert_eq!(read, vec![Record { text, ..record }]);
        }

        #[test]
        fn garbage_never_panics(raw in prop::collection::vec(any::<u8>(), 0..200)) {
            records(&raw).for_each(drop);
        }
    }
}
