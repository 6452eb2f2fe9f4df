// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines that know their position in a file, and parsers for the kernel's formats of values.

pub use pagewise_model::text::{flag, kib, lines, number, words};
use pagewise_model::{Bytes, Choice, Name, PartRead, Reading, Source};

use crate::read::ReadHost;
use crate::root::HostRoot;

/// The lines of a file.
#[derive(Debug)]
pub struct Text {
    source: Source,
    bytes: Vec<u8>,
}

/// One line of a file, without its end.
#[derive(Debug, Clone)]
pub struct Line<'a> {
    file: &'a Source,
    number: u32,
    /// The contents of the line.
    pub bytes: &'a [u8],
}

impl Text {
    /// The contents of the file at `path`, which is named as in Readings.
    pub fn new(path: &str, bytes: Vec<u8>) -> Self {
        Self { source: Source::file(path), bytes }
    }

    /// All lines of the file that are not empty, with their real line numbers.
    pub fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        let numbered = (1u32..).zip(lines(&self.bytes));
        numbered.filter(|(_, bytes)| !bytes.trim_ascii().is_empty()).map(|(number, bytes)| Line {
            file: &self.source,
            number,
            bytes,
        })
    }

    /// The first `most` lines of the file that are not empty: a hostile recording could contain
    /// millions of lines, each of which would become a Reading. If there are more, a Problem says
    /// how many.
    pub fn first_lines(&self, host: &HostRoot, most: usize) -> impl Iterator<Item = Line<'_>> {
        let breaks = memchr::memchr_iter(b'\n', &self.bytes).count();
        let excess = if breaks < most { None } else { self.lines().nth(most) };
        if let Some(line) = excess {
            let found = self.lines().count() as u64;
            host.beyond_limit(&line.source(), "lines", found, most as u64, PartRead::First);
        }
        self.lines().take(most)
    }

    /// The file as the source of a Reading.
    pub fn source(&self) -> Source {
        self.source.clone()
    }
}

impl<'a> Line<'a> {
    /// The file and the number of this line, as the source of a Reading.
    pub fn source(&self) -> Source {
        self.file.at_line(self.number)
    }

    /// The number of this line in its file; the first is 1.
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// A part of this line, with its number.
    #[must_use]
    pub const fn part(&self, bytes: &'a [u8]) -> Self {
        Self { file: self.file, number: self.number, bytes }
    }

    /// The words of the line, split at white space.
    pub fn words(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        words(self.bytes)
    }

    /// The parts of the line before and after the first `separator`, both trimmed.
    pub fn split_once(&self, separator: u8) -> Option<(&'a [u8], &'a [u8])> {
        let at = memchr::memchr(separator, self.bytes)?;
        Some((self.bytes[..at].trim_ascii(), self.bytes[at + 1..].trim_ascii()))
    }

    /// A Reading with the parsed value of this line; if it is `None`, a Problem says what was
    /// `expected`.
    pub fn reading<T>(&self, host: &HostRoot, expected: &str, value: Option<T>) -> Reading<T> {
        match value {
            Some(value) => Reading::found(value, self.source()),
            None => host.report_garbled(self.source(), expected, self.bytes),
        }
    }

    /// The value that was parsed from this line, if no Reading is needed; if it is `None`, a
    /// Problem says what was `expected`.
    pub fn check_parsed<T>(&self, host: &HostRoot, expected: &str, value: Option<T>) -> Option<T> {
        if value.is_none() {
            host.problem(&self.source(), expected, self.bytes);
        }
        value
    }

    /// Splits a line of the form `Name: value`, as in most files, into name and value.
    pub fn split_name(&self, host: &HostRoot) -> Option<(&'a [u8], &'a [u8])> {
        self.check_parsed(host, "a name and a colon", self.split_once(b':'))
    }

    /// Parses `rest`, a part of this line, as a size such as `12 kB`.
    pub fn size(&self, host: &HostRoot, rest: &[u8]) -> Reading<Bytes> {
        self.reading(host, "a size in kB", kib(rest))
    }
}

/// Reason for an absence: the file was read, but has no line for this field.
pub const NO_LINE: &str = "this kernel prints no such line";

/// Splits `hierarchy:controllers:path`, a line of `/proc/PID/cgroup`. The path may contain more
/// colons.
pub fn split_three(line: &[u8]) -> Option<[&[u8]; 3]> {
    let mut parts = line.splitn(3, |&byte| byte == b':');
    Some([parts.next()?, parts.next()?, parts.next()?])
}

/// Rewrites a file that also contains private information, for a recording: each line as `keep`
/// returns it, or an empty line if nothing of it may be stored, so that line numbers stay right.
pub fn rewrite_lines(raw: &[u8], mut keep: impl FnMut(&[u8]) -> Option<Vec<u8>>) -> Vec<u8> {
    let mut kept = Vec::new();
    for (at, line) in raw.split(|&byte| byte == b'\n').enumerate() {
        if at > 0 {
            kept.push(b'\n');
        }
        kept.extend(keep(line).unwrap_or_default());
    }
    kept
}

