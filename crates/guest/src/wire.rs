// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The messages between the runner and PID 1.
//!
//! The job is one JSON file in the initramfs. Events are frames on the second serial port: one line
//! each, `KIND LENGTH PAYLOAD` (see [`Event::encode`]). Output, files and messages of the job are
//! sent as they are, except that newline, carriage return and backslash are escaped. A frame is a
//! line of text because other bytes may come between frames: the job can write to that port, too,
//! and `console=ttyS1` makes the kernel write to it. After such bytes the runner finds the next
//! frame by the next newline. The length reveals a frame that contains foreign bytes, or lacks
//! bytes.
//!
//! The runner ignores a line that is not an [`Event`] or is longer than any event; it also limits
//! the length of texts in events and the number of troubles. Output of the job is not limited: it
//! is passed on as it arrives and not stored.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};

use serde::{Deserialize, Serialize};

/// Path of the job in the initramfs.
pub const JOB: &str = "job.json";
/// Folder in the guest: files that a job leaves there are sent to the runner.
pub const OUT: &str = "/out";
/// The environment variable by which PID 1 recognises a guest of Pagewise: the kernel passes it on
/// from its command line.
pub const MARK: &str = "PAGEWISE_GUEST";
/// The environment variable with the number of the boot of the root disk, counted from 0.
pub const BOOT: &str = "PAGEWISE_BOOT";
/// A line of output with which the job requests a power loss, if the runner allows it.
pub const LOSE_POWER: &str = "lose-power";
/// The folder of the initramfs whose files go to `/lib/modules/RELEASE` on the root disk.
pub const DISK_MODULES: &str = "disk-modules";
/// Maximum number of bytes of a file or of output in one event.
pub const CHUNK: usize = 24 * 1024;

/// The task that PID 1 of a guest receives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The whole environment of the program.
    pub environment: BTreeMap<String, String>,
    /// Modules to load before the job, in this order: file names below `/modules`.
    pub modules: Vec<String>,
    /// Number of disks that must exist before the job starts.
    #[serde(default)]
    pub disks: usize,
    /// Whether to wait before the job until the CPUs are idle.
    #[serde(default)]
    pub quiet: bool,
    /// Device of the disk with a system whose systemd takes over as PID 1; `None`: PID 1 runs the
    /// job itself.
    #[serde(default)]
    pub root: Option<String>,
    /// Files to copy to the root disk, with their modes.
    #[serde(default)]
    pub files: Vec<(String, u32)>,
    /// Which boot of the root disk this is, counted from 0; `None` if the disk is not kept after
    /// the guest.
    #[serde(default)]
    pub boot: Option<u32>,
    /// Files to remove from the root disk before its first boot.
    #[serde(default)]
    pub removed: Vec<String>,
    /// Time limit in seconds for systemd on the root disk to start; after it the job runs anyway.
    #[serde(default)]
    pub settle_seconds: u64,
}

/// A message from PID 1 to the runner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// PID 1 has started.
    Up {
        /// Release of the guest's kernel.
        release: String,
    },
    /// Something failed, and PID 1 continued without it.
    Trouble {
        /// What failed, with the error.
        what: String,
    },
    /// The kernel repaired the file system of the root disk when it was mounted.
    Repaired {
        /// The kernel's message about the repair.
        line: String,
    },
    /// The job has started.
    Started,
    /// The job wrote to its output.
    #[serde(skip)]
    Output {
        /// Standard output or standard error.
        stream: Stream,
        /// What the job wrote.
        bytes: Vec<u8>,
    },
    /// The program of the job sent a message to the program that started the guest.
    #[serde(skip)]
    Message(Vec<u8>),
    /// The job's own process ended.
    Ended {
        /// Exit status of the job's process, or the signal that ended it.
        how: JobExit,
        /// Number of processes that the job left behind and that were killed.
        left: u64,
        /// Number of OOM kills in the guest while the job ran.
        oom_kills: u64,
        /// Increase of the virtual CPU's time stamp counter while the job ran; `None` on other
        /// architectures than x86-64.
        ticks: Option<u64>,
        /// Idle time of all CPUs while the job ran, in milliseconds.
        idle_milliseconds: u64,
        /// Elapsed time in the guest, in milliseconds.
        milliseconds: u64,
    },
    /// A piece of a file that the job left.
    #[serde(skip)]
    File {
        /// Path of the file below [`OUT`].
        path: String,
        /// Contents of this piece.
        bytes: Vec<u8>,
    },
    /// The last message of a guest: nothing follows.
    Done,
}

/// A standard stream of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output of the job.
    Out,
    /// Standard error of the job.
    Err,
}

