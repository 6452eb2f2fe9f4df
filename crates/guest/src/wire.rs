// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What runner and PID 1 say to each other.
//!
//! The job goes in as one JSON file of the initramfs. What happens comes out as JSON lines over the
//! second serial port. The job may write to that port too: a line that is no [`Event`] is ignored, and so
//! is one that is longer than any of ours; of texts in events only so much is taken, and only so many
//! troubles. Output is not limited: it is passed on as it comes, and kept nowhere.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// Where the job lies in the initramfs.
pub const JOB: &str = "job.json";
/// What a job leaves in this folder is brought out.
pub const OUT: &str = "/out";
/// The variable by which PID 1 knows that it is ours: the kernel hands it on from its command line.
pub const MARK: &str = "PAGEWISE_GUEST";
/// The variable that tells the job which boot of its root disk this is, the first being 0.
pub const BOOT: &str = "PAGEWISE_BOOT";
/// A line of output by which the job asks for a loss of power, if the runner allows it.
pub const LOSE_POWER: &str = "lose-power";
/// The folder of the initramfs whose files go to `/lib/modules/RELEASE` of the root disk.
pub const DISK_MODULES: &str = "disk-modules";
/// The most bytes of a file or of output in one event.
pub const CHUNK: usize = 24 * 1024;

/// What PID 1 is to do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Its whole environment.
    pub environment: BTreeMap<String, String>,
    /// Modules to load before, in this order: file names below `/modules`.
    pub modules: Vec<String>,
    /// How many disks it is to find.
    #[serde(default)]
    pub disks: usize,
    /// Wait before until the kernel has nothing left to do.
    #[serde(default)]
    pub quiet: bool,
    /// The disk with the system whose PID 1 takes over; without one PID 1 runs the job itself.
    #[serde(default)]
    pub root: Option<String>,
    /// Files that go onto that disk, with their permissions.
    #[serde(default)]
    pub files: Vec<(String, u32)>,
    /// Which boot of that disk this is, the first being 0; none if nothing on the disk outlives the guest.
    #[serde(default)]
    pub boot: Option<u32>,
    /// Files that are removed from that disk before its first start.
    #[serde(default)]
    pub removed: Vec<String>,
    /// How long that system may take to start before the job runs all the same.
    #[serde(default)]
    pub settle_seconds: u64,
}

/// What PID 1 tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// PID 1 runs.
    Up {
        /// The kernel's release.
        release: String,
    },
    /// Something that PID 1 could not do, and went on without.
    Trouble {
        /// What.
        what: String,
    },
    /// The kernel repaired the file system of the root disk when it was mounted.
    Repaired {
        /// What the kernel printed.
        line: String,
    },
    /// The job runs.
    Started,
    /// The job printed.
    Output {
        /// Where to.
        stream: Stream,
        /// What, as base64.
        bytes: String,
    },
    /// The job's own process ended.
    Ended {
        /// How.
        how: JobExit,
        /// Processes that it left, which were killed.
        left: u64,
        /// Kills for lack of memory, anywhere in the guest, while the job ran.
        oom_kills: u64,
        /// The virtual CPU's counter, from start to end, where it has one.
        ticks: Option<u64>,
        /// Time that all CPUs idled meanwhile.
        idle_milliseconds: u64,
        /// Time that passed in the guest.
        milliseconds: u64,
    },
    /// A piece of a file that the job left.
    File {
        /// Below [`OUT`].
        path: String,
        /// The piece, as base64.
        bytes: String,
    },
    /// Nothing more will come.
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
    /// By itself, with this status.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// It was never started.
    NotStarted(String),
}

/// Bytes → text that survives a line of JSON.
#[must_use]
pub fn packed(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The way back; nothing where it is not of our making.
#[must_use]
pub fn unpacked(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// The longest line of ours: a chunk as base64, and a name.
pub(crate) const LONGEST_LINE: usize = 64 << 10;
/// Bytes of a text in an event; names of files have no more.
const LONGEST_TEXT: usize = 4096;
/// Troubles of one guest.
const TROUBLES: usize = 256;

/// One line → an event, with texts cut.
#[must_use]
pub fn event(line: &[u8]) -> Option<Event> {
    let mut event = serde_json::from_slice(line).ok()?;
    match &mut event {
        Event::Up { release } => cut(release),
        Event::Trouble { what } | Event::Repaired { line: what } => cut(what),
        Event::Ended { how: JobExit::NotStarted(why), .. } => cut(why),
        // A name that is cut would be another file's.
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

/// One more trouble, unless there are too many; then it is said once that there were more.
pub(crate) fn add_trouble(troubles: &mut Vec<String>, what: String) {
    match troubles.len() {
        0..TROUBLES => troubles.push(what),
        TROUBLES => troubles.push(format!("more than {TROUBLES} troubles; the rest is left out")),
        _ => {}
    }
}

/// Reads the next line that is no longer than ours are, with its end; longer ones are passed over.
/// Nothing at the end of the stream.
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

    /// A stream that never ends and knows how much was taken from it.
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
        // What was begun when the guest ended.
        let mut stream = &b"a\n\nb"[..];
        let lines = std::iter::from_fn(|| read_line(&mut stream).unwrap());
        assert_eq!(lines.collect::<Vec<_>>(), [&b"a\n"[..], b"\n", b"b"]);
    }

    proptest! {
        /// Any bytes come through, and any noise is refused without a panic.
        #[test]
        fn bytes_come_through(bytes: Vec<u8>) {
            prop_assert_eq!(unpacked(&packed(&bytes)), Some(bytes.clone()));
            let _ = event(&bytes);
        }
    }
}
