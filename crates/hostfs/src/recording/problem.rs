// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Something in a recording that was not used ([`PartProblem`]).

use std::fmt;

use pagewise_model::{Name, Problem, Source};

/// A part of a recording that was not used, and why.
#[derive(Debug, Clone)]
pub(super) struct PartProblem {
    path: String,
    line: Option<u32>,
    pub(super) expected: String,
    pub(super) found: Vec<u8>,
}

impl PartProblem {
    pub(super) fn file(path: &str, expected: impl Into<String>, found: &[u8]) -> Self {
        Self::line(path, None, expected, found)
    }

    pub(super) fn line(
        path: &str,
        line: Option<u32>,
        expected: impl Into<String>,
        found: &[u8],
    ) -> Self {
        let path = Name::from(path).to_string();
        Self { path, line, expected: expected.into(), found: found.to_vec() }
    }

    pub(super) fn source(&self) -> Source {
        match self.line {
            Some(line) => Source::line(self.path.as_str(), line),
            None => Source::file(self.path.as_str()),
        }
    }
}

impl fmt::Display for PartProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Problem::new(&self.source(), self.expected.as_str(), &self.found).fmt(f)
    }
}
