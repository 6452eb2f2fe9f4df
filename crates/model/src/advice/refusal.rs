// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why something that was asked for was not done, and what would help.
//!
//! An error answers four questions: what, why, what state the host is in, what to do next. The first two
//! are its text and its sources; [`Advice`] has the others. [`Refusal`] is for everything that needs no
//! type of its own.

use std::error::Error;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an error knows beside what happened and why.
pub trait Advice: Error {
    /// What it left behind, if the reader could expect something else.
    fn state(&self) -> Option<String> {
        None
    }

    /// What would help, if that is known.
    fn next(&self) -> Option<String>;
}

/// Something that was not done. Prints as `what: why`; `next` is shown by whoever prints advice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{what}{}{why}", if why.is_empty() { "" } else { ": " })]
pub struct Refusal {
    /// What was asked for, as `swap on /dev/zram1`.
    pub what: String,
    /// Why it was not done, the innermost cause last; empty where `what` says it all.
    pub why: String,
    /// What would help, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl Refusal {
    /// A refusal without advice.
    #[must_use]
    pub fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into(), next: None }
    }

    /// One sentence, as `--disk: expected a folder, found a file`, and what would help.
    #[must_use]
    pub fn advised(what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { what: what.into(), why: String::new(), next: Some(next.into()) }
    }

    /// The same for something larger, of which this is the reason.
    #[must_use]
    pub fn within(self, what: impl Into<String>) -> Self {
        Self { what: what.into(), why: self.to_string(), next: self.next }
    }
}

impl Advice for Refusal {
    fn next(&self) -> Option<String> {
        self.next.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_first_and_the_advice_stays_with_it() {
        let refused = Refusal::advised("zram3 is busy", "swapoff /dev/zram3");
        assert_eq!(refused.to_string(), "zram3 is busy");
        let refused = refused.within("zstd:7");
        assert_eq!(refused.to_string(), "zstd:7: zram3 is busy");
        assert_eq!(Advice::next(&refused).as_deref(), Some("swapoff /dev/zram3"));
    }
}
