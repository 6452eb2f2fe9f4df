// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Descriptions of the rules of `pagewise doctor`, for reading before a rule reports something.

use schemars::JsonSchema;
use serde::Serialize;

use crate::Severity;

/// The description of one rule of `pagewise doctor`: what it detects and what it depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RuleExplanation {
    /// Stable name of the rule, which is also the `id` of its findings.
    pub id: &'static str,
    /// Lowest severity of the rule's findings.
    pub least: Severity,
    /// Highest severity of the rule's findings.
    pub most: Severity,
    /// What the rule detects, in a sentence.
    pub doc: &'static str,
    /// The files, and lines in them, that the rule reads.
    pub readings: &'static [&'static str],
    /// The thresholds for a finding, and for a higher severity.
    pub thresholds: &'static str,
    /// General advice on what to do; a finding has commands for the machine it was found on.
    pub act: &'static str,
}