/// How the job's process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobExit {
    /// The process exited with this status.
    Exited(i32),
    /// A signal with this number ended the process.
    Signalled(i32),
    /// The process could not be started, for this reason.
    NotStarted(String),
}

/// The first byte of a frame: what its payload is.
mod kind {
    /// Kind of a frame: JSON of an event that has no bytes of the job.
    pub(super) const EVENT: u8 = b'e';
    /// Kind of a frame: standard output of the job.
    pub(super) const OUT: u8 = b'o';
    /// Kind of a frame: standard error of the job.
    pub(super) const ERR: u8 = b'r';
    /// A file's path, a zero byte, and a piece of the file.
    pub(super) const FILE: u8 = b'f';
    /// Kind of a frame: a message of the job.
    pub(super) const MESSAGE: u8 = b'm';
}

/// Maximum length in bytes of a line with a frame: a chunk of which every byte is escaped, and a
/// name.
pub(crate) const LONGEST_LINE: usize = 64 << 10;
/// Maximum length in bytes of a message of the job. The files of evidence have the same limit for
/// the line of a run.
pub const LONGEST_MESSAGE: usize = 256 << 10;
/// Maximum length in bytes of a line with a frame that holds a message.
const LONGEST_MESSAGE_LINE: usize = 2 * LONGEST_MESSAGE + 64;
/// Maximum length in bytes of a text in an event; names of files are not longer.
const LONGEST_TEXT: usize = 4096;
/// Maximum number of messages about failures that are kept of one guest.
const TROUBLES: usize = 256;

impl Event {
    /// Encodes the event as a frame, with its newline.
    ///
    /// ```
    /// use pagewise_guest::wire::{Event, Stream};
    /// let output = Event::Output { stream: Stream::Out, bytes: b"a\\b\n".to_vec() };
    /// assert_eq!(output.encode(), b"o4 a\\\\b\\n\n");
    /// assert_eq!(Event::Done.encode(), b"e16 {\"event\":\"done\"}\n");
    /// ```
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Output { stream: Stream::Out, bytes } => encode_frame(kind::OUT, &[bytes]),
            Self::Output { stream: Stream::Err, bytes } => encode_frame(kind::ERR, &[bytes]),
            Self::Message(bytes) => encode_frame(kind::MESSAGE, &[bytes]),
            Self::File { path, bytes } => {
                encode_frame(kind::FILE, &[path.as_bytes(), b"\0", bytes])
            }
            // numbers and texts can always be written as JSON
            event => encode_frame(kind::EVENT, &[&serde_json::to_vec(event).unwrap_or_default()]),
        }
    }

    /// Parses a line as a frame, and truncates the texts in it; `None` if it is not an event. The
    /// line may end in a carriage return, which a terminal adds that is not in raw mode.
    #[must_use]
    pub fn decode(line: &[u8]) -> Option<Self> {
        let (kind, bytes) = decode_frame(line)?;
        match kind {
            kind::OUT => Some(Self::Output { stream: Stream::Out, bytes }),
            kind::ERR => Some(Self::Output { stream: Stream::Err, bytes }),
            kind::MESSAGE => Some(Self::Message(bytes)),
            kind::FILE => decode_file(bytes),
            kind::EVENT => decode_json(&bytes),
            _ => None,
        }
    }
}

fn decode_file(mut payload: Vec<u8>) -> Option<Event> {
    let end = payload.iter().position(|byte| *byte == 0)?;
    let bytes = payload.split_off(end + 1);
    payload.truncate(end);
    let path = String::from_utf8(payload).ok()?;
    // A truncated name could be that of another file.
    (path.len() <= LONGEST_TEXT).then_some(Event::File { path, bytes })
}

fn decode_json(json: &[u8]) -> Option<Event> {
    let mut event = serde_json::from_slice(json).ok()?;
    match &mut event {
        Event::Up { release } => truncate(release),
        Event::Trouble { what } | Event::Repaired { line: what } => truncate(what),
        Event::Ended { how: JobExit::NotStarted(why), .. } => truncate(why),
        _ => {}
    }
    Some(event)
}

fn encode_frame(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut line = Vec::with_capacity(length + length / 8 + 16);
    line.push(kind);
    line.extend_from_slice(length.to_string().as_bytes());
    line.push(b' ');
    for byte in parts.iter().copied().flatten() {
        match byte {
            b'\n' => line.extend(br"\n"),
            b'\r' => line.extend(br"\r"),
            b'\\' => line.extend(br"\\"),
            other => line.push(*other),
        }
    }
    line.push(b'\n');
    line
}

