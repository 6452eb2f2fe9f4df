// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Turns a trial and its runs into a row for each arm, and a row for each metric with the medians
//! of all arms.
//!
//! A trial stores its second arm apart from further ones, because most trials have two. This module
//! treats all arms alike. The medians are those of the pairs that were compared: an arm without a
//! successful run has none, however much its runs used before they ended.

use pagewise_model::{Trial, TrialArm, TrialComparison, TrialMetric, TrialRun, Verdict};

use crate::phrases;

/// The comparison of an arm with the first arm.
#[derive(Debug, Clone, Copy)]
pub struct ArmPair<'a> {
    /// The arm's name.
    pub arm: &'a str,
    /// The verdict on the primary metric.
    pub verdict: Verdict,
    /// Every metric, the primary one first.
    pub metrics: &'a [TrialMetric],
}

/// The comparisons of all arms but the first with the first, in order.
pub fn compare_with_first(trial: &Trial) -> Vec<ArmPair<'_>> {
    let second = trial.arms.get(1).map(|arm| ArmPair {
        arm: &arm.name,
        verdict: trial.verdict,
        metrics: &trial.metrics,
    });
    let further = trial.others.iter().map(|TrialComparison { arm, verdict, metrics, .. }| {
        ArmPair { arm, verdict: *verdict, metrics }
    });
    second.into_iter().chain(further).collect()
}

/// Whether there are more arms than two.
pub fn has_more_than_two_arms(trial: &Trial) -> bool {
    trial.arms.len() > 2
}

/// An arm with its result, and how its runs ended.
#[derive(Debug, Clone)]
pub struct Row<'a> {
    /// The arm.
    pub arm: &'a TrialArm,
    /// The verdict on the arm; `None` for the first arm, for an arm that was dropped, and if no
    /// judgement is possible.
    pub verdict: Option<Verdict>,
    /// The verdict on the arm in a word, or why there is none.
    pub word: String,
    /// The arm's change from the first arm, as `−24.9 %`; empty for the first arm.
    pub change: String,
    /// The interval of the change, as `−30.0 to −18.1 %`; empty for the first arm.
    pub interval: String,
    /// The median of the primary metric, with its unit; empty if there is none.
    pub median: String,
    /// How runs of the arm failed; empty if none did.
    pub ended: String,
}

/// A row of the overview for each arm, in order.
pub fn rows<'a>(trial: &'a Trial, runs: &[TrialRun]) -> Vec<Row<'a>> {
    let others = compare_with_first(trial);
    let row = |arm: &'a TrialArm| {
        let found = others.iter().find(|other| other.arm == arm.name);
        row(trial, runs, arm, found)
    };
    trial.arms.iter().map(row).collect()
}

fn row<'a>(
    trial: &'a Trial,
    runs: &[TrialRun],
    arm: &'a TrialArm,
    found: Option<&ArmPair<'_>>,
) -> Row<'a> {
    let dropped = trial.dropped.iter().find(|dropped| dropped.arm == arm.name);
    let primary = found.and_then(|found| found.metrics.first());
    let judged = primary.filter(|it| dropped.is_none() && phrases::is_judged(trial.clock, it));
    // the few rounds of a preview give no interval, and so no verdict
    let certain = judged.filter(|it| it.interval.is_some());
    let verdict = certain.and(found).map(|found| found.verdict);
    let (change, interval) = match (found, judged) {
        (None, _) => (String::new(), String::new()),
        (_, Some(judged)) => phrases::estimate(trial.clock, judged).into(),
        _ => (phrases::NONE.to_owned(), phrases::NONE.to_owned()),
    };
    let word = match (dropped, found, verdict) {
        (Some(_), ..) => "given up",
        (_, None, _) => "compared with",
        (.., Some(verdict)) => phrases::verdict(verdict),
        _ => phrases::NONE,
    };
    let failures = phrases::failures(runs, &arm.name);
    let why = dropped.map(|dropped| dropped.why.clone()).unwrap_or_default();
    Row {
        arm,
        verdict,
        word: word.to_owned(),
        change,
        interval,
        median: medians(trial)
            .into_iter()
            .next()
            .and_then(|of| of.describe_arm(arm))
            .unwrap_or_default(),
        ended: if failures.is_empty() { why } else { failures },
    }
}

/// The medians of one metric for all arms.
#[derive(Debug, Clone)]
pub struct Medians<'a> {
    /// The metric.
    pub metric: &'a TrialMetric,
    /// The arms that have a median, with the median in the metric's unit.
    pub values: Vec<(&'a str, f64)>,
}

impl Medians<'_> {
    /// The median of an arm, in the metric's unit.
    pub fn value(&self, arm: &TrialArm) -> Option<f64> {
        self.values.iter().find(|(name, _)| *name == arm.name).map(|(_, value)| *value)
    }

    /// The median of an arm with its unit.
    pub fn describe_arm(&self, arm: &TrialArm) -> Option<String> {
        self.value(arm).map(|value| phrases::value(self.metric, value))
    }
}

/// The medians of each metric, the primary one first; metrics without any median are left out.
pub fn medians(trial: &Trial) -> Vec<Medians<'_>> {
    let mut all: Vec<Medians<'_>> = Vec::new();
    for ArmPair { arm, metrics, .. } in compare_with_first(trial) {
        for metric in metrics {
            let at = all.iter().position(|known| known.metric.name == metric.name);
            let at = at.unwrap_or_else(|| {
                all.push(Medians { metric, values: Vec::new() });
                all.len() - 1
            });
            let first = trial.arms.first().map(|first| first.name.as_str());
            // the first arm's median is that of the first comparison that has one
            if let (Some(first), Some(value)) = (first, metric.a) {
                if !all[at].values.iter().any(|(name, _)| *name == first) {
                    all[at].values.push((first, value));
                }
            }
            all[at].values.extend(metric.b.map(|value| (arm, value)));
        }
    }
    all.retain(|of| !of.values.is_empty());
    all
}

/// Whether the metric is 0 in every arm.
pub fn is_zero_in_every_arm(medians: &Medians<'_>) -> bool {
    medians.values.iter().all(|(_, value)| *value == 0.0)
}
