// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Findings that `doctor --journal` has reported before, and what has changed since.

use serde::{Deserialize, Serialize};

use crate::{Finding, Severity};

/// What the last run of `doctor --journal` knew. It is kept in a file between runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownFindings {
    /// The boot in which the run took place, if it is known.
    pub boot_id: Option<String>,
    /// The findings that the run reported and that had not ended.
    pub findings: Vec<KnownFinding>,
}

/// What is kept of a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownFinding {
    /// The id of the rule.
    pub id: String,
    /// The object that the finding is about, as text; `None` if its rule reports one finding only.
    pub about: Option<String>,
    /// The unit or container that the finding is about, if it is about a cgroup.
    pub unit: Option<String>,
    /// The highest severity since the finding began.
    pub severity: Severity,
    /// The title, as it was last reported.
    pub title: String,
    /// The files that proved the finding.
    pub evidence: Vec<String>,
    /// A number that grows with each new event of the same finding within a boot, such as a kill.
    pub newest_event: Option<u64>,
}

impl KnownFinding {
    /// Identifies the finding in all runs.
    pub fn key(&self) -> (&str, Option<&str>) {
        (&self.id, self.about.as_deref())
    }
}

/// How a finding differs from the last run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingChange {
    /// The last run did not have it.
    Begins,
    /// Its severity has never been so high since it began, or the same thing happened again, such as
    /// a kill.
    Worsens,
    /// It is over, or no longer reported.
    Ends(EndReason),
}

/// Why a finding ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// The values that proved it are normal now.
    Gone,
    /// The user has chosen to ignore its rule since.
    Ignored,
    /// Its severity is lower than the user wants to see.
    Below(Severity),
}

/// A finding that changed, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangedFinding {
    /// How it changed.
    pub change: FindingChange,
    /// What is kept of it; of a finding that ended, what was kept.
    pub known: KnownFinding,
    /// The finding in full; `None` if it ended.
    pub finding: Option<Finding>,
}
