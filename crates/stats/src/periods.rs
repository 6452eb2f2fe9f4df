// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Judges one change of a running machine from measurements before and after it, in short intervals
//! of time (*slices*).
//!
//! An experiment draws the order of its runs at random, so that chance alone cannot favour one arm.
//! Here there is only one order, before and then after, and programs continue to change meanwhile:
//! they warm up, work in bursts, and end. A difference therefore needs more than the interval of
//! paired slices ([`PairedRatio`]): four fifths of the slices of one period must be better than
//! four fifths of the other; the trend within the periods must not explain the difference; and the
//! load of the programs must not have decreased. If one of these conditions is not met, the verdict
//! is "no difference shown".
//!
//! One case cannot be detected: a load that changes at the same moment without a change of user CPU
//! time.

use pagewise_model::{Difference, MeasuredPeriods, PeriodsVerdict};

use crate::paired::{PairedRatio, median, rank_of_bound};

/// The smallest difference that counts: a ratio of 1.1 or more, or its inverse.
const LEAST: f64 = 1.1;
/// The whole confidence interval must differ from 1 by at least this ratio.
const SURE: f64 = 1.05;
/// If the user CPU times of the two periods have at least this ratio, their loads are considered
/// different.
const OTHER_LOAD: f64 = 1.25;
/// Accepted probability that the interval misses the true ratio. It is smaller than that of an
/// experiment, because several measures are compared and neighbouring slices are similar.
const MISSES: f64 = 0.01;
/// Minimum number of slices in each period for an interval with this probability.
const FEWEST: usize = 8;

/// The role of a measure in the verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// The user named this measure, and it alone decides.
    Named,
    /// The measure decides. The first such measure that shows a difference is used.
    Decides,
    /// The measure decides if it is better. If it is worse, it decides only if the first measure is
    /// not known, because pages that are read again from RAM cost less than pages from a disk.
    Supports,
    /// The measure shows how much work the programs had to do.
    Load,
    /// The measure is only displayed.
    Shown,
}

/// A measure, with a value for each slice of both periods.
#[derive(Debug, Clone, PartialEq)]
pub struct Periods {
    /// What was measured, in words.
    pub name: String,
    /// Unit of the values.
    pub unit: String,
    /// Whether larger values are better.
    pub higher_is_better: bool,
    /// The role of the measure in the verdict.
    pub purpose: Use,
    /// Whether the measure changes when a load ends, as a rate of requests does.
    pub is_of_load: bool,
    /// Values up to this size count as nothing. It is added to both sides of a ratio, so that the
    /// ratio exists even for slices without any event.
    pub least: f64,
    /// The values of the slices before the change.
    pub before: Vec<f64>,
    /// The values of the slices after the change.
    pub after: Vec<f64>,
}

impl Periods {
    fn slices(&self) -> usize {
        self.before.len().min(self.after.len())
    }

    fn ratio(&self) -> Option<PairedRatio> {
        let more = |values: &[f64]| -> Vec<f64> {
            values[..self.slices()].iter().map(|value| value.max(0.0) + self.least).collect()
        };
        let bound = rank_of_bound(self.slices(), MISSES);
        PairedRatio::from_runs_with_rank(&more(&self.before), &more(&self.after), bound)
    }

    fn difference(&self, is_more: bool) -> Difference {
        if is_more == self.higher_is_better { Difference::Better } else { Difference::Worse }
    }

    /// Estimates the difference of the measure's logarithm between the periods, in the direction of
    /// the difference, that would result if the trend within the periods continued. `apart` is the
    /// distance between the middles of the periods, in lengths of a period. The slope is the median
    /// of all slopes (Theil and Sen).
    fn estimate_drift(&self, is_more: bool, apart: f64) -> f64 {
        let logs = |values: &[f64]| -> Vec<f64> {
            values.iter().map(|value| (value.max(0.0) + self.least).ln()).collect()
        };
        let [before, after] = [&self.before, &self.after].map(|values| slopes(&logs(values)));
        let sign = if is_more { 1.0 } else { -1.0 };
        let slope = |slopes: &[f64]| sign * median(slopes).unwrap_or(0.0);
        let steepest = slope(&before).max(slope(&[before, after].concat()));
        steepest.max(0.0) * apart * self.slices() as f64
    }

