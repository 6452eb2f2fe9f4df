// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the judgement of switchback with simulated months: how often it reports an effect that does
//! not exist, and how often it finds one of a known size. All random numbers have fixed seeds.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use pagewise_model::ProofVerdict;

use super::draw_normal;
use crate::switchback::{Block, BlockValues, SwitchbackPlan, SwitchbackQuestion, judge_switchback};

const MONTH: u64 = 30;
const START: u64 = 20_000;

/// How the work of a machine varies, apart from noise that is independent in each block.
#[derive(Debug, Clone, Copy)]
struct Course {
    name: &'static str,
    /// Amplitude of the course of the day, and how much higher working days are.
    diurnal: f64,
    /// Growth per day, and the standard deviation of a random walk per day.
    trend: [f64; 2],
    /// The share of a block's noise that remains in the next block.
    lasting: f64,
    /// The probability of a burst in a block, which changes it by a half, and of a gap.
    bursts: f64,
}

const WHITE: Course =
    Course { name: "independent", diurnal: 0.0, trend: [0.0; 2], lasting: 0.0, bursts: 0.0 };
const DIURNAL: Course = Course { name: "course of the day", diurnal: 0.3, ..WHITE };
const TRENDING: Course = Course { name: "trend", trend: [0.01, 0.02], ..WHITE };
const LASTING: Course = Course { name: "lasting", lasting: 0.9, ..WHITE };
/// All of it together.
const ROUGH: Course =
    Course { name: "all together", diurnal: 0.3, trend: [0.005, 0.01], lasting: 0.6, bursts: 0.02 };
const COURSES: [Course; 5] = [WHITE, DIURNAL, TRENDING, LASTING, ROUGH];

/// Effects on the logarithm of work (more is better) and of memory (less is better).
#[derive(Debug, Clone, Copy, Default)]
struct Planted {
    work: f64,
    memory: f64,
}

/// Simulates the blocks of so many days. The noise of the work has the standard deviation `noise` in
/// each block, that of the memory is three times as large and lasts.
fn simulate(
    plan: &SwitchbackPlan,
    (course, noise, days): (Course, f64, u64),
    planted: Planted,
    seed: u64,
) -> BTreeMap<Block, BlockValues> {
    let mut rng = Rng::with_seed(seed ^ 0xb10c);
    let (mut lasting, mut walk, mut memory) = (draw_normal(&mut rng), 0.0, 0.0);
    let new = (1.0 - course.lasting * course.lasting).sqrt();
    let mut measured = BTreeMap::new();
    for day in 0..days {
        walk += course.trend[0] + course.trend[1] * draw_normal(&mut rng);
        for number in 0..6 {
            let block = Block { day: START + day, number };
            lasting = course.lasting * lasting + new * draw_normal(&mut rng);
            memory = 0.9 * memory + 0.436 * draw_normal(&mut rng);
            let time = (number as f64 / 6.0 * std::f64::consts::TAU).sin();
            let working = if day % 7 < 5 { 0.5 } else { 0.0 };
            let burst = if rng.f64() < course.bursts { 0.5 } else { 0.0 };
            let is_gap = rng.f64() < course.bursts;
            let is_on = plan.is_on(block);
            let [work_effect, memory_effect] =
                [planted.work, planted.memory].map(|effect| if is_on { effect } else { 0.0 });
            let work = course.diurnal * (time + working) + walk - burst + noise * lasting;
            let values = BlockValues {
                work: (5.0 + work + work_effect).exp(),
                refaults: 1.0,
                memory: (20.0 + 3.0 * noise * memory + memory_effect).exp(),
            };
            if !is_gap {
                measured.insert(block, values);
            }
        }
    }
    measured
}

fn plan(seed: u64) -> SwitchbackPlan {
    let hour = Duration::from_secs(3600);
    SwitchbackPlan::new(seed, hour * 4, hour / 2).unwrap()
}

/// The first answer other than "not shown yet" at one of the looks on these days, as the program
/// computes them one after the other; a later one if that is an answer again.
fn answer(machine: (Course, f64, u64), planted: Planted, seed: u64, looks: &[u64]) -> ProofVerdict {
    let plan = plan(seed);
    let measured = simulate(&plan, machine, planted, seed);
    let question = SwitchbackQuestion { start: START, is_more_better: true, relevant: 0.01 };
    let verdicts =
        looks.iter().map(|day| judge_switchback(&plan, &measured, question, START + day).verdict);
    let wrong =
        |verdict: &ProofVerdict| matches!(verdict, ProofVerdict::Pays | ProofVerdict::Harms);
    let all: Vec<ProofVerdict> = verdicts.collect();
    all.iter().copied().find(wrong).unwrap_or(all[all.len() - 1])
}

