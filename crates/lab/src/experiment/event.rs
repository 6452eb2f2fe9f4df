// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events of a running experiment, for the user interface and for recording.
//!
//! The events come from a conductor in this process, or from one in a guest, which sends each event
//! to the runner as a JSON message. Each run is an event as soon as it ends, so that a guest that
//! crashes loses only its current run. Events that only the runner can know are never accepted from
//! a guest.

use pagewise_model::{Clock, Refusal, TrialForecast, TrialRun};
use serde::{Deserialize, Serialize};

/// An event of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialEvent {
    /// The clock by which runs in a guest are measured; sent before the first run.
    #[serde(skip)]
    Clock(Clock),
    /// A message for the user, as text.
    #[serde(skip)]
    Note(String),
    /// A run begins.
    Begins {
        /// Name of the arm.
        arm: String,
        /// Number of the pair, or `None` for a run of the warm-up.
        pair: Option<u32>,
        /// Number of the run, from 1.
        run: u32,
        /// Maximum number of runs of the experiment.
        of: u32,
    },
    /// A run has ended.
    Ran(Box<TrialRun>),
    /// The warm-up is over; has the expected precision after all pairs, if that can be computed.
    Forecast(Option<TrialForecast>),
    /// The experiment ended early, for this reason. Only a guest sends this event and
    /// [`Self::Done`].
    Trouble(Refusal),
    /// The experiment is over: there will be no more runs.
    Done,
}

impl TrialEvent {
    /// Encodes the event as a message of a conductor, which is JSON.
    #[must_use]
    pub fn to_message(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Parses an event from a message; `None` if it is not an event of a conductor.
    pub(crate) fn from_message(message: &[u8]) -> Option<Self> {
        serde_json::from_slice(message).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages of a guest: a guest can neither choose the clock nor send messages to the user.
    #[test]
    fn a_message_is_an_event_of_a_conductor() {
        let trouble = TrialEvent::Trouble(Refusal::new("zram", "no such module"));
        let begins = TrialEvent::Begins { arm: "a".to_owned(), pair: None, run: 1, of: 3 };
        for event in [begins, trouble, TrialEvent::Done] {
            assert_eq!(TrialEvent::from_message(&event.to_message()), Some(event));
        }
        for text in ["{\"clock\":\"real\"}", "{\"note\":\"x\"}", "\"clock\"", "x"] {
            assert_eq!(TrialEvent::from_message(text.as_bytes()), None, "{text}");
        }
    }
}
