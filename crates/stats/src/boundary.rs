// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes from the maximum number of pairs after which of them the result is checked (a *look*),
//! and the significance bound at each look.
//!
//! If the result were checked after every pair, and the experiment stopped as soon as the interval
//! excludes 1, far more than 5 of 100 experiments would give a wrong result. Therefore only some
//! looks are allowed, none before `FIRST` pairs. The accepted probability of an error is divided
//! between them with O'Brien-Fleming type boundaries (Lan-DeMets spending function): early looks
//! get very little of it, so that the last look loses little. With fewer than twelve pairs, the
//! only look is at the end.
//!
//! The bounds are computed by simulation. If there is no difference, the sign of every pair is
//! random, whatever the distribution is, so the signed-rank sums at all looks can be drawn
//! together. The bounds are bounds of the confidence interval, which is therefore valid at all
//! looks simultaneously, so that the verdict "equivalent" may end an experiment as well.
//!
//! Source: Lan, DeMets, "Discrete sequential boundaries for clinical trials", Biometrika 70 (1983).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use fastrand::Rng;
use pagewise_model::TrialLook;

use crate::paired::{MISSES, rank_of_bound};

/// Minimum number of pairs before the first look.
const FIRST: usize = 9;
/// Number of experiments that are simulated to compute the bounds.
const PLAYED: usize = 20_000;

/// Returns the looks of an experiment with this number of planned pairs; the last look is after all
/// pairs.
pub fn plan_looks(pairs: u32) -> Vec<TrialLook> {
    plan_looks_until(pairs, pairs)
}

/// Returns the looks of an experiment that was planned with `planned` pairs and ended after
/// `pairs`.
pub(crate) fn plan_looks_until(planned: u32, pairs: u32) -> Vec<TrialLook> {
    let (planned, pairs) = (planned as usize, pairs as usize);
    static KNOWN: Mutex<KnownBoundaries> =
        Mutex::new(KnownBoundaries { looks: BTreeMap::new(), plays: None });
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let KnownBoundaries { looks, plays } = &mut *known;
    looks.entry((planned, pairs)).or_insert_with(|| simulate_looks(planned, pairs, plays)).clone()
}

/// Cache of computed looks and simulations. The arms of recorded experiments may have different
/// numbers of pairs; each number is simulated only once.
struct KnownBoundaries {
    looks: BTreeMap<(usize, usize), Vec<TrialLook>>,
    /// The simulated experiments for the number of planned pairs that was requested last.
    plays: Option<NullExperiments>,
}

fn simulate_looks(
    planned: usize,
    pairs: usize,
    plays: &mut Option<NullExperiments>,
) -> Vec<TrialLook> {
    let mut after = look_points(planned);
    after.retain(|look| *look < pairs);
    after.push(pairs.min(planned));
    let bounds = match after.as_slice() {
        [only] if *only == planned || *only == 0 => vec![rank_of_bound(*only, MISSES)],
        several => {
            let plays = match plays.take() {
                Some(known) if known.planned == planned => plays.insert(known),
                _ => plays.insert(NullExperiments::simulate(planned)),
            };
            compute_bounds(several, plays)
        }
    };
    let counted = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let look = |(pairs, bound): (usize, Option<usize>)| TrialLook {
        pairs: counted(pairs),
        bound: bound.map(counted),
    };
    after.into_iter().zip(bounds).map(look).collect()
}

/// Returns the numbers of pairs after which there is a look: half of them, three quarters, and all.
/// Each further look would make it harder to detect a difference.
fn look_points(pairs: usize) -> Vec<usize> {
    let early = [pairs.div_ceil(2), (pairs * 3).div_ceil(4)];
    let early = early.into_iter().filter(|look| (FIRST..pairs).contains(look));
    early.chain([pairs]).collect()
}

/// Returns the probability of an error that may be spent up to this fraction of the pairs.
fn allowed_error(share: f64) -> f64 {
    2.0 * upper_tail(1.959_964 / share.sqrt())
}

