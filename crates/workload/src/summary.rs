// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes and parses the last line of a workload's output, which has its values and its course.

use std::collections::BTreeMap;

use pagewise_model::Course;
use serde::{Deserialize, Serialize};

/// The result of a workload: its values and its course.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadSummary {
    /// Name of the workload.
    pub workload: String,
    /// Values of metrics by name, as in [`pagewise_stats::SAID`].
    pub values: BTreeMap<String, f64>,
    /// Course of the workload over its iterations.
    pub course: Course,
}

/// Parses the result in the output of a command; `None` if the output is not that of a workload.
#[must_use]
pub fn parse_summary(output: &str) -> Option<WorkloadSummary> {
    let line = output.lines().rev().find(|line| line.starts_with("{\"workload\":"))?;
    serde_json::from_str(line).ok()
}
