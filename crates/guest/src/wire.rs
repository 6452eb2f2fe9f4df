// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The messages between the runner and PID 1.
//!
//! The job is one JSON file in the initramfs. Events are JSON lines on the second serial port. The
//! job can write to that port too, so the runner ignores a line that is not an [`Event`] or is
//! longer than any event; it also limits the length of texts in events and the number of troubles.
//! Output of the job is not limited: it is passed on as it arrives and not stored.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// Path of the job in the initramfs.
pub const JOB: &str = "job.json";
/// The files that a job leaves in this folder are sent to the runner.
pub const OUT: &str = "/out";
/// The variable by which PID 1 recognises a guest of Pagewise: the kernel passes it on from its
/// command line.
pub const MARK: &str = "PAGEWISE_GUEST";
/// The environment variable with the number of the boot of the root disk, counted from 0.
pub const BOOT: &str = "PAGEWISE_BOOT";
/// A line of output with which the job requests a power loss, if the runner allows it.
pub const LOSE_POWER: &str = "lose-power";
/// The folder of the initramfs whose files go to `/lib/modules/RELEASE` on the root disk.
pub const DISK_MODULES: &str = "disk-modules";
/// Maximum number of bytes of a file or of output in one event.
pub const CHUNK: usize = 24 * 1024;

/// The task of PID 1.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Its whole environment.
    pub environment: BTreeMap<String, String>,
    /// Modules to load before the job, in this order: file names below `/modules`.
    pub modules: Vec<String>,
    /// Number of disks that must exist.
    #[serde(default)]
    pub disks: usize,
    /// Wait before the job until the CPUs are idle.
    #[serde(default)]
    pub quiet: bool,
    /// The disk with a system whose systemd takes over as PID 1; `None`: PID 1 runs the job itself.
    #[serde(default)]
    pub root: Option<String>,
    /// Files to copy to that disk, with their modes.
    #[serde(default)]
    pub files: Vec<(String, u32)>,
    /// Which boot of that disk this is, counted from 0; `None` if the disk is not kept after the
    /// guest.
    #[serde(default)]
    pub boot: Option<u32>,
    /// Files to remove from that disk before its first boot.
    #[serde(default)]
    pub removed: Vec<String>,
    /// Time limit for that system to start; after it the job runs anyway.
    #[serde(default)]
    pub settle_seconds: u64,
}

/// A message of PID 1 to the runner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// PID 1 runs.
    Up {
        /// The kernel's release.
        release: String,
    },
    /// Something failed, and PID 1 continued without it.
    Trouble {
        /// What failed, with the error.
        what: String,
    },
    /// The kernel repaired the file system of the root disk when it was mounted.
    Repaired {
        /// The kernel's message.
        line: String,
    },
    /// The job runs.
    Started,
    /// The job wrote to its output.
    Output {
        /// Standard output or standard error.
        stream: Stream,
        /// The bytes, as base64.
        bytes: String,
    },
    /// The job's own process ended.
    Ended {
        /// Exit status or signal.
        how: JobExit,
        /// Processes that it left behind and that were killed.
        left: u64,
        /// OOM kills in the guest while the job ran.
        oom_kills: u64,
        /// Increase of the virtual CPU's counter while the job ran; `None` if it has none.
        ticks: Option<u64>,
        /// Idle time of all CPUs while the job ran.
        idle_milliseconds: u64,
        /// Elapsed time in the guest.
        milliseconds: u64,
    },
    /// A piece of a file that the job left.
    File {
        /// Path below [`OUT`].
        path: String,
        /// The piece, as base64.
        bytes: String,
    },
    /// The last message.
    Done,
}

/// A standard stream of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// How the job's process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobExit {
    /// It exited with this status.
    Exited(i32),
    /// A signal with this number ended it.
    Signalled(i32),
    /// It could not be started, for this reason.
    NotStarted(String),
}

