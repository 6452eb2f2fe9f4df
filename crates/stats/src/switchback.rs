// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans when something is switched on and off on a running machine, and judges whether it pays.
//!
//! A day of UTC is divided into blocks of equal length. Two consecutive days make a pair: for each
//! block, a coin decides on which of the two days the thing is on; on the other day it is off at that
//! time. So each time of day is on as often as it is off. The beginning of a block, in which the
//! effect of the block before may last, does not count (wash-out).
//!
//! If the thing has no effect, each coin could have fallen the other way without any change of what
//! was measured. The signed-rank test of the pairs is then exact, whatever the load does: courses of
//! the day, trends, bursts, and blocks that resemble their neighbours cannot cause false findings.
//! An effect that outlasts the wash-out makes the difference smaller; a cost that is due only later,
//! such as pages that are read again, counts for the wrong side.
//!
//! The result is computed after each month of 30 days, for at most a year; then the next year begins.
//! The intervals become wider with each month, such that the probability of a wrong answer in any
//! month of the year is at most 5 %: 3 % for the work, 1.5 % for the memory held, 0.5 % for harm that
//! is large enough to be seen after 10 or 20 days.

use std::collections::BTreeMap;
use std::time::Duration;

use pagewise_model::{ProofEffect, ProofVerdict};

use crate::boundary::upper_tail;
use crate::paired::{PairedRatio, median, rank_of_bound};

/// Seconds of a day.
pub const DAY: u64 = 86_400;
/// Shorter blocks would make so many pairs that a year of them takes too much memory to judge.
const SHORTEST_BLOCK: u64 = 7200;
/// Days of a month: 15 pairs of days.
const MONTH: u64 = 30;
/// Days of a year.
const YEAR: u64 = 12 * MONTH;
/// Days for which blocks are needed: those of a year are judged until the first month of the next ends.
pub const KEPT_DAYS: u64 = YEAR + MONTH;
/// Probability of a wrong answer from the work, in both directions together; half of it from the
/// memory held, where only less counts.
const MISSES: f64 = 0.03;
/// In the first month of a year, it is checked whether there is large harm after so many days.
const EARLY: [u64; 2] = [10, 20];
/// Probability that the interval of such a check misses the true ratio; half of it on the side of harm.
const EARLY_MISSES: f64 = 0.005;
/// With more pairs than this, sums of signed ranks are normally distributed.
const MOST_EXACT: usize = 300;
/// Standard errors by which an effect must exceed the bound to be found in 80 of 100 cases.
const POWER: f64 = 0.841_621;

/// When it is on and off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchbackPlan {
    seed: u64,
    /// Seconds; divides a day.
    block: u64,
    /// Seconds at the beginning of a block.
    wash_out: u64,
}

/// A block of time of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Block {
    /// The day in Unix time.
    pub day: u64,
    /// Number of the block in the day, from 0.
    pub number: u64,
}

/// What was measured in a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockValues {
    /// The number that the user cares about, such as requests per CPU second; above zero.
    pub work: f64,
    /// Refaults per second; above zero, so half an event is added to their number.
    pub refaults: f64,
    /// Mean memory held, in bytes; above zero.
    pub memory: f64,
}

impl SwitchbackPlan {
    /// A plan with blocks of this length, of which the first part does not count. `None` unless a day
    /// has a whole number of blocks, at least two hours long, and at least half of a block counts.
    #[must_use]
    pub fn new(seed: u64, block: Duration, wash_out: Duration) -> Option<Self> {
        let is_whole = block.subsec_nanos() == 0 && wash_out.subsec_nanos() == 0;
        let (block, wash_out) = (block.as_secs(), wash_out.as_secs());
        let is_sound =
            (SHORTEST_BLOCK..=DAY).contains(&block) && DAY % block == 0 && wash_out <= block / 2;
        (is_whole && is_sound).then_some(Self { seed, block, wash_out })
    }