/// The kind and the payload of a frame; `None` if the payload does not have the length that the
/// frame announces.
fn decode_frame(line: &[u8]) -> Option<(u8, Vec<u8>)> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let (kind, rest) = line.strip_suffix(b"\r").unwrap_or(line).split_first()?;
    let space = rest.iter().position(|byte| *byte == b' ')?;
    let length: usize = std::str::from_utf8(&rest[..space]).ok()?.parse().ok()?;
    let escaped = &rest[space + 1..];
    // checked before anything is allocated: escaping only adds bytes
    if length > escaped.len() {
        return None;
    }
    let mut bytes = Vec::with_capacity(length);
    let mut left = escaped.iter();
    while let Some(byte) = left.next() {
        bytes.push(match byte {
            b'\\' => match left.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b'\\' => b'\\',
                _ => return None,
            },
            other => *other,
        });
    }
    (bytes.len() == length).then_some((*kind, bytes))
}

fn truncate(text: &mut String) {
    if text.len() > LONGEST_TEXT {
        let end = (0..=LONGEST_TEXT).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
}

/// Adds a message about a failure. Beyond the limit, one message says that further messages are
/// left out.
pub(crate) fn add_trouble(troubles: &mut Vec<String>, what: String) {
    match troubles.len() {
        0..TROUBLES => troubles.push(what),
        TROUBLES => troubles.push(format!("more than {TROUBLES} troubles; the rest is left out")),
        _ => {}
    }
}

/// Reads the next line, with its newline, that is not longer than a frame of its kind; longer lines
/// are skipped. `None` at the end of the stream.
pub(crate) fn read_line(from: &mut impl BufRead) -> std::io::Result<Option<Vec<u8>>> {
    loop {
        let longest = match from.fill_buf()?.first() {
            None => return Ok(None),
            Some(&kind::MESSAGE) => LONGEST_MESSAGE_LINE,
            Some(_) => LONGEST_LINE,
        };
        let mut line = Vec::new();
        from.by_ref().take(longest as u64).read_until(b'\n', &mut line)?;
        if line.len() < longest || line.ends_with(b"\n") {
            return Ok(Some(line));
        }
        skip_line(from)?;
    }
}

fn skip_line(from: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let bytes = from.fill_buf()?;
        let (length, end) = (bytes.len(), bytes.iter().position(|byte| *byte == b'\n'));
        from.consume(end.map_or(length, |at| at + 1));
        if end.is_some() || length == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn events_survive_the_line() {
        let ended = Event::Ended {
            how: JobExit::Signalled(9),
            left: 2,
            oom_kills: 1,
            ticks: Some(u64::MAX),
            idle_milliseconds: 0,
            milliseconds: 7,
        };
        let (path, bytes) = ("a/b".to_owned(), b"\0\xff \r\n\\n".to_vec());
        let output = |stream| Event::Output { stream, bytes: bytes.clone() };
        for sent in [
            Event::Up { release: "6.1".into() },
            Event::Trouble { what: "a\nb\\".into() },
            Event::Repaired { line: String::new() },
            Event::Started,
            output(Stream::Out),
            output(Stream::Err),
            Event::Message(bytes.clone()),
            ended,
            Event::File { path, bytes: bytes.clone() },
            Event::Done,
        ] {
            let line = sent.encode();
            assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
            assert_eq!(Event::decode(&line).as_ref(), Some(&sent));
            // the line as a terminal sends it that is not in raw mode
            let cooked = [&line[..line.len() - 1], b"\r\n"].concat();
            assert_eq!(Event::decode(&cooked), Some(sent));
        }
    }

    /// None of these lines is a complete frame.
    #[test]
    fn a_line_that_is_not_whole_is_no_event() {
        let whole = b"o5 a\\nb c\n";
        assert!(Event::decode(whole).is_some());
        let kernel = [&whole[..5], b"[    1.2] a message of the kernel"].concat();
        for line in [&kernel, &whole[1..], &whole[..whole.len() - 2], b"o5 a\\xb c", b"o5 a\\"] {
            assert_eq!(Event::decode(line), None, "{}", line.escape_ascii());
        }
        for line in ["", "\n", "o", "o ", "o-1 ", "x1 a", "f1 a", "f2 \u{fe}\0", "e2 {}", "m"] {
            assert_eq!(Event::decode(line.as_bytes()), None, "{line:?}");
        }
        // bytes of the job are never in JSON
        let json = r#"{"event":"output","stream":"out","bytes":"a"}"#;
        assert_eq!(Event::decode(format!("e{} {json}", json.len()).as_bytes()), None);
    }

    #[test]
    fn every_line_of_ours_is_short_enough() {
        let (path, bytes) = ("\n".repeat(LONGEST_TEXT), vec![b'\\'; CHUNK]);
        let line = Event::File { path, bytes }.encode();
        assert!(line.len() < LONGEST_LINE, "{}", line.len());
        assert!(Event::decode(&line).is_some());
        let line = Event::Message(vec![b'\n'; LONGEST_MESSAGE]).encode();
        assert!(line.len() < LONGEST_MESSAGE_LINE, "{}", line.len());
        assert!(Event::decode(&line).is_some());
    }

    #[test]
    fn texts_are_cut_and_names_that_are_too_long_are_no_events() {
        let long = "ä".repeat(LONGEST_TEXT);
        let text = |event: Option<Event>| match event {
            Some(Event::Up { release: text } | Event::Trouble { what: text }) => text,
            Some(Event::Ended { how: JobExit::NotStarted(text), .. }) => text,
            other => panic!("{other:?}"),
        };
        let ended = Event::Ended {
            how: JobExit::NotStarted(long.clone()),
            left: 0,
            oom_kills: 0,
            ticks: None,
            idle_milliseconds: 0,
            milliseconds: 0,
        };
        for event in
            [Event::Up { release: long.clone() }, Event::Trouble { what: long.clone() }, ended]
        {
            let text = text(Event::decode(&event.encode()));
            assert!(text.len() <= LONGEST_TEXT + 3 && text.ends_with("ä…"), "{}", text.len());
        }
        let file = Event::File { path: long, bytes: Vec::new() };
        assert_eq!(Event::decode(&file.encode()), None);
    }

    #[test]
    fn troubles_without_end_are_cut_and_that_is_said() {
        let mut troubles = Vec::new();
        for number in 0..100_000 {
            add_trouble(&mut troubles, number.to_string());
        }
        assert_eq!(troubles.len(), TROUBLES + 1);
        assert!(troubles[TROUBLES].contains("left out"), "{}", troubles[TROUBLES]);
    }

    /// A reader that supplies `x` for ever, up to the number of bytes that it holds.
    struct EndlessReader(usize);

    impl Read for EndlessReader {
        fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
            let length = to.len().min(self.0);
            to[..length].fill(b'x');
            self.0 -= length;
            Ok(length)
        }
    }

    #[test]
    fn lines_that_are_too_long_are_passed_over() {
        let done = Event::Done.encode();
        let (message, other) = (&b"m"[..], &b"x"[..]);
        for (first, longest) in [(other, LONGEST_LINE), (message, LONGEST_MESSAGE_LINE)] {
            for length in [longest - 1, longest, longest + 1, 100 * longest] {
                let rest = EndlessReader(length - 1).chain(&b"\n"[..]).chain(&done[..]);
                let mut stream = std::io::BufReader::new(first.chain(rest));
                let first = read_line(&mut stream).unwrap().unwrap();
                if length < longest {
                    assert_eq!(first.len(), length + 1);
                    assert_eq!(read_line(&mut stream).unwrap().as_deref(), Some(&done[..]));
                } else {
                    assert_eq!(first, done, "{length}");
                }
                assert_eq!(read_line(&mut stream).unwrap(), None);
            }
        }
        // The last line was not complete when the guest ended.
        let mut stream = &b"a\n\nb"[..];
        let lines = std::iter::from_fn(|| read_line(&mut stream).unwrap());
        assert_eq!(lines.collect::<Vec<_>>(), [&b"a\n"[..], b"\n", b"b"]);
    }

    /// Frames are decoded whole, into whatever pieces the pipe cuts the stream and whatever else is
    /// written between them.
    #[test]
    fn frames_come_whole_whatever_the_pieces_are() {
        let sent = [
            Event::Started,
            Event::Message(b"{\"begins\":{\"arm\":\"a\"}}".to_vec()),
            Event::Output { stream: Stream::Err, bytes: b"a\nb".to_vec() },
            Event::Done,
        ];
        let frames: Vec<Vec<u8>> = sent.iter().map(Event::encode).collect();
        let bytes = frames.join(&b"[    1.2] what the kernel prints\n"[..]);
        for length in 1..bytes.len() {
            let mut stream = std::io::BufReader::with_capacity(length, &bytes[..]);
            let lines = std::iter::from_fn(|| read_line(&mut stream).unwrap());
            let found = lines.filter_map(|line| Event::decode(&line));
            assert_eq!(found.collect::<Vec<_>>(), sent);
        }
    }

    proptest! {
        /// Any bytes survive encoding and decoding, and random bytes as an event never cause a
        /// panic.
        #[test]
        fn bytes_come_through(bytes: Vec<u8>, at: proptest::sample::Index) {
            let sent = Event::Message(bytes.clone());
            let mut line = sent.encode();
            prop_assert_eq!(Event::decode(&line), Some(sent.clone()));
            let _ = Event::decode(&bytes);
            // A byte that is lost is noticed, wherever it was before the newline.
            line.remove(at.index(line.len() - 1));
            prop_assert_ne!(Event::decode(&line), Some(sent));
        }
    }
}
