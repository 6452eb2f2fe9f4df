// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What runner and PID 1 say to each other.
//!
//! The job goes in as one JSON file of the initramfs. What happens comes out as JSON lines over the
//! second serial port. The job may write to that port too: a line that is no [`Event`] is ignored,
//! and nothing in an event is trusted to be short or well formed.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// Where the job lies in the initramfs.
pub const JOB: &str = "job.json";
/// What a job leaves in this folder is brought out.
pub const OUT: &str = "/out";
/// The variable by which PID 1 knows that it is ours: the kernel hands it on from its command line.
pub const MARK: &str = "PAGEWISE_GUEST";
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
        how: How,
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
pub enum How {
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

/// One line → an event.
#[must_use]
pub fn event(line: &[u8]) -> Option<Event> {
    serde_json::from_slice(line).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn events_survive_the_line() {
        let ended = Event::Ended {
            how: How::Signalled(9),
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

    proptest! {
        /// Any bytes come through, and any noise is refused without a panic.
        #[test]
        fn bytes_come_through(bytes: Vec<u8>) {
            prop_assert_eq!(unpacked(&packed(&bytes)), Some(bytes.clone()));
            let _ = event(&bytes);
        }
    }
}