    /// The block of a time.
    #[must_use]
    pub fn block_at(&self, unix_seconds: u64) -> Block {
        Block { day: unix_seconds / DAY, number: unix_seconds % DAY / self.block }
    }

    /// Whether it is on in a block.
    #[must_use]
    pub fn is_on(&self, block: Block) -> bool {
        let coin = mix(self.seed ^ mix((block.day / 2) ^ mix(block.number))) & 1;
        coin == block.day % 2
    }

    /// When the part of a block begins that counts, in Unix time.
    #[must_use]
    pub fn counts_from(&self, block: Block) -> u64 {
        self.end_of(block) - self.block + self.wash_out
    }

    /// When a block ends, in Unix time.
    #[must_use]
    pub fn end_of(&self, block: Block) -> u64 {
        block.day.saturating_mul(DAY).saturating_add((block.number + 1) * self.block)
    }

    /// The values with and without it, of all pairs of blocks on these days that are complete.
    fn pairs(
        &self,
        measured: &BTreeMap<Block, BlockValues>,
        days: std::ops::Range<u64>,
    ) -> Vec<[BlockValues; 2]> {
        let firsts = days.step_by(2);
        let blocks = firsts.flat_map(|day| (0..DAY / self.block).map(move |it| (day, it)));
        let pair = |(day, number)| {
            let blocks = [Block { day, number }, Block { day: day + 1, number }];
            let [one, other] = blocks.map(|block| measured.get(&block).copied());
            Some(if self.is_on(blocks[0]) { [one?, other?] } else { [other?, one?] })
        };
        blocks.filter_map(pair).collect()
    }
}

/// The finaliser of SplitMix64: each bit of the result depends on each bit of the number.
fn mix(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// How a result is found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SwitchbackQuestion {
    /// The first day that counts, in Unix time; an even number.
    pub start: u64,
    /// Whether more work is better, such as requests per CPU second.
    pub is_more_better: bool,
    /// The smallest change of work or memory that counts, such as 0.01 for 1 %.
    pub relevant: f64,
}

/// What was shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SwitchbackReport {
    /// The answer.
    pub verdict: ProofVerdict,
    /// If it is not shown yet: how many more days are probably needed; `None` if a year is not enough.
    pub more_days: Option<u64>,
    /// Number of days that were judged; 0 before the first month has ended.
    pub days: u64,
    /// Number of pairs of blocks that were compared.
    pub pairs: u64,
    /// The share of experiments in which the intervals contain the true ratio.
    pub confidence: f64,
    /// The number that the user cares about.
    pub work: Option<ProofEffect>,
    /// Refaults per second.
    pub refaults: Option<ProofEffect>,
    /// Memory held, in bytes.
    pub memory: Option<ProofEffect>,
}

/// Which days are judged, and how wide the intervals are.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Look {
    days: [u64; 2],
    misses: f64,
    /// Only large harm counts.
    is_early: bool,
}

impl Look {
    /// The look that is in force on a day; `None` before the first one.
    fn last(start: u64, today: u64) -> Option<Self> {
        let elapsed = today.checked_sub(start)?;
        let (year, day) = (elapsed / YEAR, elapsed % YEAR);
        let begun = start + year * YEAR;
        if day >= MONTH {
            return Some(Self::after_months(begun, day / MONTH));
        }
        let early = EARLY.iter().rfind(|early| day >= **early);
        let early = early.map(|early| Self {
            days: [begun, begun + early],
            misses: EARLY_MISSES,
            is_early: true,
        });
        early.or_else(|| Self::before(begun, year))
    }

    /// The last look of the year before the one that began on this day.
    fn before(begun: u64, year: u64) -> Option<Self> {
        (year > 0).then(|| Self::after_months(begun - YEAR, YEAR / MONTH))
    }

    fn after_months(begun: u64, months: u64) -> Self {
        let days = [begun, begun + months * MONTH];
        Self { days, misses: misses_of_month(months), is_early: false }
    }
}