/// Upper tail probability of the standard normal distribution. Source: Abramowitz, Stegun, 26.2.17;
/// error below 7.5e-8.
pub(crate) fn upper_tail(z: f64) -> f64 {
    const B: [f64; 5] =
        [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    let polynomial = B.iter().rev().fold(0.0, |sum, b| (sum + b) * t);
    (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() * polynomial
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of those played"
)]
fn max_crossings(share: f64) -> usize {
    (allowed_error(share) * PLAYED as f64) as usize
}

/// Returns the bound of the test at each look. It is chosen such that, of the simulated experiments
/// that are still running, as many cross the bound as the spending function allows.
fn compute_bounds(after: &[usize], plays: &NullExperiments) -> Vec<Option<usize>> {
    let mut running: Vec<usize> = (0..PLAYED).collect();
    let mut bounds = Vec::new();
    for &seen in after {
        let sum = |experiment: usize| plays.lesser_sums[seen - 1][experiment] as usize;
        let allowed = max_crossings(seen as f64 / plays.planned as f64);
        let room = allowed.saturating_sub(PLAYED - running.len());
        let mut sums: Vec<usize> = running.iter().copied().map(sum).collect();
        sums.sort_unstable();
        // all experiments with a sum below this cross the bound; they are not more than is allowed
        let bound =
            sums.get(room).copied().unwrap_or(0).min(rank_of_bound(seen, MISSES).unwrap_or(0));
        running.retain(|&experiment| sum(experiment) >= bound);
        bounds.push((bound > 0).then_some(bound));
    }
    bounds
}

/// Simulated experiments without a difference between the arms.
struct NullExperiments {
    /// Number of pairs of each experiment.
    planned: usize,
    /// For each number of pairs and each experiment, the smaller of the two signed-rank sums, which
    /// equals the number of Walsh averages on one side of zero.
    lesser_sums: Vec<Vec<u32>>,
}

impl NullExperiments {
    fn simulate(planned: usize) -> Self {
        let mut rng = Rng::with_seed(1);
        let mut lesser_sums = vec![Vec::with_capacity(PLAYED); planned];
        for _ in 0..PLAYED {
            simulate_one(&mut rng, &mut lesser_sums);
        }
        Self { planned, lesser_sums }
    }
}

/// Simulates one more experiment, and appends its signed-rank sum after each pair.
fn simulate_one(rng: &mut Rng, lesser_sums: &mut [Vec<u32>]) {
    let mut drawn: Vec<f64> = Vec::with_capacity(lesser_sums.len());
    let (mut above, mut all) = (0, 0);
    for (seen, sums) in (1..).zip(lesser_sums) {
        let new = rng.f64() - 0.5;
        drawn.push(new);
        above += drawn.iter().map(|one| u32::from(*one + new > 0.0)).sum::<u32>();
        all += seen;
        sums.push(above.min(all - above));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interim_looks(pairs: u32) -> Vec<(u32, Option<u32>)> {
        plan_looks(pairs).iter().map(|look| (look.pairs, look.bound)).collect()
    }

    #[test]
    fn few_pairs_are_looked_at_once_as_published_tables_say() {
        assert_eq!(interim_looks(5), [(5, None)]);
        assert_eq!(interim_looks(7), [(7, Some(3))]);
        assert_eq!(interim_looks(9), [(9, Some(6))]);
    }

    #[test]
    fn the_first_look_is_not_before_nine_and_the_last_gives_little_away() {
        for pairs in [12, 13, 20, 33, 60] {
            let looks = interim_looks(pairs);
            assert!(looks[0].0 >= 9 && looks.len() >= 2, "{looks:?}");
            assert!(looks.is_sorted_by(|a, b| a.0 < b.0), "{looks:?}");
            let last = looks[looks.len() - 1];
            assert_eq!(last.0, pairs);
            let (bound, fixed) =
                (last.1.unwrap() as f64, rank_of_bound(pairs as usize, MISSES).unwrap() as f64);
            assert!((0.85..=1.0).contains(&(bound / fixed)), "{pairs}: {bound} of {fixed}");
        }
    }

    /// The verdict on an experiment that ended early: only the error probability up to that point
    /// may be spent.
    #[test]
    fn an_experiment_that_was_cut_short_is_judged_by_the_looks_it_had() {
        let cut: Vec<_> =
            plan_looks_until(20, 13).iter().map(|look| (look.pairs, look.bound)).collect();
        assert_eq!(cut[..1], interim_looks(20)[..1]);
        let (last, fixed) = (cut[1].1.unwrap() as usize, rank_of_bound(13, MISSES).unwrap());
        assert!(cut[1].0 == 13 && last < fixed, "{cut:?} {fixed}");
        assert_eq!(plan_looks_until(7, 7)[0].bound, Some(3));
        assert_eq!(plan_looks_until(7, 0)[0].bound, None);
        assert_eq!(plan_looks_until(20, 0)[0].bound, None);
    }

    /// The result does not depend on earlier calls, with this or another number of planned pairs.
    #[test]
    fn what_is_kept_gives_the_same_looks_as_playing_again() {
        let mut plays = None;
        for (planned, pairs) in [(20_u32, 13_u32), (20, 17), (12, 12), (20, 13), (20, 20), (12, 10)]
        {
            let again = simulate_looks(planned as usize, pairs as usize, &mut None);
            let kept = simulate_looks(planned as usize, pairs as usize, &mut plays);
            assert_eq!(kept, again, "{pairs} of {planned}");
            assert_eq!(plan_looks_until(planned, pairs), again, "{pairs} of {planned}");
        }
    }

    /// Compares with the publication, whose boundaries for four equally spaced looks are 4.05,
    /// 2.86, 2.34 and 2.02.
    #[test]
    fn what_is_spent_is_what_lan_and_de_mets_published() {
        let all = [0.25, 0.5, 0.75, 1.0].map(allowed_error);
        for (spent, published) in all.into_iter().zip([0.0001, 0.0056, 0.0236, 0.05]) {
            assert!((spent - published).abs() < 0.0001, "{spent} {published}");
        }
    }
}
