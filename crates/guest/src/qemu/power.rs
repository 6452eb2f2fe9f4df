// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cuts the power of a guest at a set time after a line in the command's output.
//!
//! The guest requests the power loss in its output because output arrives at once; a file would
//! have to be polled. Killing QEMU loses what the guest's kernel had not yet written to its disks.
//! Everything that the kernel had written is kept, even without a flush, so this does not test the
//! write cache of a disk.

use std::time::{Duration, Instant};

use crate::wire::{LOSE_POWER, Stream};

/// Finds out when to kill QEMU: a set time after a certain line in the command's output.
#[derive(Debug, Default)]
pub(super) struct PowerCut {
    /// Delay between the line and the power loss; `None` if no power loss is allowed.
    delay: Option<Duration>,
    out: Line,
    error: Line,
    at: Option<Instant>,
}

impl PowerCut {
    pub(super) fn with_delay(delay: Option<Duration>) -> Self {
        Self { delay, ..Self::default() }
    }

    /// Searches the command's output for the line that requests a power loss.
    pub(super) fn search(&mut self, stream: Stream, bytes: &[u8], now: Instant) {
        let Some(delay) = self.delay else { return };
        let line = match stream {
            Stream::Out => &mut self.out,
            Stream::Err => &mut self.error,
        };
        if line.ends_with_line(LOSE_POWER.as_bytes(), bytes) && self.at.is_none() {
            self.at = Some(now + delay);
        }
    }

    /// How long to wait for the next event: until the power loss is due, at most `longest`.
    pub(super) fn wait(&self, now: Instant, longest: Duration) -> Duration {
        self.at.map_or(longest, |at| at.saturating_duration_since(now).min(longest))
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.at.is_some_and(|at| now >= at)
    }
}

/// The end of a stream's output: the current line. Of a long line only one byte more is kept than
/// the searched line has.
#[derive(Debug, Default)]
struct Line(Vec<u8>);

impl Line {
    /// Adds output; returns whether one of the lines that end in this output is `asked`.
    fn ends_with_line(&mut self, asked: &[u8], bytes: &[u8]) -> bool {
        let mut found = false;
        for byte in bytes {
            if *byte == b'\n' {
                found |= self.0 == asked;
                self.0.clear();
            } else if self.0.len() <= asked.len() {
                self.0.push(*byte);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(delay: Option<u64>, pieces: &[(Stream, &str)]) -> Option<Duration> {
        let mut power = PowerCut::with_delay(delay.map(Duration::from_millis));
        let now = Instant::now();
        for (stream, text) in pieces {
            power.search(*stream, text.as_bytes(), now);
        }
        power.at.map(|at| at - now)
    }

    #[test]
    fn only_the_whole_line_cuts_the_power() {
        let (out, error) = (Stream::Out, Stream::Err);
        let delay = Some(Duration::from_millis(7));
        assert_eq!(cut(Some(7), &[(out, "lose-power\n")]), delay);
        assert_eq!(cut(Some(7), &[(out, "a\nlose-"), (error, "b"), (out, "power\nc")]), delay);
        assert_eq!(cut(Some(7), &[(error, "lose-power\n")]), delay);
        assert_eq!(cut(None, &[(out, "lose-power\n")]), None);
        let others = ["lose-power", "xlose-power\n", "lose-power \n", "lose-\npower\n", "\n"];
        for other in others {
            assert_eq!(cut(Some(7), &[(out, other)]), None, "{other:?}");
        }
        assert_eq!(cut(Some(7), &[(out, "lose-"), (error, "power\n")]), None);
    }

    #[test]
    fn the_power_goes_when_its_time_has_come() {
        let now = Instant::now();
        let mut power = PowerCut::with_delay(Some(Duration::from_millis(30)));
        let (look, long) = (Duration::from_millis(50), Duration::from_secs(1));
        assert!(!power.is_due(now + long) && power.wait(now, look) == look);
        power.search(Stream::Out, b"lose-power\n", now);
        assert_eq!(power.wait(now, look), Duration::from_millis(30));
        // a second request does not change when the power is cut
        power.search(Stream::Out, b"lose-power\n", now + long);
        assert!(!power.is_due(now) && power.is_due(now + Duration::from_millis(30)));
        assert_eq!(power.wait(now + long, look), Duration::ZERO);
    }
}