/// The sum over all months, however many, is [`MISSES`].
fn misses_of_month(month: u64) -> f64 {
    MISSES / (month * (month + 1)) as f64
}

/// Whether [`judge_switchback`] judges other days today than it did on the day `before`.
#[must_use]
pub fn is_new_look(start: u64, before: u64, today: u64) -> bool {
    Look::last(start, before) != Look::last(start, today)
}

/// Judges what was measured until the day before `today`. A block in which nothing was measured is left
/// out, together with the one that it is compared with.
#[must_use]
pub fn judge_switchback(
    plan: &SwitchbackPlan,
    measured: &BTreeMap<Block, BlockValues>,
    question: SwitchbackQuestion,
    today: u64,
) -> SwitchbackReport {
    let begins = question.start.saturating_sub(today);
    let elapsed = today.saturating_sub(question.start) % YEAR;
    let to_next = begins.saturating_add(MONTH - elapsed % MONTH);
    let nothing = SwitchbackReport {
        verdict: ProofVerdict::NotShownYet,
        more_days: Some(to_next),
        days: 0,
        pairs: 0,
        confidence: 1.0 - misses_of_month(1),
        work: None,
        refaults: None,
        memory: None,
    };
    let Some(mut look) = Look::last(question.start, today) else { return nothing };
    if look.is_early {
        let harm = report(plan, measured, question, look);
        let year = (today - question.start) / YEAR;
        match (harm.verdict, Look::before(look.days[0], year)) {
            (ProofVerdict::Harms, _) => return harm,
            (_, Some(before)) => look = before,
            (_, None) => return nothing,
        }
    }
    let mut report = report(plan, measured, question, look);
    if report.verdict == ProofVerdict::NotShownYet {
        let since = today.saturating_sub(look.days[1]);
        let more = days_needed(&report, question.relevant);
        report.more_days = match more {
            _ if report.work.is_none_or(|work| work.interval.is_none()) => Some(to_next),
            Some(more) => Some(more.saturating_sub(since).max(1)),
            None => None,
        };
    }
    report
}

fn report(
    plan: &SwitchbackPlan,
    measured: &BTreeMap<Block, BlockValues>,
    question: SwitchbackQuestion,
    look: Look,
) -> SwitchbackReport {
    let pairs = plan.pairs(measured, look.days[0]..look.days[1]);
    let bound = find_bound(pairs.len(), look.misses);
    let effect = |of: fn(&BlockValues) -> f64| {
        let [on, off] = [0, 1].map(|side| pairs.iter().map(|pair| of(&pair[side])).collect());
        let (on, off): (Vec<f64>, Vec<f64>) = (on, off);
        let ratio = PairedRatio::from_runs_with_rank(&off, &on, bound)?;
        Some(ProofEffect {
            with_loop: median(&on)?,
            without_loop: median(&off)?,
            ratio: ratio.estimate,
            interval: ratio.interval,
        })
    };
    let (work, memory) = (effect(|it| it.work), effect(|it| it.memory));
    let verdict = match (gain(work, question.is_more_better), gain(memory, false)) {
        (Some(work), _) if look.is_early => {
            let is_harm = work[1] < -question.relevant.ln_1p();
            if is_harm { ProofVerdict::Harms } else { ProofVerdict::NotShownYet }
        }
        (Some(work), Some(memory)) => decide(work, memory, question.relevant.ln_1p()),
        _ => ProofVerdict::NotShownYet,
    };
    SwitchbackReport {
        verdict,
        more_days: None,
        days: look.days[1] - look.days[0],
        pairs: pairs.len() as u64,
        confidence: 1.0 - look.misses,
        work,
        refaults: effect(|it| it.refaults),
        memory,
    }
}

/// The rank that bounds the interval of so many pairs ([`rank_of_bound`]), which takes too long to compute
/// for a year.
fn find_bound(pairs: usize, misses: f64) -> Option<usize> {
    if pairs <= MOST_EXACT {
        return rank_of_bound(pairs, misses);
    }
    let count = pairs as f64;
    let middle = count * (count + 1.0) / 4.0;
    let deviation = (count * (count + 1.0) * (2.0 * count + 1.0) / 24.0).sqrt();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank above zero"
    )]
    let rank = (middle - normal_bound(misses / 2.0) * deviation) as usize;
    Some(rank)
}

