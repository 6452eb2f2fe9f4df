// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes the result of an experiment from its description and its raw runs.
//!
//! There is no other input, so that everybody who has the raw runs gets the same result. Pairs in
//! which a run failed are counted but not compared. Dropped arms are not compared; if the first arm
//! was dropped, the next one takes its place.

use pagewise_model::{
    MetricKind, Trial, TrialArm, TrialComparison, TrialMetric, TrialNoise, TrialRun, Verdict,
};

use crate::boundary::{plan_looks, plan_looks_until};
use crate::clock::explain_not_judged;
use crate::compare::{Series, compare_unless, robust_deviation};
use crate::experiment::Experiment;
use crate::forecast::forecast;
use crate::metric::Metric;
use crate::name::TIME;
use crate::paired::median;
use crate::standard_metrics::{KNOWN, StandardMetric};
use crate::swap_kinds::explain_not_comparable;
use crate::workload_metrics::SAID;
use crate::{dropped, idle, notes};

/// Computes the result of an experiment from its runs.
#[must_use]
pub fn judge(experiment: &Experiment, runs: &[TrialRun]) -> Trial {
    let dropped = dropped::find_dropped_arms(experiment, runs);
    let gone = experiment.arms.iter().filter(|arm| dropped.iter().any(|it| it.arm == arm.name));
    let gone: Vec<TrialArm> = gone.cloned().collect();
    let first = experiment.arms.first().map(|arm| arm.name.clone());
    let kept = dropped::find_kept_arms(experiment, &dropped).into_iter().cloned().collect();
    let experiment = &Experiment { arms: kept, ..experiment.clone() };
    let names = experiment.arms.iter().map(|arm| arm.name.as_str());
    let mut all: Vec<TrialComparison> =
        names.skip(1).map(|arm| compare_with_first(experiment, runs, arm)).collect();
    let TrialComparison { verdict, pairs, failed_pairs, metrics, .. } = all.remove(0);
    let mut trial = Trial {
        verdict,
        primary: experiment.primary().name.clone(),
        metrics,
        pairs,
        failed_pairs,
        planned_pairs: experiment.pairs,
        looks: plan_looks(experiment.pairs),
        arms: [experiment.arms.clone(), gone].concat(),
        others: all,
        program: experiment.program.clone(),
        clock: experiment.clock,
        dropped,
        memory_limit_bytes: experiment.memory_limit_bytes,
        min_effect: experiment.min_effect,
        seed: experiment.seed,
        warm_up_runs: count(runs.iter().filter(|run| run.pair.is_none()).count()),
        forecast: forecast(experiment, runs),
        noise: noise(experiment, runs),
        notes: Vec::new(),
        stopped: None,
        seconds: runs.iter().map(|run| run.started_seconds + seconds(run)).fold(0.0, f64::max),
    };
    trial.stopped = explain_stop(&trial);
    let idle = idle::compose_note(&trial, runs);
    if idle.is_some() {
        advise_no_pairs(&mut trial);
    }
    let notes = notes::compose(&trial, runs, first.as_deref(), experiment);
    trial.notes = idle.into_iter().chain(notes).collect();
    trial
}

/// Removes the advice to run more pairs from a trial in which more pairs would not help.
fn advise_no_pairs(trial: &mut Trial) {
    let others = trial.others.iter_mut().flat_map(|other| &mut other.metrics);
    trial.metrics.iter_mut().chain(others).for_each(|metric| metric.more_pairs = None);
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Returns the duration of a run in seconds; 0 if the run failed before its duration was measured.
pub(crate) fn seconds(run: &TrialRun) -> f64 {
    run.values.get(TIME).copied().unwrap_or(0.0)
}

fn explain_stop(trial: &Trial) -> Option<String> {
    let ran = trial.pairs + trial.failed_pairs;
    let is_look = trial.looks.iter().any(|look| look.pairs == trial.pairs);
    let decided = is_look && trial.verdict != Verdict::Undecided;
    let short = ran < trial.planned_pairs && !decided;
    short.then(|| format!("only {ran} of {} pairs were run", trial.planned_pairs))
}

/// The run of the first arm and the run of another arm in the same pair.
type Pair<'a> = (&'a TrialRun, &'a TrialRun);

/// Returns the pairs of runs of the first arm and another arm, in order. Pairs with failed runs are
/// included.
fn pairs_of_runs<'a>(experiment: &Experiment, runs: &'a [TrialRun], arm: &str) -> Vec<Pair<'a>> {
    let first = experiment.arms.first().map_or("a", |arm| &arm.name);
    let of = |name: &str, pair: u32| {
        runs.iter().find(move |run| run.pair == Some(pair) && run.arm == name)
    };
    (1..=experiment.pairs).filter_map(|pair| of(first, pair).zip(of(arm, pair))).collect()
}

