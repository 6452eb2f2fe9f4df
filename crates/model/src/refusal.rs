// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why something that was asked for was not done, and what would help.

/// Prints as `what: why`; `next` is shown by whoever prints advice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {why}")]
pub struct Refusal {
    /// What was asked for, as `swap on /dev/zram1`.
    pub what: String,
    /// Why it was not done, the innermost cause last.
    pub why: String,
    /// What would help, if that is known.
    pub next: Option<String>,
}

impl Refusal {
    /// A refusal without advice.
    #[must_use]
    pub fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into(), next: None }
    }
}