    /// Returns whether the measure differs; as an error, why no difference is shown.
    fn compare(&self, apart: f64) -> Result<Difference, String> {
        let slices = self.slices();
        if slices == 0 {
            return Err("it could not be read".to_owned());
        }
        if slices < FEWEST {
            let s = if slices == 1 { "" } else { "s" };
            return Err(format!("{slices} slice{s} of each period, {FEWEST} are needed"));
        }
        let [before, after] =
            [&self.before, &self.after].map(|values| median(values).unwrap_or(0.0));
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let is_little = |values: &[f64]| mean(values) <= self.least;
        if is_little(&self.before) && is_little(&self.after) {
            return Err("there is next to none of it before and after".to_owned());
        }
        let Some((ratio, [low, high])) = self.ratio().and_then(|it| Some((it, it.interval?)))
        else {
            return Err("a ratio needs values above zero".to_owned());
        };
        let is_more = ratio.estimate > 1.0;
        if (1.0 / LEAST..=LEAST).contains(&ratio.estimate) {
            return Err("the difference is smaller than 10 %".to_owned());
        }
        if low <= SURE && high >= 1.0 / SURE {
            return Err("the difference is not larger than the noise".to_owned());
        }
        if !are_apart(&self.before, &self.after, is_more) {
            return Err("it comes in bursts, and the slices of both periods overlap".to_owned());
        }
        let effect = ratio.estimate.ln().abs();
        if effect - self.estimate_drift(is_more, apart) < LEAST.ln() {
            let how = if is_more { "rising" } else { "falling" };
            return Err(format!("it was {how} by itself, before the change too"));
        }
        // if the medians contradict the ratio, which does not happen with usual noise, no
        // difference is shown
        if (after > before) != is_more {
            return Err("the medians and the pairs disagree".to_owned());
        }
        Ok(self.difference(is_more))
    }

    fn to_measured(&self, apart: f64) -> MeasuredPeriods {
        let ratio = self.ratio();
        let compared = self.compare(apart);
        MeasuredPeriods {
            name: self.name.clone(),
            unit: self.unit.clone(),
            higher_is_better: self.higher_is_better,
            decides: matches!(self.purpose, Use::Named | Use::Decides | Use::Supports),
            before: median(&self.before),
            after: median(&self.after),
            slices: u32::try_from(self.slices()).unwrap_or(u32::MAX),
            after_per_before: ratio.map(|ratio| ratio.estimate),
            interval: ratio.and_then(|ratio| ratio.interval),
            difference: compared.clone().unwrap_or(Difference::NotShown),
            why: compared.err(),
        }
    }
}

/// Whether at most a fifth of the slices of each period is in the range of the other period.
fn are_apart(before: &[f64], after: &[f64], is_more: bool) -> bool {
    let fifth = |values: &[f64], is_lower: bool| {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = sorted.len() / 5;
        if is_lower { sorted[at] } else { sorted[sorted.len() - 1 - at] }
    };
    if is_more {
        fifth(after, true) > fifth(before, false)
    } else {
        fifth(after, false) < fifth(before, true)
    }
}

/// Returns the slopes between all pairs of slices of a period.
fn slopes(logs: &[f64]) -> Vec<f64> {
    let from = |(at, one): (usize, &f64)| {
        let later = logs[at + 1..].iter().enumerate();
        later.map(|(between, other)| (other - one) / (between + 1) as f64).collect::<Vec<_>>()
    };
    logs.iter().enumerate().flat_map(from).collect()
}

