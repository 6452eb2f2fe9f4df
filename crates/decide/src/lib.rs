// SPDX-License-Identifier: Apache-2.0 OR MIT
//! [`Interval`] → [`Finding`]s. Pure: it reads no file, so every diagnosis replays from a recording.
//!
//! One file per rule under `rules/`, and one row per rule in [`RULES`]. A rule is silent when a
//! Reading that it needs is absent or denied.

#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod calm;
mod commands;
mod contents;
mod explain;
mod grade;
mod limits;
pub mod oom;
mod proof;
mod rules;
#[cfg(test)]
#[path = "../tests/rules/testing.rs"]
mod testing;
mod text;
pub mod thp_profile;
mod verdict;
pub mod watch;

use contents::CONTENTS_RULES;
pub use contents::{contents_may_tell, diagnose_contents, name_unknown_contents, unknown_contents};
pub use explain::{explanations, rules};
pub use limits::{LimitInputs, survey_limits};

use pagewise_model::{Finding, Interval};

pub use verdict::{judge, only_nodes_are_short};

/// One diagnosis.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Stable name; the `id` of its findings.
    pub id: &'static str,
    /// What it looks for, in a sentence.
    pub doc: &'static str,
    /// Looks for it.
    pub diagnose: fn(&Interval) -> Vec<Finding>,
}

/// Every rule.
pub static RULES: &[Rule] = rules::ALL;

/// Findings for which a plan may have steps: `pagewise plan --only ID` stands behind their own commands.
#[rustfmt::skip]
pub const PLANNED: &[&str] = &[
    "memory-low", "memory-pressure", "oom-kills", "memory-grows", "commit-limit", "swap-full", "swap-avoids-anon",
    "watermarks-extreme", "min-ttl-set", "zram-unused", "zswap-unused", "tier-order", "zram-full",
    "zram-zswap-stacked", "zram-oversized", "thp-coverage", "thp-bloat-guard-off", "hugetlb-unused", "fragmentation", "extfrag-threshold",
];

/// Everything that is the case, most severe first, then in the order of [`RULES`].
pub fn diagnose(interval: &Interval) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        RULES.iter().flat_map(|rule| (rule.diagnose)(interval)).collect();
    for finding in findings.iter_mut().filter(|finding| PLANNED.contains(&finding.id)) {
        finding.next.push(format!("pagewise plan --only {}", finding.id));
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

#[cfg(test)]
#[path = "../tests/rules/every_rule.rs"]
mod tests;
