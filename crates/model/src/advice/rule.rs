// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Descriptions of the rules of `pagewise doctor`, for reading before a rule reports something.

use schemars::JsonSchema;
use serde::Serialize;

use crate::Severity;

/// A rule and what it depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RuleExplanation {
    /// Stable name; the `id` of its findings.
    pub id: &'static str,
    /// Lowest severity of its findings.
    pub least: Severity,
    /// Highest severity of its findings.
    pub most: Severity,
    /// What it detects, in a sentence.
    pub doc: &'static str,
    /// The files and lines that it reads.
    pub readings: &'static [&'static str],
    /// The thresholds for a finding, and for a higher severity.
    pub thresholds: &'static str,
    /// General advice; a finding has commands for its machine.
    pub act: &'static str,
}