/// How much better it is at least and at most, on a logarithmic scale.
fn gain(effect: Option<ProofEffect>, is_more_better: bool) -> Option<[f64; 2]> {
    let [low, high] = effect?.interval?.map(f64::ln);
    Some(if is_more_better { [low, high] } else { [-high, -low] })
}

/// Decides by the intervals of both gains. A cost of less than `relevant` is no harm, and saved memory is
/// worth it; a larger cost is harm, even if memory is saved.
fn decide(work: [f64; 2], memory: [f64; 2], relevant: f64) -> ProofVerdict {
    let [least, most] = work;
    let is_saved = memory[0] > 0.0 && memory[1] >= relevant;
    let saves_little = memory[1] < relevant;
    let costs_little = least > -relevant;
    if least > 0.0 && most >= relevant {
        ProofVerdict::Pays
    } else if most < -relevant || most < 0.0 && !costs_little && !is_saved {
        ProofVerdict::Harms
    } else if costs_little && is_saved {
        ProofVerdict::Pays
    } else if most < relevant && saves_little {
        ProofVerdict::DoesNotPay
    } else {
        ProofVerdict::NotShownYet
    }
}

/// How many days more than those of the report are probably needed, in whole months; `None` if a year is
/// not enough.
fn days_needed(report: &SwitchbackReport, relevant: f64) -> Option<u64> {
    let work = report.work?;
    let [low, high] = work.interval?.map(f64::ln);
    let (effect, least) = (work.ratio.ln().abs(), relevant.ln_1p());
    let room = effect.max(least - effect);
    let months = report.days / MONTH;
    let bound = |month: u64| normal_bound(misses_of_month(month) / 2.0);
    let error = (high - low) / 2.0 / bound(months);
    let found = (months + 1..=YEAR / MONTH).find(|month| {
        let error = error * (months as f64 / *month as f64).sqrt();
        error * (bound(*month) + POWER) <= room
    });
    found.map(|month| (month - months) * MONTH)
}

