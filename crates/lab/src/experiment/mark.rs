// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A line of the command's output that marks the moment from which a run is measured.
//!
//! The thread that reads the output finds the line and signals that through an eventfd; the
//! conductor waits for the eventfd and for the command's end at the same time. The command is
//! stopped (SIGSTOP) while counters are read, so that all counters are of the same moment.

use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Pid, Signal, kill_process_group};

/// Finds a line in output that arrives in pieces.
#[derive(Debug)]
pub(super) struct LineFinder {
    /// The line to find, with its newline.
    line: Vec<u8>,
    /// The beginning of the current line of output, not longer than `line`.
    begun: Vec<u8>,
    /// The eventfd to signal when the line is found; `None` afterwards.
    found: Option<OwnedFd>,
}

impl LineFinder {
    /// Returns the finder and an eventfd that becomes readable when the line is found.
    pub(super) fn new(line: &str) -> std::io::Result<(Self, OwnedFd)> {
        let found = eventfd(0, EventfdFlags::CLOEXEC)?;
        let signal = found.try_clone()?;
        let line = [line.as_bytes(), b"\n"].concat();
        Ok((Self { begun: Vec::with_capacity(line.len()), line, found: Some(found) }, signal))
    }

    pub(super) fn read(&mut self, piece: &[u8]) {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let room = self.line.len() - self.begun.len();
            self.begun.extend(part.iter().take(room));
            if part.ends_with(b"\n") {
                if self.begun == self.line {
                    self.signal();
                }
                self.begun.clear();
            }
        }
    }

    fn signal(&mut self) {
        if let Some(found) = self.found.take() {
            // writing to an eventfd with a small counter never blocks
            let _ = rustix::io::write(&found, &1_u64.to_ne_bytes());
        }
    }
}

/// A process group that is stopped (SIGSTOP) until this value is dropped.
#[derive(Debug)]
pub(super) struct Stopped(Pid);

impl Stopped {
    pub(super) fn new(leader: Pid) -> Self {
        let _ = kill_process_group(leader, Signal::STOP);
        Self(leader)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process_group(self.0, Signal::CONT);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    /// Whether a finder for `line` finds it in these pieces of output.
    fn is_found(line: &str, pieces: &[&[u8]]) -> bool {
        let (mut finder, signal) = LineFinder::new(line).unwrap();
        pieces.iter().for_each(|piece| finder.read(piece));
        // the finder is dropped, so that nothing can be written to the eventfd any more
        drop(finder);
        rustix::io::ioctl_fionbio(&signal, true).unwrap();
        rustix::io::read(&signal, &mut [0; 8]).is_ok()
    }

    #[test]
    fn only_the_whole_line_counts() {
        for output in ["steady\n", "a\nsteady\nb", "\n\nsteady\nsteady\n"] {
            assert!(is_found("steady", &[output.as_bytes()]), "{output:?}");
        }
        for other in
            ["", "steady", "unsteady\n", "steady \n", "steady2\n", "stead\ny\n", "steady\r\n"]
        {
            assert!(!is_found("steady", &[other.as_bytes()]), "{other:?}");
        }
    }

    proptest! {
        /// The line is found if and only if the output contains it, whatever else the output
        /// contains and however it is cut into pieces.
        #[test]
        fn it_is_found_where_a_naive_search_finds_it(
            text in "[ab\n]{0,40}",
            cuts in prop::collection::vec(0usize..40, 0..6),
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut start = 0;
            for cut in cuts.into_iter().chain([bytes.len()]) {
                pieces.push(&bytes[start..cut]);
                start = cut;
            }
            let whole = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
            let naive = text.contains('\n') && whole.split('\n').any(|line| line == "ab");
            prop_assert_eq!(is_found("ab", &pieces), naive);
        }
    }

    #[test]
    fn a_group_is_stopped_until_its_counters_are_read() {
        let mut child = Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        let state = |wanted: &[&str]| {
            let until = Instant::now() + Duration::from_secs(10);
            loop {
                let text = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
                let found = text.rsplit(") ").next().unwrap()[..1].to_owned();
                if wanted.contains(&found.as_str()) || Instant::now() > until {
                    return found;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        assert_eq!(state(&["S"]), "S");
        let stopped = Stopped::new(pid);
        assert_eq!(state(&["T"]), "T");
        drop(stopped);
        assert_eq!(state(&["S"]), "S");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
