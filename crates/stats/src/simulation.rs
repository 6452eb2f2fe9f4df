// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the judge with simulated machines: how often it reports a difference that does not exist,
//! how often it finds a difference, and how often its interval contains the true ratio. All random
//! numbers have fixed seeds.

mod switchback;

use fastrand::Rng;
use pagewise_model::{TrialMetric, Verdict};

use crate::boundary::plan_looks_until;
use crate::compare::{Series, compare_metric, detectable_effect};
use crate::metric::Metric;
use crate::order::draw_rounds;

/// A simulated machine on which a command takes about a second.
#[derive(Debug, Clone, Copy)]
struct Machine {
    /// Random variation between runs; 0.02 means 2 %.
    noise: f64,
    /// How much slower the machine gets during the experiment, as a fraction.
    drift: f64,
    /// The probability that a run begins a burst of other load, which lasts for a few runs, and the
    /// maximum slowdown of these runs.
    bursts: (f64, f64),
    /// The smallest effect that matters, as a fraction.
    min_effect: f64,
}

const CALM: Machine = Machine { noise: 0.02, drift: 0.0, bursts: (0.0, 0.0), min_effect: 0.02 };
const ROUGH: Machine = Machine { drift: 0.3, bursts: (0.05, 0.8), ..CALM };

/// Draws a number that is normally distributed with mean 0 and deviation 1 (Box-Muller).
fn draw_normal(rng: &mut Rng) -> f64 {
    let (radius, angle) =
        ((-2.0 * (1.0 - rng.f64()).ln()).sqrt(), std::f64::consts::TAU * rng.f64());
    radius * angle.cos()
}

/// Simulates the runs of all pairs, in which B takes `effect` times as long as A.
fn simulate_runs(machine: Machine, effect: f64, pairs: u32, seed: u64) -> Series {
    let mut rng = Rng::with_seed(seed ^ 0x5eed);
    let (mut burst_left, mut slowed) = (0_u32, 0.0);
    let mut series = Series::default();
    let mut number = 0_u32;
    for round in draw_rounds(seed, 2, pairs) {
        for arm in round {
            number += 1;
            if burst_left == 0 && rng.f64() < machine.bursts.0 {
                (burst_left, slowed) = (rng.u32(1..6), machine.bursts.1 * rng.f64());
            }
            let burst = if burst_left > 0 { slowed * rng.f64() } else { 0.0 };
            burst_left = burst_left.saturating_sub(1);
            let drift = machine.drift * f64::from(number) / (2.0 * f64::from(pairs));
            let time = (machine.noise * draw_normal(&mut rng) + drift + burst).exp();
            let (values, numbers, factor) = match arm {
                0 => (&mut series.a, &mut series.a_runs, 1.0),
                _ => (&mut series.b, &mut series.b_runs, effect),
            };
            values.push(time * factor);
            numbers.push(number);
        }
    }
    series
}

/// Simulates an experiment, which ends at the first look that has a verdict.
fn simulate(machine: Machine, effect: f64, pairs: u32, seed: u64) -> TrialMetric {
    let all = simulate_runs(machine, effect, pairs, seed);
    let mut last = None;
    for look in plan_looks_until(pairs, pairs) {
        let seen = look.pairs as usize;
        let first = |values: &[f64]| values[..seen].to_vec();
        let series = Series {
            a: first(&all.a),
            b: first(&all.b),
            a_runs: all.a_runs[..seen].to_vec(),
            b_runs: all.b_runs[..seen].to_vec(),
        };
        let metric =
            compare_metric(&Metric::new_time(), false, &series, look.bound, machine.min_effect);
        let clear = metric.verdict != Verdict::Undecided;
        last = Some(metric);
        if clear {
            break;
        }
    }
    last.unwrap()
}

const TRIALS: u64 = 2000;

/// Returns the share of the simulated trials for which `holds` returns true.
fn share_of_trials(
    machine: Machine,
    effect: f64,
    pairs: u32,
    holds: impl Fn(&TrialMetric) -> bool,
) -> f64 {
    let held = (0..TRIALS).filter(|seed| holds(&simulate(machine, effect, pairs, *seed)));
    held.count() as f64 / TRIALS as f64
}