/// Rewrites a file as [`rewrite_lines`] does; each line is either kept unchanged or emptied.
pub fn keep_lines(raw: &[u8], keep: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    rewrite_lines(raw, |line| keep(line).then(|| line.to_vec()))
}

/// Decodes a path as the kernel prints it in `/proc/swaps` and mountinfo, with white space and
/// backslashes as octal numbers. Of a word that is longer than any path, only the beginning is
/// decoded: to convert all of it to text would take several times the size of the file.
pub fn unescape(word: &[u8]) -> Vec<u8> {
    let mut word = &word[..word.len().min(Name::LONGEST)];
    let mut plain = Vec::with_capacity(word.len());
    while let Some((&first, rest)) = word.split_first() {
        let escape = rest.get(..3).filter(|_| first == b'\\').and_then(octal);
        plain.push(escape.unwrap_or(first));
        word = if escape.is_some() { &rest[3..] } else { rest };
    }
    plain
}

/// Decodes a process's name as `/proc/PID/status` prints it, with a line break as `\n` and a
/// backslash as `\\`.
pub fn unescape_name(raw: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((&byte, after)) = rest.split_first() {
        let (plain, after) = match (byte, after.split_first()) {
            (b'\\', Some((b'n', after))) => (b'\n', after),
            (b'\\', Some((b'\\', after))) => (b'\\', after),
            _ => (byte, after),
        };
        name.push(plain);
        rest = after;
    }
    name
}

fn octal(digits: &[u8]) -> Option<u8> {
    let plain = digits.iter().all(u8::is_ascii_digit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| plain)?;
    u8::from_str_radix(digits, 8).ok()
}

/// Parses the value of a file that offers a choice, such as `always [madvise] never`. A single
/// word without brackets is the active one.
pub fn choice(bytes: &[u8]) -> Option<Choice> {
    let inner = |word: &[u8]| {
        word.strip_prefix(b"[").and_then(|w| w.strip_suffix(b"]")).map(<[u8]>::to_vec)
    };
    let all: Vec<&[u8]> = words(bytes).collect();
    let active = match all.as_slice() {
        [only] => inner(only).unwrap_or_else(|| only.to_vec()),
        several => several.iter().find_map(|word| inner(word))?,
    };
    let available =
        all.iter().map(|word| Name::from_bytes(&inner(word).unwrap_or_else(|| word.to_vec())));
    Some(Choice { active: Name::from_bytes(&active), available: available.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Entry;
    use crate::values::ReadValues;

    fn host<'a, B: AsRef<[u8]>>(files: impl IntoIterator<Item = (&'a str, B)>) -> HostRoot {
        let file =
            |(path, bytes): (&str, B)| (path.to_owned(), Entry::File(bytes.as_ref().to_vec()));
        HostRoot::memory(files.into_iter().map(file))
    }

    #[test]
    fn the_choice_is_the_word_in_brackets() {
        let thp = choice(b"always [madvise] never").unwrap();
        assert_eq!(thp.active.as_str(), "madvise");
        assert_eq!(thp.available.len(), 3);
        assert_eq!(choice(b"always madvise never"), None);
        assert_eq!(choice(b"[lz4]").unwrap().active.as_str(), "lz4");
    }

    #[test]
    fn lines_beyond_the_most_are_left_out_and_said() {
        let host = host([("f", "a\n\nb\nc\n")]);
        let text = host.text("f").unwrap();
        assert_eq!(text.first_lines(&host, 2).count(), 2);
        let problem = host.take_problems().remove(0).to_string();
        assert_eq!(problem, "/f:4: 3 lines: only the first 2 were read");
        assert_eq!(text.first_lines(&host, 3).count(), 3);
        assert!(host.take_problems().is_empty());
    }

    #[test]
    fn octal_escapes_become_the_bytes_they_stand_for() {
        assert_eq!(unescape(br"/swap\040file\134x"), b"/swap file\\x");
        assert_eq!(unescape(br"/a\9zz\0"), br"/a\9zz\0");
        assert_eq!(unescape(br"\777\+12"), br"\777\+12");
        assert_eq!(unescape(&vec![0xff; 7 << 20]).len(), Name::LONGEST);
    }

    #[test]
    fn a_name_is_what_its_process_called_itself() {
        assert_eq!(unescape_name(br"two\nlines\\"), b"two\nlines\\");
        assert_eq!(unescape_name(br"odd\t\"), br"odd\t\");
    }

    #[test]
    fn a_line_of_which_nothing_stays_is_empty_and_keeps_its_place() {
        let kept = |raw: &[u8]| keep_lines(raw, |line| line.starts_with(b"a"));
        assert_eq!(kept(b"x\na 1\n\na 2"), b"\na 1\n\na 2");
        assert_eq!(kept(b"a\nx\n"), b"a\n\n");
        assert_eq!(kept(b""), b"");
    }

    #[test]
    fn lines_keep_their_true_numbers() {
        let text = Text::new("/proc/x", b"a 1\n\nb 2\n".to_vec());
        let shown: Vec<String> = text.lines().map(|line| line.source().to_string()).collect();
        assert_eq!(shown, ["/proc/x:1", "/proc/x:3"]);
    }
}