/// Judges a change by its measures. The first measure that shows a difference decides.
#[must_use]
pub fn judge_periods(all: &[Periods], seconds: [f64; 2], unknown: Vec<String>) -> PeriodsVerdict {
    let [settle, watch] = seconds;
    let apart = if watch > 0.0 { (settle + watch) / watch } else { 1.0 };
    let mut measures: Vec<MeasuredPeriods> = all.iter().map(|it| it.to_measured(apart)).collect();
    let is_named = all.iter().any(|it| it.purpose == Use::Named);
    if is_named {
        let others = all.iter().zip(&mut measures).filter(|(it, _)| it.purpose != Use::Named);
        others.for_each(|(_, measure)| measure.decides = false);
    }
    let (difference, why) = decide_verdict(all, &measures);
    measures.sort_by_key(|measure| !measure.decides);
    let (settle_seconds, watch_seconds) = (settle, watch);
    PeriodsVerdict { difference, why, settle_seconds, watch_seconds, measures, unknown }
}

fn decide_verdict(all: &[Periods], measures: &[MeasuredPeriods]) -> (Difference, String) {
    let deciding = || all.iter().zip(measures).filter(|(_, measure)| measure.decides);
    let is_known = deciding().any(|(it, _)| it.purpose == Use::Decides && it.slices() > 0);
    let shown = deciding().find(|(it, measure)| match measure.difference {
        Difference::NotShown => false,
        Difference::Worse => it.purpose != Use::Supports || !is_known,
        Difference::Better => true,
    });
    let Some((it, measure)) = shown else {
        let why = match deciding().next() {
            Some((it, measure)) => {
                let why = measure.why.as_deref().unwrap_or("the measures disagree");
                format!("{}: {why}", it.name)
            }
            None => "nothing that tells about it could be read".to_owned(),
        };
        return (Difference::NotShown, why);
    };
    if let Some(why) = explain_other_load(all, measures, it, measure.difference) {
        return (Difference::NotShown, format!("{}: {why}", it.name));
    }
    (measure.difference, describe(measure))
}

/// Returns why the difference may be caused by another load instead of the change; `None` if it is
/// not.
fn explain_other_load(
    all: &[Periods],
    measures: &[MeasuredPeriods],
    it: &Periods,
    difference: Difference,
) -> Option<String> {
    let load = all.iter().find(|it| it.purpose == Use::Load)?.ratio()?;
    let [low, high] = load.interval?;
    let is_less = load.estimate < 1.0 / OTHER_LOAD && high < 1.0;
    let is_more = load.estimate > OTHER_LOAD && low > 1.0;
    let is_better = difference == Difference::Better;
    let percent = (load.estimate - 1.0).abs() * 100.0;
    let less = format!("programs also had less to do (user CPU time −{percent:.0} %)");
    let more = format!("programs also had more to do (user CPU time +{percent:.0} %)");
    match it.purpose {
        // the user's command does the same work each time
        Use::Named if !it.is_of_load => None,
        // the user's counter depends on the load, unless the programs waited more or less than
        // before
        Use::Named => {
            let waits = all.iter().position(|it| it.purpose == Use::Decides);
            let waits = waits.and_then(|at| measures.get(at)).map(|waits| waits.difference);
            if waits == Some(difference) {
                None
            } else if is_less && is_better != it.higher_is_better {
                Some(format!("it is lower, but {less}, and did not wait for longer"))
            } else if is_more && is_better == it.higher_is_better {
                Some(format!("it is higher, but {more}, and did not wait for less"))
            } else {
                None
            }
        }
        _ if is_better && is_less => Some(format!("it is better, but {less}")),
        _ if !is_better && is_more => Some(format!("it is worse, but {more}")),
        _ => None,
    }
}