/// Encodes bytes for a line of JSON (base64).
#[must_use]
pub fn packed(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Decodes [`packed`]; `None` if the text is not base64.
#[must_use]
pub fn unpacked(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// Longest line of an event, in bytes: a chunk as base64, and a name.
pub(crate) const LONGEST_LINE: usize = 64 << 10;
/// Longest text in an event, in bytes; names of files are not longer.
const LONGEST_TEXT: usize = 4096;
/// Maximum number of troubles that are kept of one guest.
const TROUBLES: usize = 256;

/// Parses a line as an event, and truncates its texts.
#[must_use]
pub fn event(line: &[u8]) -> Option<Event> {
    let mut event = serde_json::from_slice(line).ok()?;
    match &mut event {
        Event::Up { release } => cut(release),
        Event::Trouble { what } | Event::Repaired { line: what } => cut(what),
        Event::Ended { how: JobExit::NotStarted(why), .. } => cut(why),
        // A truncated name could be that of another file.
        Event::File { path, .. } if path.len() > LONGEST_TEXT => return None,
        _ => {}
    }
    Some(event)
}

fn cut(text: &mut String) {
    if text.len() > LONGEST_TEXT {
        let end = (0..=LONGEST_TEXT).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
}

/// Adds a trouble. Beyond the limit, one line says that the rest is left out.
pub(crate) fn add_trouble(troubles: &mut Vec<String>, what: String) {
    match troubles.len() {
        0..TROUBLES => troubles.push(what),
        TROUBLES => troubles.push(format!("more than {TROUBLES} troubles; the rest is left out")),
        _ => {}
    }
}

/// Reads the next line, with its newline, that is not too long; longer ones are skipped. `None` at
/// the end of the stream.
pub(crate) fn read_line(from: &mut impl BufRead) -> std::io::Result<Option<Vec<u8>>> {
    let longest = LONGEST_LINE as u64;
    loop {
        let mut line = Vec::new();
        if from.by_ref().take(longest).read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        if line.len() < LONGEST_LINE || line.ends_with(b"\n") {
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
        for sent in [Event::Up { release: "6.1".into() }, Event::Started, ended, Event::Done] {
            let line = serde_json::to_vec(&sent).unwrap();
            assert_eq!(event(&line), Some(sent));
        }
    }

    #[test]
    fn every_line_of_ours_is_short_enough() {
        let (path, bytes) = ("\u{1}".repeat(LONGEST_TEXT), packed(&vec![0xff; CHUNK]));
        let line = serde_json::to_vec(&Event::File { path, bytes }).unwrap();
        assert!(line.len() < LONGEST_LINE, "{}", line.len());
        assert!(event(&line).is_some());
    }

    #[test]
    fn texts_are_cut_and_names_that_are_too_long_are_no_events() {
        let long = "ä".repeat(LONGEST_TEXT);
        let text = |event: Option<Event>| match event {
            Some(Event::Up { release: text } | Event::Trouble { what: text }) => text,
            Some(Event::Ended { how: JobExit::NotStarted(text), .. }) => text,
            other => panic!("{other:?}"),
        };
        let ended = format!(
            "{{\"event\":\"ended\",\"how\":{{\"not_started\":\"{long}\"}},\"left\":0,\"oom_kills\":0,\
             \"ticks\":null,\"idle_milliseconds\":0,\"milliseconds\":0}}"
        );
        for line in [
            format!("{{\"event\":\"up\",\"release\":\"{long}\"}}"),
            format!("{{\"event\":\"trouble\",\"what\":\"{long}\"}}"),
            ended,
        ] {
            let text = text(event(line.as_bytes()));
            assert!(text.len() <= LONGEST_TEXT + 3 && text.ends_with("ä…"), "{}", text.len());
        }
        let file = format!("{{\"event\":\"file\",\"path\":\"{long}\",\"bytes\":\"\"}}");
        assert_eq!(event(file.as_bytes()), None);
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

    /// A reader that supplies `x` and counts down how much is left to read.
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
        let done = b"{\"event\":\"done\"}\n";
        for length in [LONGEST_LINE - 1, LONGEST_LINE, LONGEST_LINE + 1, 100 * LONGEST_LINE] {
            let mut stream =
                std::io::BufReader::new(EndlessReader(length).chain(&b"\n"[..]).chain(&done[..]));
            let first = read_line(&mut stream).unwrap().unwrap();
            if length < LONGEST_LINE {
                assert_eq!(first.len(), length + 1);
                assert_eq!(read_line(&mut stream).unwrap().as_deref(), Some(&done[..]));
            } else {
                assert_eq!(first, done, "{length}");
            }
            assert_eq!(read_line(&mut stream).unwrap(), None);
        }
        // A line that was not complete when the guest ended.
        let mut stream = &b"a\n\nb"[..];
        let lines = std::iter::from_fn(|| read_line(&mut stream).unwrap());
        assert_eq!(lines.collect::<Vec<_>>(), [&b"a\n"[..], b"\n", b"b"]);
    }

    proptest! {
        /// Any bytes survive encoding and decoding, and random bytes as an event never cause a
        /// panic.
        #[test]
        fn bytes_come_through(bytes: Vec<u8>) {
            prop_assert_eq!(unpacked(&packed(&bytes)), Some(bytes.clone()));
            let _ = event(&bytes);
        }
    }
}
