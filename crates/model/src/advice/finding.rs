// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A diagnosis of the host, with the values that prove it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Source, Subject};

/// How urgent a finding is, from least to most.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know; does no harm today.
    Info,
    /// Memory or time is being wasted.
    Warning,
    /// Programs are slowed down or killed, or will be at the next peak.
    Critical,
}

impl Severity {
    /// The severity as JSON documents spell it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// A value that was read on the host, and its file, as proof of a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// The file on the host that the value was read from.
    pub path: String,
    /// The line in the file, counted from 1; `null` if the file is a single value.
    pub line: Option<u32>,
    /// The value with its unit. If it is a change over the interval, the text says so.
    pub value: String,
}

impl Evidence {
    /// Creates evidence: `value` was read from the file and line of `source`.
    pub fn new(source: &Source, value: String) -> Self {
        Self { path: source.path().to_owned(), line: source.line_number(), value }
    }
}

/// A diagnosis: what is wrong, why it matters, the Readings that prove it, and what to do next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// Stable name of the rule that reported the finding, such as `zram-unused`.
    pub id: &'static str,
    /// Which object the finding is about, if its rule can report several at the same time; left out
    /// otherwise. No two findings of a run have the same id and subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<Subject>,
    /// How urgent the finding is.
    pub severity: Severity,
    /// What is wrong, in one line without the id.
    pub title: String,
    /// The facts with their numbers, in one or two sentences.
    pub what: String,
    /// Two sentences that explain the cause or the harm.
    pub why: String,
    /// The values that prove the finding, with their files; never empty.
    pub evidence: Vec<Evidence>,
    /// Commands to run next, ready to paste, best first.
    pub next: Vec<String>,
}
