// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads files that consist of lines or one value, and folders with one entry per thing:
//! [`ReadValues`].

use pagewise_model::{Bytes, Choice, Millis, Name, Reading, Source};

use crate::answer::{Refusal, absolute_path};
use crate::read::ReadHost;
use crate::text::{Text, choice, flag, number};

/// Length limit of a file that contains one word, in bytes: the kernel's longest path.
const LONGEST_WORD: usize = 4096;

/// Length limit of a file that contains one value, in bytes: the size limit of an attribute with
/// the largest pages.
const LONGEST_VALUE: usize = 64 << 10;

/// Maximum number of entries of a folder that are examined; equal to the kernel's largest process
/// id.
const MAX_ENTRIES: usize = 1 << 22;

/// Methods that read and parse values, based on [`ReadHost`].
pub trait ReadValues: ReadHost {
    /// The lines of a file, which know their position.
    fn text(&self, path: &str) -> Result<Text, Refusal> {
        self.bytes(path).map(|bytes| Text::new(&absolute_path(path), bytes))
    }

    /// The whole file parsed by `parse`, with surrounding white space removed; `expected` says in
    /// words what should be there, such as `a whole number`.
    fn value<T>(
        &self,
        path: &str,
        expected: &str,
        parse: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Reading<T> {
        let source = Source::file(absolute_path(path));
        match self.bytes(path) {
            Err(refusal) => refusal.reading(source),
            Ok(bytes) if bytes.len() > LONGEST_VALUE => {
                self.report_garbled(source, "at most 64 KiB in a file of one value", b"more")
            }
            Ok(bytes) => match parse(bytes.trim_ascii()) {
                Some(value) => Reading::found(value, source),
                None => self.report_garbled(source, expected, bytes.trim_ascii()),
            },
        }
    }

    /// The value of a file that contains a whole number.
    fn number_at<T: std::str::FromStr>(&self, path: &str) -> Reading<T> {
        self.value(path, "a whole number", number)
    }

    /// The value of a file that contains a size in bytes.
    fn bytes_at(&self, path: &str) -> Reading<Bytes> {
        self.value(path, "a size in bytes", |word| number(word).map(Bytes::new))
    }

    /// The value of a file that contains a time in milliseconds.
    fn millis_at(&self, path: &str) -> Reading<Millis> {
        self.value(path, "milliseconds", |word| number(word).map(Millis::new))
    }

    /// The value of a file that contains 0 or 1, or Y or N.
    fn flag_at(&self, path: &str) -> Reading<bool> {
        self.value(path, "0 or 1, Y or N", flag)
    }

    /// The value of a file that contains several words, the active one in brackets.
    fn choice_at(&self, path: &str) -> Reading<Choice> {
        self.value(path, "words with the active one in brackets", choice)
    }

    /// The value of a file that contains one word.
    fn name_at(&self, path: &str) -> Reading<Name> {
        let is_word = |text: &[u8]| !text.is_empty() && text.len() <= LONGEST_WORD;
        self.value(path, "a word", |text| is_word(text).then(|| Name::from_bytes(text)))
    }

    /// Entries named `prefix` followed by a number, in order of the number; other entries are left
    /// out.
    fn list_numbers(&self, folder: &str, prefix: &str) -> Vec<u32> {
        let names = self.names(folder);
        // the kernel does not create "node01", and node1 would not be found
        let plain = |digits: &str| digits == "0" || !digits.starts_with('0');
        let digits = names.iter().filter_map(|name| name.strip_prefix(prefix));
        let mut numbers: Vec<u32> =
            digits.filter(|d| plain(d)).filter_map(|d| number(d.as_bytes())).collect();
        numbers.sort_unstable();
        numbers.truncate(MAX_ENTRIES);
        numbers
    }
}

impl<H: ReadHost> ReadValues for H {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Entry, HostRoot};

    #[test]
    fn numbered_entries_come_in_order_of_their_number() {
        let host = HostRoot::memory(
            ["node10/x", "node9/x", "node01/x", "nodes/x", "node-1/x"]
                .map(|path| (path.to_owned(), Entry::File(Vec::new()))),
        );
        assert_eq!(host.list_numbers("", "node"), [9, 10]);
    }
}