fn differs(metric: &TrialMetric) -> bool {
    matches!(metric.verdict, Verdict::Better | Verdict::Worse)
}

/// If both arms are equal, the probability of the verdicts better and worse does not depend on the
/// machine. The verdict "equivalent" can only reduce it.
#[test]
fn nothing_is_called_a_difference_in_at_most_6_of_100() {
    let noisy = Machine { noise: 0.2, ..ROUGH };
    for (machine, pairs) in [(CALM, 7), (ROUGH, 7), (noisy, 9), (noisy, 12), (ROUGH, 20)] {
        let false_alarms = share_of_trials(machine, 1.0, pairs, differs);
        println!("A/A {machine:?}, {pairs} pairs: {false_alarms}");
        assert!(false_alarms <= 0.06, "{machine:?}, {pairs} pairs: {false_alarms}");
    }
}

/// Checks the result after every pair, which planned looks avoid, to show that the test above would
/// detect the mistake.
#[test]
fn looking_after_every_pair_would_be_wrong_far_more_often() {
    let machine = Machine { noise: 0.2, ..ROUGH };
    let wrong = (0..TRIALS).filter(|seed| {
        let all = simulate_runs(machine, 1.0, 20, *seed);
        (7..=20).any(|seen| {
            let [a, b] = [&all.a, &all.b].map(|values| &values[..seen]);
            crate::paired::PairedRatio::from_runs(a, b).unwrap().excludes_no_difference()
        })
    });
    let wrong = wrong.count() as f64 / TRIALS as f64;
    assert!(wrong > 0.12, "{wrong}");
}

/// The machine's runs vary by 2 %, and effects of 1 % matter. (If the effect is exactly the
/// smallest that matters, the verdict "equivalent" is sometimes correct.) As a ratio, 5 % less is a
/// larger effect than 5 % more, and is found more often.
#[test]
fn five_percent_are_found_with_7_pairs_and_two_with_20() {
    for (effect, pairs, wanted) in
        [(0.95, 7, 0.95), (1.05, 7, 0.94), (0.98, 20, 0.8), (1.02, 20, 0.8)]
    {
        let right = if effect < 1.0 { Verdict::Better } else { Verdict::Worse };
        let asked = Machine { min_effect: 0.01, ..CALM };
        let found = share_of_trials(asked, effect, pairs, |metric| metric.verdict == right);
        println!("{effect} with {pairs} pairs: {right:?} in {found}");
        assert!(found >= wanted, "{effect}: {found}");
    }
}

#[test]
fn the_interval_holds_the_truth_in_at_least_94_of_100() {
    for machine in [CALM, ROUGH] {
        for (effect, pairs) in [(1.07, 7), (0.5, 12)] {
            let holds = |metric: &TrialMetric| {
                let [low, high] = metric.interval.unwrap();
                (low..=high).contains(&effect)
            };
            let covered = share_of_trials(machine, effect, pairs, holds);
            println!("{machine:?}, {effect} with {pairs} pairs: {covered}");
            assert!(covered >= 0.94, "{machine:?}, {effect}, {pairs}: {covered}");
        }
    }
}

/// "Equivalent" is a claim as well: it must not be made about an effect slightly larger than the
/// smallest that matters.
#[test]
fn what_matters_is_called_equivalent_in_at_most_4_of_100() {
    for pairs in [7, 20] {
        let machine = Machine { noise: 0.005, ..CALM };
        let wrong = share_of_trials(machine, 1.0201, pairs, |it| it.verdict == Verdict::Equivalent);
        assert!(wrong <= 0.04, "{pairs}: {wrong}");
    }
    let same = share_of_trials(Machine { noise: 0.005, ..CALM }, 1.0, 7, |it| {
        it.verdict == Verdict::Equivalent
    });
    assert!(same >= 0.95, "{same}");
}

/// The forecast before the first pair is correct about as often as it claims.
#[test]
fn the_least_effect_forecast_is_found_in_about_80_of_100() {
    for pairs in [7_u32, 9, 20] {
        let effect = 1.0 + detectable_effect(CALM.noise, pairs);
        let found = share_of_trials(CALM, effect, pairs, differs);
        println!("{pairs} pairs find {effect} in {found}");
        assert!((0.7..=0.92).contains(&found), "{pairs}: {effect} {found}");
    }
}
