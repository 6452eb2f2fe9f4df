// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A diagnosis with its proof.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Source;

/// How much a finding matters. Orders from least to most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; nothing is lost today.
    Info,
    /// Memory or time is being wasted.
    Warning,
    /// Work is being hurt, or will be at the next peak.
    Critical,
}

/// One Reading that proves a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// The file on the host.
    pub path: String,
    /// The line in it, counted from 1; `null` where the file is one value.
    pub line: Option<u32>,
    /// What it said, with its unit; where it is a change over the interval, that is said.
    pub value: String,
}

impl Evidence {
    /// Proof that `source` said `value`.
    pub fn new(source: &Source, value: String) -> Self {
        Self { path: source.path().to_owned(), line: source.line_number(), value }
    }
}

/// A diagnosis: what is the case, why it matters, the Readings that prove it, what to do next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// Stable name of the rule, as `zram-unused`.
    pub id: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// One line, without the id: what is the case.
    pub title: String,
    /// The facts with their numbers, in one or two sentences.
    pub what: String,
    /// Two sentences that teach why this happens or hurts.
    pub why: String,
    /// The Readings that prove it; never empty.
    pub evidence: Vec<Evidence>,
    /// Commands to run next, ready to paste, best first.
    pub next: Vec<String>,
}
