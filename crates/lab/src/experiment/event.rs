// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happens while an experiment runs, for whoever shows it and keeps its runs.
//!
//! The same events come from a conductor in this process and from one in a guest, which prints each as a
//! line of JSON. Every run is an event as it ends, so that a guest that dies costs no more than the run
//! that it was at. What only this side can know never comes over the line.

use pagewise_model::{Clock, Refusal, TrialForecast, TrialRun};
use serde::{Deserialize, Serialize};

/// One event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialEvent {
    /// Before the first run in a guest: whose clock it will be measured with.
    #[serde(skip)]
    Clock(Clock),
    /// Something that the user may want to know.
    #[serde(skip)]
    Note(String),
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
    /// The warm-up is over: what the pairs will probably show, where that can be said.
    Forecast(Option<TrialForecast>),
    /// It ended early, and why; only a guest says this and the next.
    Trouble(Refusal),
    /// There will be no more runs.
    Done,
}

impl TrialEvent {
    /// The line, with its end.
    #[must_use]
    pub fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// `None` where it is no line of a conductor.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A guest cannot say which clock it had, nor speak to the user in our name.
    #[test]
    fn a_line_is_an_event_of_a_conductor() {
        let done = TrialEvent::Done;
        assert_eq!(TrialEvent::parse(done.line().trim_end()), Some(done));
        for line in ["{\"clock\":\"real\"}", "{\"note\":\"x\"}", "\"clock\"", "x"] {
            assert_eq!(TrialEvent::parse(line), None, "{line}");
        }
    }
}
