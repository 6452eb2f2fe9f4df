// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures of a running machine before and after a change, and whether they show a difference.

use schemars::JsonSchema;
use serde::Serialize;

use crate::Ends;

/// Whether a measure differs between the period before a change and the period after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Difference {
    /// The measure is better after the change.
    Better,
    /// The measure is worse after the change.
    Worse,
    /// No difference is shown: there is none, it is too small to be seen, or it is unknown.
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
    /// Whether the measure counts for the verdict on the change; the others are only displayed.
    pub decides: bool,
    /// Median over the slices of time before the change; `null` if there are none.
    pub before: Option<f64>,
    /// Median over the slices of time after the change; `null` if there are none.
    pub after: Option<f64>,
    /// Number of slices of each period. Slices before and after the change are compared in pairs.
    pub slices: u32,
    /// The value after the change divided by the value before it, estimated from all pairs of
    /// slices; `null` if there are no slices.
    pub after_per_before: Option<f64>,
    /// The 99 % confidence interval of `after_per_before`; `null` with fewer than eight slices of
    /// each period.
    pub interval: Option<Ends<f64>>,
    /// Whether the measure differs between the periods.
    pub difference: Difference,
    /// Why no difference is shown; `null` if one is.
    pub why: Option<String>,
}

/// The verdict on whether a change helped, and the measures before and after it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PeriodsVerdict {
    /// Whether the change made the machine better or worse.
    pub difference: Difference,
    /// The reason for the verdict, in one sentence.
    pub why: String,
    /// Seconds after the change that were left out, because programs were still adapting to the
    /// change.
    pub settle_seconds: f64,
    /// Length of each of the two periods in seconds.
    pub watch_seconds: f64,
    /// The measures, with those that count for the verdict first.
    pub measures: Vec<MeasuredPeriods>,
    /// The measures that are unknown on this machine, and why.
    pub unknown: Vec<String>,
}
