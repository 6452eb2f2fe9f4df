// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a rule of the doctor looks for, for people who want to know before it fires.

use schemars::JsonSchema;
use serde::Serialize;

use crate::Severity;

/// A rule and what it goes by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RuleExplanation {
    /// Stable name; the `id` of its findings.
    pub id: &'static str,
    /// The least that its findings matter.
    pub least: Severity,
    /// The most.
    pub most: Severity,
    /// What it looks for, in a sentence.
    pub doc: &'static str,
    /// The files and lines that it needs.
    pub readings: &'static [&'static str],
    /// From where on it speaks, and what makes it more severe.
    pub thresholds: &'static str,
    /// What to do about it, in general; a finding has commands for its machine.
    pub act: &'static str,
}