/// The number of standard deviations above which a share of a normal distribution lies.
fn normal_bound(share: f64) -> f64 {
    let (mut low, mut high) = (0.0, 8.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if upper_tail(middle) > share { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const START: u64 = 20_000;

    fn plan(seed: u64) -> SwitchbackPlan {
        SwitchbackPlan::new(seed, HOUR * 4, Duration::from_secs(900)).unwrap()
    }

    #[test]
    fn a_day_has_whole_blocks_of_which_the_beginning_does_not_count() {
        let half = Duration::from_millis(7_200_500);
        for (block, wash_out) in
            [(HOUR * 5, HOUR), (HOUR, HOUR / 8), (HOUR * 2, HOUR * 2), (half, HOUR)]
        {
            assert_eq!(SwitchbackPlan::new(1, block, wash_out), None);
        }
        let block = Block { day: 3, number: 5 };
        assert_eq!(plan(1).block_at(4 * DAY - 1), block);
        assert_eq!(plan(1).block_at(4 * DAY), Block { day: 4, number: 0 });
        assert_eq!(
            (plan(1).counts_from(block), plan(1).end_of(block)),
            (3 * DAY + 72_900, 4 * DAY)
        );
    }

    #[test]
    fn each_time_of_day_is_on_once_in_two_days_and_the_first_day_by_chance() {
        let mut first = 0;
        for seed in 0..20 {
            let plan = plan(seed);
            let blocks = (0..30).step_by(2).flat_map(|day| (0..6).map(move |it| (day, it)));
            for (day, number) in blocks {
                let on = [day, day + 1].map(|day| plan.is_on(Block { day, number }));
                assert_ne!(on[0], on[1]);
                first += u32::from(on[0]);
            }
        }
        // of 1,800: a fair coin is further away from 900 once in 10,000 times; the seeds are fixed
        assert!((817..=983).contains(&first), "{first}");
    }

    #[test]
    fn the_bound_for_many_pairs_is_that_of_the_exact_distribution() {
        for misses in [0.05, 0.015, 0.0002] {
            let (exact, found) = (rank_of_bound(301, misses), find_bound(301, misses));
            let (exact, found) = (exact.unwrap(), found.unwrap());
            // a lower rank is a wider interval; a standard deviation is 1,509 ranks
            assert!(found <= exact + 1 && found + 50 > exact, "{misses}: {exact} {found}");
        }
    }

    #[test]
    fn looks_are_after_each_month_of_a_year_and_twice_before_the_first() {
        let look = |day| Look::last(START, START + day);
        assert_eq!(look(9), None);
        let early = |day| Some(([START, START + day], true));
        let months = |months: u64| Some(([START, START + months * 30], false));
        let seen = |day| look(day).map(|look| (look.days, look.is_early));
        assert_eq!(
            [seen(10), seen(19), seen(20), seen(29)],
            [early(10), early(10), early(20), early(20)]
        );
        assert_eq!(
            [seen(30), seen(59), seen(60), seen(359)],
            [months(1), months(1), months(2), months(11)]
        );
        assert_eq!(seen(360), months(12), "until the next year has a look of its own");
        assert_eq!(seen(390), Some(([START + 360, START + 390], false)));
        let is_new = |before, day| is_new_look(START, START + before, START + day);
        assert!(!is_new(0, 9) && is_new(9, 10) && !is_new(30, 59) && is_new(59, 60));
        let sum: f64 = (1..=12).map(misses_of_month).sum();
        let early = EARLY_MISSES / 2.0 * EARLY.len() as f64;
        assert!(sum * 1.5 + early <= 0.05, "{sum} and {early}");
    }

    #[test]
    fn an_answer_is_where_both_intervals_lie() {
        use ProofVerdict::{DoesNotPay, Harms, NotShownYet, Pays};
        let (saved, little, unknown) = ([0.1, 0.3], [-0.005, 0.005], [-0.05, 0.05]);
        for (work, [with_saved, with_little, with_unknown]) in [
            ([0.002, 0.03], [Pays; 3]),
            ([-0.03, -0.02], [Harms; 3]),
            ([-0.03, -0.002], [NotShownYet, Harms, Harms]),
            ([-0.008, -0.002], [Pays, DoesNotPay, NotShownYet]),
            ([-0.005, 0.005], [Pays, DoesNotPay, NotShownYet]),
            ([0.001, 0.005], [Pays, DoesNotPay, NotShownYet]),
            ([-0.005, 0.03], [Pays, NotShownYet, NotShownYet]),
            ([-0.03, 0.005], [NotShownYet, DoesNotPay, NotShownYet]),
            ([-0.03, 0.03], [NotShownYet; 3]),
        ] {
            let found = [saved, little, unknown].map(|memory| decide(work, memory, 0.01));
            assert_eq!(found, [with_saved, with_little, with_unknown], "{work:?}");
        }
    }

    #[test]
    fn the_bound_of_a_normal_distribution_is_the_published_one() {
        for (share, published) in [(0.025, 1.959_964), (0.005, 2.575_829), (0.1, 1.281_552)] {
            assert!((normal_bound(share) - published).abs() < 1e-4, "{share}");
        }
    }

    /// Blocks of so many days; work follows the time of day, and is `effect` better when on.
    fn days(
        plan: &SwitchbackPlan,
        days: u64,
        effect: f64,
        noise: f64,
    ) -> BTreeMap<Block, BlockValues> {
        let mut rng = fastrand::Rng::with_seed(3);
        let blocks =
            (START..START + days).flat_map(|day| (0..6).map(move |number| Block { day, number }));
        let values = |block: Block| {
            let noise = noise * ((0..12).map(|_| rng.f64()).sum::<f64>() - 6.0);
            let gain = if plan.is_on(block) { effect } else { 0.0 };
            let work = (block.number as f64 + noise + gain).exp();
            (block, BlockValues { work, refaults: 1.0, memory: 1e6 })
        };
        blocks.map(values).collect()
    }

    fn judged(
        plan: &SwitchbackPlan,
        measured: &BTreeMap<Block, BlockValues>,
        day: u64,
    ) -> SwitchbackReport {
        let question = SwitchbackQuestion { start: START, is_more_better: true, relevant: 0.01 };
        judge_switchback(plan, measured, question, START + day)
    }

    #[test]
    fn nothing_is_said_before_the_end_of_a_month_and_the_days_are_counted() {
        let plan = plan(3);
        let all = days(&plan, 45, 0.5, 0.01);
        for (day, more) in [(0, 30), (9, 21), (10, 20), (29, 1)] {
            let found = judged(&plan, &all, day);
            let expected = (ProofVerdict::NotShownYet, Some(more), 0);
            assert_eq!((found.verdict, found.more_days, found.days), expected, "{day}");
        }
        let ended = judged(&plan, &all, 30);
        let work = ended.work.unwrap();
        assert_eq!((ended.verdict, ended.days, ended.pairs), (ProofVerdict::Pays, 30, 90));
        assert!(
            (work.ratio.ln() - 0.5).abs() < 0.02 && work.with_loop > work.without_loop,
            "{work:?}"
        );
        assert_eq!(judged(&plan, &all, 44), ended, "what is measured later does not change it");
        let fewer = SwitchbackQuestion { start: START, is_more_better: false, relevant: 0.01 };
        assert_eq!(judge_switchback(&plan, &all, fewer, START + 30).verdict, ProofVerdict::Harms);
        assert_eq!(judged(&plan, &BTreeMap::new(), 31).more_days, Some(29));
        let future = SwitchbackQuestion { start: START + 2, ..fewer };
        assert_eq!(judge_switchback(&plan, &all, future, START).more_days, Some(32));
    }

    #[test]
    fn large_harm_is_found_after_ten_days_and_small_harm_is_not() {
        let plan = plan(4);
        let verdict = |effect, day| judged(&plan, &days(&plan, day, effect, 0.02), day).verdict;
        assert_eq!(verdict(-0.2, 9), ProofVerdict::NotShownYet);
        assert_eq!(verdict(-0.2, 10), ProofVerdict::Harms);
        assert_eq!(verdict(-0.015, 10), ProofVerdict::NotShownYet);
        assert_eq!(verdict(-0.015, 30), ProofVerdict::Harms);
        assert_eq!(verdict(0.2, 20), ProofVerdict::NotShownYet, "only harm is said early");
    }

    #[test]
    fn after_a_year_the_answer_stays_until_the_next_one_has_a_month() {
        let plan = plan(5);
        let year = days(&plan, 360, 0.1, 0.02);
        let ended = judged(&plan, &year, 360);
        assert_eq!((ended.verdict, ended.days), (ProofVerdict::Pays, 360));
        assert_eq!(judged(&plan, &year, 389), ended);
        let next = judged(&plan, &year, 390);
        assert_eq!((next.verdict, next.days, next.pairs), (ProofVerdict::NotShownYet, 30, 0));
    }

    #[test]
    fn a_noisy_machine_needs_more_days_and_says_so() {
        let plan = plan(5);
        let needed = |noise| {
            let found = judged(&plan, &days(&plan, 30, 0.0, noise), 30);
            (found.verdict, found.more_days)
        };
        assert_eq!(needed(0.01).0, ProofVerdict::DoesNotPay);
        let (verdict, more) = needed(0.03);
        assert!(
            verdict == ProofVerdict::NotShownYet && more.is_some_and(|more| more % 30 == 0),
            "{more:?}"
        );
        assert_eq!(needed(1.0), (ProofVerdict::NotShownYet, None));
    }
}
