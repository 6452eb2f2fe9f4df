// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The last line that a workload of ours prints ↔ its values and its course.

use std::collections::BTreeMap;

use pagewise_model::Course;
use serde::{Deserialize, Serialize};

/// What a workload of ours says at its end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadSummary {
    /// Which one it was.
    pub workload: String,
    /// By name, as in [`pagewise_stats::SAID`].
    pub values: BTreeMap<String, f64>,
    /// How it went.
    pub course: Course,
}

/// The answer of a workload of ours, where the command is one.
#[must_use]
pub fn said(output: &str) -> Option<WorkloadSummary> {
    let line = output.lines().rev().find(|line| line.starts_with("{\"workload\":"))?;
    serde_json::from_str(line).ok()
}
