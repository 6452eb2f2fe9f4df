// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Predicts from the warm-up runs how small an effect the planned pairs of runs will probably show.
//!
//! Two or three differences between A and B are too few to know how much they vary, so that a
//! forecast may be off by 50 %. The first warm-up run is not used, because it fills caches.

use pagewise_model::{TrialForecast, TrialRun};

use crate::compare::{detectable_effect, with_half_event};
use crate::experiment::Experiment;
use crate::name::TIME;

/// Maximum number of pairs that a forecast contains.
const TOO_MANY: u32 = 10_000;

/// Predicts the precision after all pairs from the runs of the warm-up; `None` if no arm had two
/// successful runs.
#[must_use]
pub fn forecast(experiment: &Experiment, runs: &[TrialRun]) -> Option<TrialForecast> {
    let warm: Vec<&TrialRun> = runs
        .iter()
        .filter(|run| run.pair.is_none() && run.number > 1 && run.end.is_good())
        .collect();
    let run_spread = estimate_spread(experiment, &warm)?;
    let times = warm.iter().filter_map(|run| run.values.get(TIME));
    let mean = times.clone().sum::<f64>() / times.count() as f64;
    let enough = |pairs: &u32| detectable_effect(run_spread, *pairs) <= experiment.min_effect;
    Some(TrialForecast {
        run_spread,
        detectable_effect: detectable_effect(run_spread, experiment.pairs),
        pairs_for_min_effect: (6..TOO_MANY).find(enough).unwrap_or(TOO_MANY),
        seconds: mean * f64::from(experiment.pairs) * experiment.arms.len() as f64,
    })
}

/// Computes how much runs of the same arm vary in the primary metric, from consecutive runs.
fn estimate_spread(experiment: &Experiment, warm: &[&TrialRun]) -> Option<f64> {
    let metric = experiment.primary();
    let mut squares = Vec::new();
    for arm in &experiment.arms {
        let of_arm = warm.iter().filter(|run| run.arm == arm.name);
        let values: Vec<f64> =
            of_arm.filter_map(|run| run.values.get(&metric.name).copied()).collect();
        let values = with_half_event(metric, &values);
        squares.extend(values.windows(2).map(|two| (two[1] / two[0]).ln().powi(2)));
    }
    let mean = squares.iter().sum::<f64>() / squares.len() as f64;
    mean.is_finite().then(|| (mean / 2.0).sqrt())
}
