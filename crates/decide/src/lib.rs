// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Derives [`Finding`]s from an [`Interval`]. Pure: it reads no files, so every diagnosis can be
//! repeated from a recording.
//!
//! Each rule has a file under `rules/` and a row in [`RULES`]. A rule reports nothing if a Reading
//! that it needs is absent or denied.

#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod calm;
mod commands;
mod contents;
mod explain;
pub mod follow;
mod grade;
pub mod incident;
mod io_limit;
mod limit_change;
mod limits;
pub mod oom;
mod order;
mod proof;
mod rules;
mod service;
#[cfg(test)]
#[path = "../tests/rules/testing.rs"]
mod testing;
mod text;
pub mod thp_profile;
mod verdict;
pub mod watch;

use contents::CONTENTS_RULES;
pub use contents::{
    describe_unknown_contents, diagnose_contents, explain_unknown_contents, is_sampling_useful,
};
pub use explain::{explanations, rules};
pub use limits::{LimitInputs, survey_limits};

use pagewise_model::{Finding, Interval};

pub use service::judge_service;
pub use verdict::{are_only_nodes_short, is_host_short, judge};

/// A rule: detects one problem of a host and reports it as findings.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Stable name of the rule; the `id` of its findings.
    pub id: &'static str,
    /// What the rule detects, in a sentence.
    pub doc: &'static str,
    /// The function that applies the rule to a host.
    pub diagnose: fn(&Interval) -> Vec<Finding>,
}

/// Every rule that needs no page contents.
pub static RULES: &[Rule] = rules::ALL;

/// Ids of the rules whose findings a plan may fix. For these, `pagewise plan --only ID` is printed
/// after the rule's own commands.
#[rustfmt::skip]
pub const PLANNED: &[&str] = &[
    "memory-low", "memory-pressure", "oom-kills", "memory-grows", "commit-limit", "swap-full", "swap-avoids-anon",
    "watermarks-extreme", "min-ttl-set", "zram-unused", "zswap-unused", "tier-order", "zram-full",
    "zram-zswap-stacked", "zram-oversized", "thp-coverage", "thp-bloat-guard-off", "hugetlb-unused", "fragmentation", "extfrag-threshold",
];

/// Returns all findings on this host, most severe first. Findings of the same severity are sorted
/// by their cost, then in the order of [`RULES`].
pub fn diagnose(interval: &Interval) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        RULES.iter().flat_map(|rule| (rule.diagnose)(interval)).collect();
    for finding in findings.iter_mut().filter(|finding| PLANNED.contains(&finding.id)) {
        finding.next.push(format!("pagewise plan --only {}", finding.id));
    }
    order::arrange(interval, &mut findings);
    findings
}

/// How many seconds ago the problem of this finding ended: memory pressure that is over, or a kill
/// in a cgroup that no longer exists. `None` if the problem is still present, or if it has no end.
pub fn ended_seconds_ago(interval: &Interval, finding: &Finding) -> Option<f64> {
    match finding.id {
        rules::PRESSURE => pagewise_facts::stalls::ended_seconds_ago(interval),
        oom::RULE => rules::kill_ended_seconds_ago(interval, finding),
        _ => None,
    }
}

#[cfg(test)]
#[path = "../tests/rules/every_rule.rs"]
mod tests;
