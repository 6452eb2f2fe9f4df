// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the paired values of one metric. Returns the verdict on arm B compared with arm A, and
//! how many more pairs would be needed to decide.
//!
//! Better and worse mean that the interval excludes 1; equivalent means that the whole interval is
//! closer to 1 than the smallest effect that matters. If both are true, the effect is real but too
//! small to matter, and the verdict is equivalent. No value is excluded: the estimate is robust
//! against outliers, which are only reported.

use pagewise_model::{TrialMetric, Verdict};

use crate::metric::Metric;
use crate::paired::{PairedRatio, median};

/// The size of the effect that is found in 80 of 100 experiments, divided by the size of the effect
/// that is found in half of them. An effect of 1.96 standard errors is found in half of them; 0.84
/// standard errors more are needed for 80.
const PROBABLY: f64 = (1.959_964 + 0.841_621) / 1.959_964;
/// Largest number of additional pairs that is suggested.
const TOO_MANY: f64 = 1000.0;

/// The values of one metric in both arms; those with the same index are a pair.
#[derive(Debug, Clone, Default)]
pub(crate) struct Series {
    pub(crate) a: Vec<f64>,
    pub(crate) b: Vec<f64>,
    /// Numbers of the runs of arm A.
    pub(crate) a_runs: Vec<u32>,
    pub(crate) b_runs: Vec<u32>,
}

/// Compares the values of a metric. If there is a reason why it cannot be judged, the result
/// contains the values and the reason but no verdict.
pub(crate) fn compare_unless(
    not_judged: Option<&str>,
    metric: &Metric,
    host_wide: bool,
    series: &Series,
    bound: Option<u32>,
    min_effect: f64,
) -> TrialMetric {
    let mut found = compare_metric(metric, host_wide, series, bound, min_effect);
    if let Some(why) = not_judged {
        found.verdict = Verdict::Undecided;
        (found.interval, found.more_pairs, found.detectable_effect) = (None, None, None);
        found.lack = Some(why.to_owned());
    }
    found
}

/// Compares the pairs of a metric.
pub(crate) fn compare_metric(
    metric: &Metric,
    host_wide: bool,
    series: &Series,
    bound: Option<u32>,
    min_effect: f64,
) -> TrialMetric {
    let [a, b] = [&series.a, &series.b].map(|values| with_half_event(metric, values));
    let ratio = PairedRatio::from_runs_with_rank(&a, &b, bound.map(|bound| bound as usize));
    let interval = ratio.and_then(|ratio| ratio.interval);
    let verdict = judge_interval(interval, min_effect, metric.higher_is_better);
    let decided = verdict != Verdict::Undecided;
    TrialMetric {
        name: metric.name.clone(),
        unit: metric.standard_row().map_or("said", |known| known.unit).to_owned(),
        kind: metric.kind(),
        higher_is_better: metric.higher_is_better,
        host_wide,
        a: median(&series.a),
        b: median(&series.b),
        b_per_a: ratio.map(|ratio| ratio.estimate),
        interval,
        verdict,
        more_pairs: ratio
            .filter(|_| !decided)
            .and_then(|ratio| estimate_more_pairs(&ratio, min_effect)),
        detectable_effect: interval.map(|ends| (half_width(ends) * PROBABLY).exp_m1()),
        outliers: [find_outliers(&a, &series.a_runs), find_outliers(&b, &series.b_runs)].concat(),
        lack: ratio.is_none().then(|| explain_missing_ratio(&series.a, &series.b)),
    }
}

/// Adds half an event to the values of a count, so that a ratio can be computed even if a count is
/// zero.
pub(crate) fn with_half_event(metric: &Metric, values: &[f64]) -> Vec<f64> {
    let more = if metric.is_whole() { 0.5 } else { 0.0 };
    values.iter().map(|value| value + more).collect()
}

fn explain_missing_ratio(a: &[f64], b: &[f64]) -> String {
    if a.is_empty() || b.is_empty() {
        "no pair of it is complete".to_owned()
    } else {
        "a ratio needs values above zero".to_owned()
    }
}

