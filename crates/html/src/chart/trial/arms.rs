// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions that the charts of a trial share. They say how arms (variants), ratios and metrics are
//! displayed.

use pagewise_model::{Trial, TrialMetric};

use super::super::colours::{ARMS, Role};

/// Returns the colour of an arm.
pub(super) fn colour(trial: &Trial, arm: &str) -> &'static Role {
    let at = trial.arms.iter().position(|known| known.name == arm).unwrap_or(0);
    ARMS[at % ARMS.len()]
}

/// Returns the arms that occur in a chart, with their colours.
pub(super) fn names(trial: &Trial, has: impl Fn(&str) -> bool) -> Vec<(&str, &'static Role)> {
    let shown = trial.arms.iter().filter(|arm| has(&arm.name));
    shown.map(|arm| (arm.name.as_str(), colour(trial, &arm.name))).collect()
}

/// Converts a ratio to its deviation from 1, in percent.
pub(super) fn percent(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

/// Returns the name of a metric with its unit, if it has one.
pub(super) fn with_unit(metric: &TrialMetric) -> String {
    match metric.unit.as_str() {
        "said" => metric.name.clone(),
        unit => format!("{}, {unit}", metric.name),
    }
}
