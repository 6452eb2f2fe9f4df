// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Made-up hosts, and what a rule finds on one.

use pagewise_model::{Finding, Interval};
pub(crate) use pagewise_testkit::made_host::*;

use crate::Rule;

/// The rule's only finding.
pub(crate) fn only(rule: &Rule, interval: &Interval) -> Finding {
    let mut findings = (rule.diagnose)(interval);
    assert_eq!(findings.len(), 1, "{}: {findings:#?}", rule.id);
    findings.remove(0)
}

/// Whether the rule has nothing to say.
#[track_caller]
pub(crate) fn assert_silent(rule: &Rule, interval: &Interval) {
    let findings = (rule.diagnose)(interval);
    assert!(findings.is_empty(), "{}: {findings:#?}", rule.id);
}

/// The evidence as one text, a line each.
pub(crate) fn proof_of(finding: &Finding) -> String {
    let lines = finding.evidence.iter().map(|evidence| {
        let number = evidence.line.map_or_else(String::new, |line| format!(":{line}"));
        format!("{}{number} = {}\n", evidence.path, evidence.value)
    });
    lines.collect()
}
