// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Collects the Readings that prove a finding.
//!
//! For a file with many lines, a source like `/proc/vmstat:93` is not clear enough, so its evidence
//! also contains the kernel's name of the line. A Reading without a value adds no evidence.

use pagewise_model::{Change, Evidence, Quantity, Reading, Source};

/// Evidence in the order in which it is reported.
#[derive(Debug, Default)]
pub(crate) struct EvidenceList(Vec<Evidence>);

impl EvidenceList {
    /// Creates an empty list.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds the value of a file that contains a single value.
    pub(crate) fn value<T: Quantity>(mut self, reading: &Reading<T>) -> Self {
        self.0.extend(reading.evidence());
        self
    }

    /// Adds the value of one line or column of a file, with the kernel's name for it.
    pub(crate) fn named<T: Quantity>(mut self, name: &str, reading: &Reading<T>) -> Self {
        self.0.extend(reading.evidence().map(|evidence| prefix(name, evidence)));
        self
    }

    /// Adds the change of a counter.
    pub(crate) fn change(mut self, name: &str, change: &Change) -> Self {
        self.0.push(prefix(name, change.evidence()));
        self
    }

    /// Adds the change of a counter, if it is known.
    pub(crate) fn changed(self, name: &str, change: Option<&Change>) -> Self {
        match change {
            Some(change) => self.change(name, change),
            None => self,
        }
    }

    /// Adds a text about several values of one source.
    pub(crate) fn note(mut self, source: &Source, text: String) -> Self {
        self.0.push(Evidence::new(source, text));
        self
    }

    /// Adds evidence that was collected elsewhere.
    pub(crate) fn all(mut self, more: impl IntoIterator<Item = Evidence>) -> Self {
        self.0.extend(more);
        self
    }

    /// Returns the collected evidence for a finding.
    pub(crate) fn into_evidence(self) -> Vec<Evidence> {
        self.0
    }
}

fn prefix(name: &str, evidence: Evidence) -> Evidence {
    Evidence { value: format!("{name} {}", evidence.value), ..evidence }
}
