// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The remarks below a trial: how the result was obtained, and what makes it less certain.

use pagewise_model::{Trial, TrialMetric};

use crate::text::kit::{Page, Role};
use crate::{lineup, phrases};

pub(super) fn print(page: &mut Page, trial: &Trial) {
    page.gap();
    let mut quiet = |text: &str| {
        if !text.is_empty() {
            page.prose(2, Role::Quiet, text);
        }
    };
    quiet(&phrases::method(trial));
    // with more than two arms each has a detectable effect of its own
    let primary = trial.metrics.first().filter(|_| !lineup::has_more_than_two_arms(trial));
    let judged = primary.filter(|primary| phrases::is_judged(trial.clock, primary));
    if let Some(detectable) = judged.and_then(|it| it.detectable_effect) {
        quiet(&format!(
            "So many pairs of runs that vary like these show effects from about {} on.",
            phrases::effect(detectable)
        ));
    }
    quiet(&primary.map(outliers).unwrap_or_default());
    trial.notes.iter().for_each(|note| quiet(&phrases::sentence(note)));
}

fn outliers(metric: &TrialMetric) -> String {
    let runs: Vec<String> = metric.outliers.iter().map(ToString::to_string).collect();
    let (noun, verb) = match runs.len() {
        0 => return String::new(),
        1 => ("run", "It counts"),
        _ => ("runs", "They count"),
    };
    format!("Far from the others in {}: {noun} {}. {verb}.", metric.name, runs.join(", "))
}
