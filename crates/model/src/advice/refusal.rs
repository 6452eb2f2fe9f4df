// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors that say why a request was not carried out, and what would help.
//!
//! An error answers four questions: what failed, why, in what state the host is now, and what the
//! user can do next. The error's message and its sources answer the first two; [`Advice`] answers
//! the other two. [`Refusal`] is for errors that need no type of their own.

use std::error::Error;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Adds to an error the state of the host after the failure, and what the user can do about it.
pub trait Advice: Error {
    /// The state in which the failed operation left the host, if it is not what the reader would
    /// expect.
    fn state(&self) -> Option<String> {
        None
    }

    /// What the user can do about the error, if that is known.
    fn next(&self) -> Option<String>;
}

/// Something that was requested and not done. `Display` prints `what: why` without `next`, which is
/// printed by the code that prints advice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{what}{}{why}", if why.is_empty() { "" } else { ": " })]
pub struct Refusal {
    /// What was requested, such as `swap on /dev/zram1`.
    pub what: String,
    /// The reason, with the innermost cause last; empty if `what` is sufficient.
    pub why: String,
    /// What the user can do about the refusal, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl Refusal {
    /// Creates a refusal of `what` for the reason `why`, without advice.
    #[must_use]
    pub fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into(), next: None }
    }

    /// Creates a refusal from one sentence, such as `--disk: expected a folder, found a file`, and
    /// the advice `next`.
    #[must_use]
    pub fn with_advice(what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { what: what.into(), why: String::new(), next: Some(next.into()) }
    }

    /// Creates the refusal of a larger task `what`, with this refusal as its reason.
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
        let refused = Refusal::with_advice("zram3 is busy", "swapoff /dev/zram3");
        assert_eq!(refused.to_string(), "zram3 is busy");
        let refused = refused.within("zstd:7");
        assert_eq!(refused.to_string(), "zstd:7: zram3 is busy");
        assert_eq!(Advice::next(&refused).as_deref(), Some("swapoff /dev/zram3"));
    }
}