/// Describes a difference with its size and interval.
fn describe(measure: &MeasuredPeriods) -> String {
    let percent = |ratio: f64| {
        let percent = (ratio - 1.0) * 100.0;
        let sign = if percent < 0.0 { "−" } else { "+" };
        format!("{sign}{:.0}", percent.abs())
    };
    let estimate = percent(measure.after_per_before.unwrap_or(1.0));
    let [low, high] = measure.interval.unwrap_or([1.0, 1.0]).map(percent);
    let how = if measure.difference == Difference::Better { "better" } else { "worse" };
    format!("{} is {how}: {estimate} % ({low} to {high}) after the change", measure.name)
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;
    use proptest::prelude::*;

    use super::*;

    fn periods(before: &[f64], after: &[f64]) -> Periods {
        Periods {
            name: "waiting".to_owned(),
            unit: "ms/s".to_owned(),
            higher_is_better: false,
            purpose: Use::Decides,
            is_of_load: true,
            least: 1.0,
            before: before.to_vec(),
            after: after.to_vec(),
        }
    }

    const HIGH: [f64; 9] = [100.0, 120.0, 95.0, 110.0, 130.0, 90.0, 105.0, 115.0, 99.0];
    const LOW: [f64; 9] = [40.0, 52.0, 38.0, 60.0, 45.0, 41.0, 55.0, 39.0, 47.0];

    #[test]
    fn a_clear_difference_is_shown_in_both_directions() {
        assert_eq!(periods(&HIGH, &LOW).compare(1.4), Ok(Difference::Better));
        assert_eq!(periods(&LOW, &HIGH).compare(1.4), Ok(Difference::Worse));
        let throughput = Periods { higher_is_better: true, ..periods(&LOW, &HIGH) };
        assert_eq!(throughput.compare(1.4), Ok(Difference::Better));
    }

    #[test]
    fn what_is_not_shown_says_why() {
        let why = |before: &[f64], after: &[f64]| periods(before, after).compare(1.4).unwrap_err();
        assert!(why(&[], &LOW).contains("could not be read"));
        assert!(why(&HIGH[..5], &LOW).contains("5 slices"), "{}", why(&HIGH[..5], &LOW));
        assert!(why(&[0.3; 9], &[0.0; 9]).contains("next to none"));
        let wide = [30.0, 300.0, 20.0, 80.0, 260.0, 25.0, 190.0, 35.0, 40.0];
        assert!(why(&HIGH, &wide).contains("noise"), "{}", why(&HIGH, &wide));
        assert!(why(&HIGH, &HIGH.map(|it| it * 0.95)).contains("10 %"));
        let bursts = [300.0, 6.0, 280.0, 310.0, 6.0, 305.0, 290.0, 6.0, 300.0];
        let between = [5.0, 5.0, 7.0, 7.0, 5.0, 7.0, 7.0, 5.0, 7.0];
        assert!(why(&bursts, &between).contains("bursts"), "{}", why(&bursts, &between));
        let falling = [200.0, 180.0, 165.0, 150.0, 140.0, 125.0, 115.0, 100.0, 90.0];
        let later = [57.0, 52.0, 47.0, 42.0, 38.0, 34.0, 31.0, 28.0, 25.0];
        assert!(why(&falling, &later).contains("falling by itself"));
        // a program that warms up: from 1 to 14 and then from 14 to 53 thousand per second
        let warming = [1.0, 2.0, 3.5, 5.0, 7.0, 9.0, 11.0, 13.0, 14.0];
        let warm = [14.0, 19.0, 24.0, 29.0, 34.0, 39.0, 44.0, 49.0, 53.0];
        let throughput = Periods { higher_is_better: true, ..periods(&warming, &warm) };
        assert!(throughput.compare(1.4).unwrap_err().contains("rising by itself"));
        // if the measure became worse all the time before the change, the improvement is shown
        // nevertheless
        let rising: Vec<f64> = falling.iter().rev().copied().collect();
        assert_eq!(periods(&rising, &LOW).compare(1.4), Ok(Difference::Better));
    }

    fn of(purpose: Use, before: &[f64], after: &[f64]) -> Periods {
        Periods { purpose, ..periods(before, after) }
    }

    fn judged(all: &[Periods]) -> (Difference, String) {
        let verdict = judge_periods(all, [1.0, 9.0], Vec::new());
        (verdict.difference, verdict.why)
    }

    #[test]
    fn the_users_measure_alone_decides() {
        let named = Periods { higher_is_better: true, ..of(Use::Named, &HIGH, &LOW) };
        let stall = of(Use::Decides, &HIGH, &LOW);
        assert_eq!(judged(std::slice::from_ref(&stall)).0, Difference::Better);
        assert_eq!(judged(&[stall, named]).0, Difference::Worse);
    }

    #[test]
    fn a_load_that_went_away_is_no_improvement() {
        let stall = of(Use::Decides, &HIGH, &LOW);
        let load = of(Use::Load, &HIGH, &LOW);
        let (difference, why) = judged(&[stall.clone(), load]);
        assert_eq!(difference, Difference::NotShown);
        assert!(why.contains("less to do (user CPU time −5"), "{why}");
        let more = of(Use::Load, &LOW, &HIGH);
        assert_eq!(judged(&[stall, more.clone()]).0, Difference::Better);
        assert_eq!(judged(&[of(Use::Decides, &LOW, &HIGH), more]).0, Difference::NotShown);
    }

    #[test]
    fn requests_that_end_with_the_load_are_not_worse() {
        let named = Periods { higher_is_better: true, ..of(Use::Named, &HIGH, &LOW) };
        let load = of(Use::Load, &HIGH, &LOW);
        let waits = |before: &[f64; 9], after: &[f64; 9]| of(Use::Decides, before, after);
        let all = [named.clone(), waits(&LOW, &LOW), load.clone()];
        assert_eq!(judged(&all).0, Difference::NotShown);
        assert!(judged(&all).1.contains("less to do"), "{}", judged(&all).1);
        let waiting = [named.clone(), waits(&LOW, &HIGH), load.clone()];
        assert_eq!(judged(&waiting).0, Difference::Worse, "they wait, so they do less");
        let command = [Periods { is_of_load: false, ..named }, waits(&LOW, &LOW), load];
        assert_eq!(judged(&command).0, Difference::Worse, "a command has the same work each time");
    }

    #[test]
    fn more_pages_read_again_are_no_harm_if_nobody_waits_longer() {
        let refaults = of(Use::Supports, &LOW, &HIGH);
        assert_eq!(
            judged(&[of(Use::Decides, &LOW, &LOW), refaults.clone()]).0,
            Difference::NotShown
        );
        assert_eq!(judged(&[of(Use::Decides, &[], &[]), refaults]).0, Difference::Worse);
        let fewer = of(Use::Supports, &HIGH, &LOW);
        assert_eq!(judged(&[of(Use::Decides, &LOW, &LOW), fewer]).0, Difference::Better);
        assert!(judged(&[]).1.contains("nothing that tells"));
    }

    #[test]
    fn the_slope_of_a_line_with_one_outlier_is_that_of_the_line() {
        let line: Vec<f64> = (0..9).map(|at| 3.0 - 0.5 * f64::from(at)).collect();
        assert_eq!(median(&slopes(&line)), Some(-0.5));
        assert_eq!(slopes(&line).len(), 36);
        let mut spoiled = line;
        spoiled[4] = 100.0;
        assert_eq!(median(&slopes(&spoiled)), Some(-0.5));
        assert!(slopes(&[1.0]).is_empty());
    }

    /// If there is no difference, one is shown in fewer than 2 of 100 cases, even if neighbouring
    /// slices are similar.
    #[test]
    fn noise_is_rarely_taken_for_a_difference() {
        let mut rng = Rng::with_seed(3);
        for alike in [0.0, 0.5] {
            let mut wrong = 0;
            for _ in 0..2000 {
                let mut last = 0.0;
                let mut slice = |_| {
                    last = alike * last + rng.f64() + rng.f64() + rng.f64() - 1.5;
                    100.0 * (last * 0.6_f64).exp()
                };
                let before: Vec<f64> = (0..9).map(&mut slice).collect();
                let after: Vec<f64> = (0..9).map(&mut slice).collect();
                wrong += usize::from(periods(&before, &after).compare(1.4).is_ok());
            }
            assert!(wrong < 40, "{wrong} of 2000 with {alike}");
        }
    }

    proptest! {
        /// Exchanging the two periods never gives the same difference.
        #[test]
        fn exchanged_periods_do_not_give_the_same(
            values in prop::collection::vec((1.0f64..100.0, 1.0f64..100.0), 0..20),
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) = values.into_iter().unzip();
            let (there, back) = (periods(&a, &b).compare(1.4), periods(&b, &a).compare(1.4));
            if let (Ok(there), Ok(back)) = (there, back) {
                prop_assert_ne!(there, back);
            }
        }
    }
}