/// In how many of so many months each answer was found: pays, harms, does not pay, not shown yet.
fn count(course: Course, noise: f64, planted: Planted, months: u64) -> [u64; 4] {
    let mut counts = [0; 4];
    for seed in 0..months {
        let verdict = answer((course, noise, MONTH), planted, seed, &[10, 20, 30]);
        counts[match verdict {
            ProofVerdict::Pays => 0,
            ProofVerdict::Harms => 1,
            ProofVerdict::DoesNotPay => 2,
            ProofVerdict::NotShownYet => 3,
        }] += 1;
    }
    counts
}

#[test]
fn of_200_months_without_an_effect_at_most_10_find_one() {
    for course in [LASTING, ROUGH] {
        let counts = count(course, 0.03, Planted::default(), 200);
        println!("{}: {counts:?}", course.name);
        assert!(counts[0] + counts[1] <= 10, "{}: {counts:?}", course.name);
    }
}

#[test]
fn effects_of_5_and_of_2_percent_are_told_from_none() {
    let planted = |work| Planted { work, memory: 0.0 };
    let better = count(ROUGH, 0.03, planted(0.05), 100);
    let worse = count(ROUGH, 0.03, planted(-0.05), 100);
    let small = count(WHITE, 0.02, planted(0.02), 100);
    let small_harm = count(WHITE, 0.02, planted(-0.02), 100);
    println!("{better:?} {worse:?} {small:?} {small_harm:?}");
    assert!(better[0] >= 95 && better[1] == 0, "{better:?}");
    assert!(worse[1] >= 95 && worse[0] == 0, "{worse:?}");
    assert!(small[0] >= 90 && small[1] == 0, "{small:?}");
    assert!(small_harm[1] >= 90 && small_harm[0] == 0, "{small_harm:?}");
}

/// Memory is saved, and the work is the same.
#[test]
fn saved_memory_pays_if_the_work_is_the_same() {
    let saves = Planted { work: 0.0, memory: -0.2 };
    let counts = count(WHITE, 0.015, saves, 100);
    println!("saves: {counts:?}");
    assert!(counts[0] >= 90 && counts[1] <= 2, "{counts:?}");
}

/// Prints the numbers of docs/agent.md, which are of 2,000 months (`PAGEWISE_SIMULATED_MONTHS=2000`).
#[test]
#[expect(clippy::disallowed_methods, reason = "the number of months of a longer run by hand")]
fn many_months_and_years_without_an_effect_and_the_power_of_a_month() {
    let months = std::env::var("PAGEWISE_SIMULATED_MONTHS");
    let months: u64 = months.map_or(60, |months| months.parse().unwrap());
    for course in COURSES {
        for noise in [0.03, 0.15] {
            let [pays, harms, not, unknown] = count(course, noise, Planted::default(), months);
            println!(
                "no effect, {}, noise {noise}: pays {pays}, harms {harms}, does not pay {not}, not shown {unknown} of {months}",
                course.name
            );
            assert!(pays + harms <= months / 20, "{} {noise}: {pays} and {harms}", course.name);
        }
    }
    let years = months / 10;
    let looks: Vec<u64> = [10, 20].into_iter().chain((1..=12).map(|month| month * MONTH)).collect();
    let wrong = (0..years).filter(|seed| {
        let year = answer((ROUGH, 0.03, 360), Planted::default(), *seed, &looks);
        matches!(year, ProofVerdict::Pays | ProofVerdict::Harms)
    });
    let wrong = wrong.count() as u64;
    println!("no effect, {}: {wrong} of {years} years", ROUGH.name);
    assert!(wrong <= years / 20, "{wrong}");
    for noise in [0.01, 0.02, 0.03, 0.05, 0.1] {
        for effect in [0.01, 0.02, 0.05, 0.1] {
            let counts = count(WHITE, noise, Planted { work: effect, memory: 0.0 }, months / 4);
            println!("effect {effect}, noise {noise}: {counts:?} of {}", months / 4);
            assert!(counts[1] <= 5, "{effect} {noise}: {counts:?}");
        }
    }
}
