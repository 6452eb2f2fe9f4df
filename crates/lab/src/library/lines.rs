// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Output of a conductor in a guest → [`TrialEvent`]s, one line of JSON each.

use crate::experiment::TrialEvent;

/// Joins pieces of output to whole lines.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    rest: Vec<u8>,
}

/// Maximum length of a line in bytes: endless output without a newline must not fill the memory.
const LONGEST: usize = 4 << 20;

impl Lines {
    /// The events on the lines that this piece completes.
    pub(crate) fn add(&mut self, piece: &[u8]) -> Vec<TrialEvent> {
        self.rest.extend_from_slice(piece);
        let end = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let whole: Vec<u8> = self.rest.drain(..end).collect();
        if self.rest.len() > LONGEST {
            self.rest.clear();
        }
        String::from_utf8_lossy(&whole).lines().filter_map(TrialEvent::parse).collect()
    }
}

/// Path of the experiment in the guest.
pub(super) const EXPERIMENT: &str = "/experiment.json";

/// Arguments of this program in the guest.
pub(super) fn words() -> [&'static str; 3] {
    ["lab", "conduct", EXPERIMENT]
}

#[cfg(test)]
mod tests {
    use pagewise_model::Refusal;

    use super::*;

    #[test]
    fn lines_come_whole_whatever_the_pieces_are() {
        let trouble = TrialEvent::Trouble(Refusal::new("zram", "no such module"));
        let said = [
            TrialEvent::Begins { arm: "a".to_owned(), pair: None, run: 1, of: 3 },
            trouble,
            TrialEvent::Done,
        ];
        let text =
            said.iter().map(TrialEvent::line).collect::<Vec<_>>().join("what a library prints\n");
        for length in 1..text.len() {
            let mut lines = Lines::default();
            let found = text.as_bytes().chunks(length).flat_map(|piece| lines.add(piece));
            assert_eq!(found.collect::<Vec<_>>(), said);
        }
    }
}
