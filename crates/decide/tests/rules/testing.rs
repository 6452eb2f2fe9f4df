// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Made-up hosts, and helpers that check the findings of a rule.

use pagewise_model::{Finding, Interval};
pub(crate) use pagewise_testkit::made_host::*;

use crate::Rule;

/// The rule's only finding.
pub(crate) fn only(rule: &Rule, interval: &Interval) -> Finding {
    let mut findings = (rule.diagnose)(interval);
    assert_eq!(findings.len(), 1, "{}: {findings:#?}", rule.id);
    findings.remove(0)
}

/// Checks that the rule gives no finding.
#[track_caller]
pub(crate) fn assert_silent(rule: &Rule, interval: &Interval) {
    let findings = (rule.diagnose)(interval);
    assert!(findings.is_empty(), "{}: {findings:#?}", rule.id);
}

/// The evidence as text, one line each.
pub(crate) fn proof_of(finding: &Finding) -> String {
    let lines = finding.evidence.iter().map(|evidence| {
        let number = evidence.line.map_or_else(String::new, |line| format!(":{line}"));
        format!("{}{number} = {}\n", evidence.path, evidence.value)
    });
    lines.collect()
}
