// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes findings without texts, for tests of code that processes findings.

use pagewise_model::{Finding, Severity};

/// Makes a finding of this rule and severity.
pub fn finding(id: &'static str, severity: Severity) -> Finding {
    Finding {
        id,
        about: None,
        severity,
        title: String::new(),
        what: String::new(),
        why: String::new(),
        evidence: Vec::new(),
        next: Vec::new(),
    }
}
