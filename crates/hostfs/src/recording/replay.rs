// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recording over time, reading by reading ([`Replay`]).
//!
//! One reading is in memory. Of each other reading only the step that leads to it from its
//! neighbour is kept, as a JSON document. When a step is applied, the step that leads back replaces
//! it. What that step contains was in the reading before, so the total size hardly grows.

use pagewise_model::Name;

use super::ends::Ends;
use super::manifest::End;
use super::step::Step;
use crate::answer::{Facts, Files};
use crate::read::ReadHost;
use crate::root::HostRoot;

/// The readings of a recording, one of which is current. There is always at least one.
#[derive(Debug)]
pub struct Replay {
    host: HostRoot,
    /// The earlier end of a recording of one time, if it has one.
    earlier: Option<HostRoot>,
    label: Name,
    /// The times of the readings.
    times: Vec<End>,
    /// The steps that lead to earlier readings, the next one last.
    back: Vec<Vec<u8>>,
    /// The steps that lead to later readings, the next one last.
    ahead: Vec<Vec<u8>>,
    early: Option<String>,
}

impl Replay {
    /// Starts at the first reading; `steps` lead to the later ones.
    pub(super) fn new(ends: Ends, steps: Vec<(End, Vec<u8>)>, early: Option<String>) -> Self {
        let (host, earlier) = match ends.first {
            Some(both) => {
                let [first, _] = *both;
                (first, None)
            }
            None => (ends.end, ends.start),
        };
        let (mut times, mut ahead) = (vec![end_of(host.facts())], Vec::new());
        for (at, step) in steps {
            times.push(at);
            ahead.push(step);
        }
        ahead.reverse();
        let label = host.label().clone();
        Self { host, earlier, label, times, back: Vec::new(), ahead, early }
    }

    /// The times of the readings; their lists of refused files are empty.
    pub fn times(&self) -> &[End] {
        &self.times
    }

    /// The index of the current reading, from 0.
    pub fn at(&self) -> usize {
        self.back.len()
    }

    /// The host as the current reading shows it.
    pub fn host(&self) -> &HostRoot {
        &self.host
    }

    /// For a recording of one time, its earlier end if it has one.
    pub fn earlier(&self) -> Option<&HostRoot> {
        self.earlier.as_ref()
    }

    /// Why the recording ends early; `None` if it is complete.
    pub fn early(&self) -> Option<&str> {
        self.early.as_deref()
    }

    /// Goes to the next reading; returns false at the last one.
    pub fn forward(&mut self) -> bool {
        let Some(step) = self.ahead.pop() else { return false };
        let back = self.apply(&step, self.at() + 1);
        self.back.push(back);
        true
    }

    /// Goes to the previous reading; returns false at the first one.
    pub fn backward(&mut self) -> bool {
        let Some(step) = self.back.pop() else { return false };
        let ahead = self.apply(&step, self.at());
        self.ahead.push(ahead);
        true
    }

    /// Applies a step that leads to the reading with index `to`, and returns the step that leads
    /// back.
    fn apply(&mut self, step: &[u8], to: usize) -> Vec<u8> {
        // each step was parsed when the recording was opened, or was made by us
        let step = Step::parse("steps", step).unwrap_or_default();
        let facts = self.host.facts();
        let none = HostRoot::recorded(Files::default(), Name::default(), facts);
        let mut files = std::mem::replace(&mut self.host, none).into_files();
        let (replaced, _) = step.apply(&mut files);
        let back = Step::back(&end_of(facts), replaced, &files).to_json();
        let facts = self.times.get(to).map_or(facts, |at| at.facts(facts.page_size));
        self.host = HostRoot::recorded(files, self.label.clone(), facts);
        back
    }
}

fn end_of(facts: Facts) -> End {
    let Facts { unix_seconds, monotonic_seconds, awake_seconds, .. } = facts;
    End { unix_seconds, monotonic_seconds, awake_seconds, ..End::default() }
}