fn judge_interval(interval: Option<[f64; 2]>, min_effect: f64, higher_is_better: bool) -> Verdict {
    let Some([low, high]) = interval else { return Verdict::Undecided };
    let most = 1.0 + min_effect;
    if low >= 1.0 / most && high <= most {
        return Verdict::Equivalent;
    }
    let [if_more, if_less] = if higher_is_better {
        [Verdict::Better, Verdict::Worse]
    } else {
        [Verdict::Worse, Verdict::Better]
    };
    if low > 1.0 {
        if_more
    } else if high < 1.0 {
        if_less
    } else {
        Verdict::Undecided
    }
}

/// Half of the width of an interval, on a logarithmic scale.
fn half_width([low, high]: [f64; 2]) -> f64 {
    (high / low).ln() / 2.0
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 1 to a thousand")]
/// Returns the number of additional pairs after which the interval would probably exclude 1, or lie
/// entirely within the effects that do not matter.
fn estimate_more_pairs(ratio: &PairedRatio, min_effect: f64) -> Option<u32> {
    let Some(interval) = ratio.interval else {
        // with fewer than six pairs there is no interval to extrapolate from
        return u32::try_from(6_usize.saturating_sub(ratio.pairs)).ok().filter(|more| *more > 0);
    };
    let (effect, least) = (ratio.estimate.ln().abs(), min_effect.ln_1p());
    let room = effect.max(least - effect);
    let needed = ratio.pairs as f64 * (half_width(interval) * PROBABLY / room).powi(2);
    let more = (needed - ratio.pairs as f64).ceil().max(1.0);
    (more <= TOO_MANY).then_some(more as u32)
}

/// Numbers of the runs whose values differ from the median by more than 3.5 robust standard
/// deviations, and by more than 2 %.
fn find_outliers(values: &[f64], runs: &[u32]) -> Vec<u32> {
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let Some(middle) = median(&logs) else { return Vec::new() };
    let usual = robust_deviation(&logs, middle).max(0.02 / 3.5);
    let far = |(log, _): &(&f64, &u32)| (**log - middle).abs() > 3.5 * usual;
    logs.iter().zip(runs).filter(far).map(|(_, run)| *run).collect()
}

/// Estimates the standard deviation in a robust way, from the median of the absolute deviations.
pub(crate) fn robust_deviation(values: &[f64], middle: f64) -> f64 {
    let away: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    median(&away).unwrap_or(0.0) * 1.4826
}

/// Returns the smallest effect that this number of pairs will probably detect if runs vary by
/// `run_spread`.
pub fn detectable_effect(run_spread: f64, pairs: u32) -> f64 {
    let pairs = f64::from(pairs.max(1));
    // with few pairs, the interval is wider than their number alone implies; 0.955 is the
    // efficiency of rank statistics
    let width = 1.959_964 / (0.955 * pairs).sqrt() * (1.0 + 1.77 / pairs);
    (PROBABLY * width * run_spread * std::f64::consts::SQRT_2).exp_m1()
}

#[cfg(test)]
mod tests {
    use pagewise_model::Clock;

    use super::*;
    use crate::clock::explain_not_judged;

    fn compare(a: &[f64], b: &[f64], bound: Option<u32>) -> TrialMetric {
        let runs = |from: u32, values: &[f64]| (from..).take(values.len()).collect();
        let series =
            Series { a: a.to_vec(), b: b.to_vec(), a_runs: runs(1, a), b_runs: runs(100, b) };
        compare_metric(&Metric::new_time(), false, &series, bound, 0.02)
    }

    #[test]
    fn a_verdict_is_where_the_interval_lies() {
        let cases = [
            ([1.001, 1.05], Verdict::Worse),
            ([0.9, 0.999], Verdict::Better),
            ([0.985, 1.019], Verdict::Equivalent),
            ([1.001, 1.019], Verdict::Equivalent),
            ([0.97, 1.01], Verdict::Undecided),
            ([1.0, 1.05], Verdict::Undecided),
        ];
        for (interval, wanted) in cases {
            assert_eq!(judge_interval(Some(interval), 0.02, false), wanted, "{interval:?}");
            let turned = match wanted {
                Verdict::Better => Verdict::Worse,
                Verdict::Worse => Verdict::Better,
                same => same,
            };
            assert_eq!(judge_interval(Some(interval), 0.02, true), turned, "{interval:?}");
        }
        assert_eq!(judge_interval(None, 0.02, false), Verdict::Undecided);
        assert_eq!(judge_interval(Some([1.0, 1.0]), 0.0, false), Verdict::Equivalent);
    }

    #[test]
    fn counts_may_be_zero_and_times_may_not() {
        let faults = Metric::parse("major-faults").unwrap();
        let series = Series { a: vec![0.0; 7], b: vec![0.0; 7], ..Series::default() };
        let none = compare_metric(&faults, false, &series, Some(3), 0.02);
        assert_eq!((none.verdict, none.b_per_a), (Verdict::Equivalent, Some(1.0)));
        let series = Series { b: vec![40.0; 7], ..series };
        let some = compare_metric(&faults, false, &series, Some(3), 0.02);
        assert_eq!((some.verdict, some.b), (Verdict::Worse, Some(40.0)));
        let time = compare(&[0.0; 7], &[1.0; 7], Some(3));
        assert!(time.lack.unwrap().contains("above zero") && time.interval.is_none());
    }

    /// A share is not a count: adding half an event to it would distort it.
    #[test]
    fn shares_are_compared_as_they_are() {
        let efficiency = Metric::parse("scan-efficiency").unwrap();
        let series = Series { a: vec![0.2; 7], b: vec![0.9; 7], ..Series::default() };
        let found = compare_metric(&efficiency, false, &series, Some(3), 0.02);
        assert!((found.b_per_a.unwrap() - 4.5).abs() < 1e-9 && found.verdict == Verdict::Better);
    }

    #[test]
    fn a_clock_that_is_none_judges_no_time_and_keeps_the_values() {
        let series = Series { a: vec![1.0; 7], b: vec![2.0; 7], ..Series::default() };
        let judged = |clock, name: &str| {
            let metric = Metric::parse(name).unwrap();
            let why = explain_not_judged(metric.kind(), clock);
            compare_unless(why, &metric, false, &series, Some(3), 0.02)
        };
        for (clock, name, verdict) in [
            (Clock::Real, "time", Verdict::Worse),
            (Clock::Emulated, "time", Verdict::Undecided),
            (Clock::Emulated, "cpu", Verdict::Undecided),
            (Clock::Emulated, "p99", Verdict::Undecided),
            (Clock::Emulated, "refaults", Verdict::Worse),
            (Clock::Emulated, "precision", Verdict::Better),
            (Clock::Counted, "time", Verdict::Undecided),
            (Clock::Counted, "cpu", Verdict::Worse),
        ] {
            let found = judged(clock, name);
            assert_eq!(found.verdict, verdict, "{clock:?} {name}");
            assert_eq!((found.a, found.b, found.b_per_a.is_some()), (Some(1.0), Some(2.0), true));
            if verdict == Verdict::Undecided {
                assert!(found.lack.unwrap().contains("emulation") && found.more_pairs.is_none());
            }
        }
    }

    #[test]
    fn an_outlier_is_named_and_counts() {
        let a = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 3.0];
        let metric = compare(&a, &[1.0; 7], Some(3));
        assert_eq!(metric.outliers, [7]);
        assert!(metric.interval.unwrap()[0] < 0.9, "it widens the interval");
        let calm = compare(&[1.0; 7], &[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.01], Some(3));
        assert!(calm.outliers.is_empty());
    }

    #[test]
    fn more_pairs_are_advised_where_they_would_help() {
        let noisy = [1.1, 0.9, 1.06, 0.95, 1.04, 0.97, 1.02];
        let metric = compare(&[1.0; 7], &noisy, Some(3));
        assert!((30..500).contains(&metric.more_pairs.unwrap()), "{:?}", metric.more_pairs);
        assert_eq!(compare(&[1.0; 4], &[1.0; 4], None).more_pairs, Some(2));
        assert_eq!(compare(&[1.0; 7], &[2.0; 7], Some(3)).more_pairs, None, "it is decided");
    }
}
