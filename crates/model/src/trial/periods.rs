// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was measured before and after a change of a running machine, and whether it shows a
//! difference.

use schemars::JsonSchema;
use serde::Serialize;

use crate::Ends;

/// Whether a measure differs between the time before a change and the time after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Difference {
    /// It is better after the change.
    Better,
    /// It is worse after the change.
    Worse,
    /// No difference is shown: there is none, it is small, or it is unknown.
    NotShown,
}

/// One measure before and after a change.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MeasuredPeriods {
    /// What was measured, in words.
    pub name: String,
    /// Unit of the values, such as `ms/s` (milliseconds per second) or `1/s`.
    pub unit: String,
    /// Whether larger values are better.
    pub higher_is_better: bool,
    /// Whether the measure takes part in the decision; the others are shown only.
    pub decides: bool,
    /// Median of the slices before the change; `null` if there are none.
    pub before: Option<f64>,
    /// Median of the slices after the change; `null` if there are none.
    pub after: Option<f64>,
    /// Number of slices of each period that were compared in pairs.
    pub slices: u32,
    /// Estimated ratio of the time after to the time before; `null` if there are no slices.
    pub after_per_before: Option<f64>,
    /// The 99 % interval of the ratio; `null` with fewer than eight slices of each period.
    pub interval: Option<Ends<f64>>,
    /// Whether it differs.
    pub difference: Difference,
    /// Why no difference is shown; `null` if one is.
    pub why: Option<String>,
}

/// Whether a change helped, from what was measured before and after it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PeriodsVerdict {
    /// Whether the change made a difference.
    pub difference: Difference,
    /// Why, in one sentence.
    pub why: String,
    /// Seconds after the change that were not judged, because programs were adapting to it.
    pub settle_seconds: f64,
    /// Seconds of each of the two periods.
    pub watch_seconds: f64,
    /// The measures, those that decide first.
    pub measures: Vec<MeasuredPeriods>,
    /// What is unknown on this machine, and why.
    pub unknown: Vec<String>,
}
