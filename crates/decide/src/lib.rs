// SPDX-License-Identifier: Apache-2.0 OR MIT
//! [`Interval`] → [`Finding`]s. Pure: it reads no file, so every diagnosis replays from a recording.
//!
//! One file per rule under `rules/`, and one row per rule in [`RULES`]. A rule is silent when a
//! Reading that it needs is absent or denied.

mod facts;
mod proof;
mod rules;
#[cfg(test)]
mod testing;
mod text;

use pagewise_model::{Finding, Interval};

/// One diagnosis.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Stable name; the `id` of its findings.
    pub id: &'static str,
    /// What it looks for, in a sentence.
    pub doc: &'static str,
    /// Looks for it.
    pub look: fn(&Interval) -> Vec<Finding>,
}

/// Every rule.
pub static RULES: &[Rule] = rules::ALL;

/// Everything that is the case, most severe first, then in the order of [`RULES`].
pub fn diagnose(interval: &Interval) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| (rule.look)(interval)).collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}
