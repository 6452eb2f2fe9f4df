// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The findings that `doctor --journal` has already reported, and what has changed since.

use serde::{Deserialize, Serialize};

use crate::{Finding, Severity};

/// The findings that the last run of `doctor --journal` reported. They are kept in a file between
/// runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownFindings {
    /// The boot in which the run took place, if it is known.
    pub boot_id: Option<String>,
    /// The findings that the run reported as present.
    pub findings: Vec<KnownFinding>,
}

/// The part of a finding that is kept between runs.
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
    /// The rule's id and the object, which together identify the finding in all runs.
    pub fn key(&self) -> (&str, Option<&str>) {
        (&self.id, self.about.as_deref())
    }
}

/// How a finding differs from the last run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingChange {
    /// The last run did not report the finding.
    Begins,
    /// The severity is higher than ever before since the finding began, or the event that it
    /// reports, such as a kill, occurred again.
    Worsens,
    /// The finding is not reported any more, for this reason.
    Ends(EndReason),
}

/// Why a finding ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// The values that proved the finding are normal now.
    Gone,
    /// The user has set the finding's rule to be ignored since the last run.
    Ignored,
    /// The finding's severity is lower than this minimum, which the user has set.
    Below(Severity),
}

/// A finding that changed, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangedFinding {
    /// How the finding changed.
    pub change: FindingChange,
    /// The part of the finding that is kept for the next run; if the finding ended, the part that
    /// the last run kept.
    pub known: KnownFinding,
    /// The finding in full; `None` if it ended.
    pub finding: Option<Finding>,
}
