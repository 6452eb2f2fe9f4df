// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The runs of an experiment in the order in which they ran, its pairs, its intervals, and how its
//! workload went.

mod course;
mod intervals;
mod pairs;
mod runs;

pub use course::{latencies, settling};
pub use intervals::{arms, intervals};
pub use pairs::pairs;
pub use runs::runs;

use pagewise_model::{Trial, TrialMetric};

use super::{ARMS, Role};

/// The colour of an arm.
fn colour(trial: &Trial, arm: &str) -> &'static Role {
    let at = trial.arms.iter().position(|known| known.name == arm).unwrap_or(0);
    ARMS[at % ARMS.len()]
}

/// The arms that have something in a picture, each with its colour.
fn names(trial: &Trial, has: impl Fn(&str) -> bool) -> Vec<(&str, &'static Role)> {
    let shown = trial.arms.iter().filter(|arm| has(&arm.name));
    shown.map(|arm| (arm.name.as_str(), colour(trial, &arm.name))).collect()
}

fn percent(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

fn with_unit(metric: &TrialMetric) -> String {
    match metric.unit.as_str() {
        "said" => metric.name.clone(),
        unit => format!("{}, {unit}", metric.name),
    }
}
