// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a conductor in a guest says to the one outside: a line of JSON each.
//!
//! Every run is said as it ends, so that a guest that dies in the middle costs no more than the run it
//! was at.

use pagewise_model::{TrialForecast, TrialRun};
use serde::{Deserialize, Serialize};

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuestLine {
    /// A run begins.
    Begins {
        /// Of which arm.
        arm: String,
        /// Which pair; none while warming up.
        pair: Option<u32>,
        /// From 1.
        run: u32,
        /// At most.
        of: u32,
    },
    /// A run has ended.
    Ran(Box<TrialRun>),
    /// The warm-up is over.
    Forecast(Option<TrialForecast>),
    /// It ended early, and why.
    Trouble {
        /// What.
        what: String,
        /// What would help.
        next: Option<String>,
    },
    /// All runs that there will be have been said.
    Done,
}

impl GuestLine {
    /// The line, with its end.
    #[must_use]
    pub fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// Nothing where it is no line of a conductor.
    pub(super) fn read(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }
}

/// Pieces of output → whole lines.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    rest: Vec<u8>,
}

/// No line of a conductor is longer; who prints without end shall not fill our memory.
const LONGEST: usize = 4 << 20;

impl Lines {
    /// The lines that this piece completes.
    pub(crate) fn add(&mut self, piece: &[u8]) -> Vec<GuestLine> {
        self.rest.extend_from_slice(piece);
        let end = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let whole: Vec<u8> = self.rest.drain(..end).collect();
        if self.rest.len() > LONGEST {
            self.rest.clear();
        }
        String::from_utf8_lossy(&whole).lines().filter_map(GuestLine::read).collect()
    }
}

/// Where the experiment lies in the guest.
pub(super) const EXPERIMENT: &str = "/experiment.json";

/// The words behind this program's name in the guest.
pub(super) fn words() -> [&'static str; 3] {
    ["lab", "conduct", EXPERIMENT]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_whatever_the_pieces_are() {
        let trouble = GuestLine::Trouble { what: "no zram".to_owned(), next: None };
        let message = [
            GuestLine::Begins { arm: "a".to_owned(), pair: None, run: 1, of: 3 },
            trouble,
            GuestLine::Done,
        ];
        let text =
            message.iter().map(GuestLine::line).collect::<Vec<_>>().join("what a library prints\n");
        for length in 1..text.len() {
            let mut lines = Lines::default();
            let found = text.as_bytes().chunks(length).flat_map(|piece| lines.add(piece));
            assert_eq!(found.collect::<Vec<_>>(), message);
        }
    }
}