/// Compares one arm with the first arm.
fn compare_with_first(experiment: &Experiment, runs: &[TrialRun], arm: &str) -> TrialComparison {
    let (good, failed): (Vec<_>, Vec<_>) = pairs_of_runs(experiment, runs, arm)
        .into_iter()
        .partition(|(a, b)| a.end.is_good() && b.end.is_good());
    let bound =
        plan_looks_until(experiment.pairs, count(good.len())).last().and_then(|it| it.bound);
    let named = |name: &str| experiment.arms.iter().find(|arm| arm.name == name);
    let between = experiment.arms.first().zip(named(arm));
    let metrics: Vec<TrialMetric> = metrics_to_compare(experiment, &good)
        .into_iter()
        .map(|metric| {
            let series = series(&metric, &good);
            let host_wide = good.iter().any(|(a, _)| a.host_wide.contains(&metric.name));
            let least = experiment.min_effect;
            let why = explain_not_judged(metric.kind(), experiment.clock)
                .or_else(|| between.and_then(|(a, b)| explain_not_comparable(&metric.name, a, b)));
            compare_unless(why, &metric, host_wide, &series, bound, least)
        })
        .collect();
    TrialComparison {
        arm: arm.to_owned(),
        verdict: metrics.first().map_or(Verdict::Undecided, |primary| primary.verdict),
        pairs: count(good.len()),
        failed_pairs: count(failed.len()),
        metrics,
    }
}

/// Returns the metrics to compare: those that the user requested, and all others that every run
/// has, with the most reliable kind first.
fn metrics_to_compare(experiment: &Experiment, good: &[Pair<'_>]) -> Vec<Metric> {
    let asked = |name: &str| experiment.metrics.iter().any(|metric| metric.name == name);
    let runs = || good.iter().flat_map(|(a, b)| [a, b]);
    let describe = |known: &StandardMetric| {
        let values = || runs().map(|run| run.values.get(known.name).copied());
        // metrics whose values are all zero are not compared, such as kswapd's CPU time if it never
        // ran
        let is_some = known.kind == MetricKind::Count || values().flatten().any(|it| it > 0.0);
        values().all(|value| value.is_some()) && (is_some || good.is_empty())
    };
    // without any run, `all` would be true for every metric
    let message = SAID.iter().filter(|_| !good.is_empty());
    let known = KNOWN.iter().chain(message);
    let guards = known.filter(|known| !asked(known.name) && describe(known));
    let mut guards: Vec<Metric> =
        guards.filter_map(|known| Metric::parse(known.name).ok()).collect();
    guards.sort_by_key(Metric::kind);
    experiment.metrics.iter().cloned().chain(guards).collect()
}

/// Returns the values of a metric in all pairs in which both runs have it.
fn series(metric: &Metric, good: &[Pair<'_>]) -> Series {
    let mut series = Series::default();
    for (a, b) in good {
        if let (Some(one), Some(other)) = (a.values.get(&metric.name), b.values.get(&metric.name)) {
            series.a.push(*one);
            series.b.push(*other);
            series.a_runs.push(a.number);
            series.b_runs.push(b.number);
        }
    }
    series
}

fn noise(experiment: &Experiment, runs: &[TrialRun]) -> TrialNoise {
    let time: f64 = runs.iter().map(seconds).sum();
    let per_second = |of: fn(&TrialRun) -> Option<f64>| {
        let sum = runs.iter().map(of).sum::<Option<f64>>()?;
        (time > 0.0).then(|| sum / time)
    };
    TrialNoise {
        others_processors: per_second(|run| run.others_cpu_seconds),
        stolen_processors: per_second(|run| run.stolen_seconds),
        slept_seconds: runs.iter().map(|run| run.slept_seconds).sum(),
        run_spread: run_spread(experiment, runs),
    }
}

fn run_spread(experiment: &Experiment, runs: &[TrialRun]) -> Option<f64> {
    let other = experiment.arms.get(1)?;
    let good: Vec<_> = pairs_of_runs(experiment, runs, &other.name)
        .into_iter()
        .filter(|(a, b)| a.end.is_good() && b.end.is_good())
        .collect();
    let series = series(experiment.primary(), &good);
    let logs: Vec<f64> = series.a.iter().zip(&series.b).map(|(a, b)| (b / a).ln()).collect();
    let spread = robust_deviation(&logs, median(&logs)?) / std::f64::consts::SQRT_2;
    spread.is_finite().then_some(spread)
}
