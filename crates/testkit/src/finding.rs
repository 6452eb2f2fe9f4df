// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A finding without texts, for tests of what is done with findings.

use pagewise_model::{Finding, Severity};

/// A finding of this rule and severity.
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
