// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Draws conclusions from the rounds: whether `vm.page-cluster` matters on this machine, which
//! value is best, and the swappiness that follows from the cost of swap relative to a file.
//!
//! Two settings are compared within a round, because both were measured under about the same load.
//! The compared time excludes the time for which the process waited for a CPU: on a busy machine
//! most of the mean is such waiting. A difference counts only if its median is at least [`MARGIN`]
//! and all rounds, at least [`ENOUGH`], have the same sign: among a dozen comparisons, one may
//! agree by chance. If the kernel reads nothing ahead, there is no difference, whatever the times
//! say. If more than [`NOTABLE`] of the pages bypassed zswap's pool, nothing is concluded, because
//! the swap area behind zswap was measured, too.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use pagewise_model::{
    Access, ClusterChoice, ClusterEffect, ClusterTime, ClusterVerdict, CostRatio, StoreKind,
    SwappedKind,
};

use super::rows::{Done, Key, Middle, divide, undisturbed_ns};
use super::spec::FaultSpec;
use super::task::Round;
use crate::picks::swappiness;

/// Number of rounds that a conclusion needs: without a difference, five rounds have the same sign
/// with a chance of 1 in 16.
const ENOUGH: usize = 5;
/// Smallest difference of costs that counts: 5 %, the variation that CPU clocks and caches cause in
/// repeated measurements.
const MARGIN: f64 = 0.05;
/// If a fault swaps in more pages than this on average, the kernel reads ahead. The value is above
/// what swap-ins of other processes can cause (they are counted, too), and below the 2 pages per
/// fault of page-cluster 1.
const READS_AHEAD: f64 = 1.2;

/// Share of swapped pages that may bypass zswap's pool: 1 %; other processes may swap as much.
const NOTABLE: f64 = 0.01;

/// The rounds of one combination, by their numbers.
pub(super) fn rounds_of(all: &[Done], key: Key) -> BTreeMap<u32, Round> {
    let its = all.iter().filter(|done| done.key == key);
    its.map(|done| (done.round, done.figures)).collect()
}

/// The share (0 to 1) of the pages swapped out in these rounds that bypassed zswap's pool.
pub(super) fn backing_share<'a>(rounds: impl IntoIterator<Item = &'a Round>) -> f64 {
    let add = |(written, out): (u64, u64), one: &Round| {
        (written + one.backing.map_or(0, |past| past.written), out + one.out)
    };
    let (written, out) = rounds.into_iter().fold((0, 0), add);
    divide(written, out)
}

/// Whether so many pages bypassed zswap's pool that the rounds allow no conclusion.
pub(super) fn is_notable(backing_share: f64) -> bool {
    backing_share > NOTABLE
}

/// Pairs the values of the rounds that are in both maps.
pub(super) fn pair_rounds<'a, A, B>(
    one: &'a BTreeMap<u32, A>,
    other: &'a BTreeMap<u32, B>,
) -> impl Iterator<Item = (&'a A, &'a B)> {
    one.iter().filter_map(|(round, a)| Some((a, other.get(round)?)))
}

/// The effect of `vm.page-cluster` for each store, kind of memory and order of which the smallest
/// and largest page-cluster were measured.
pub(super) fn cluster_effects(spec: &FaultSpec, all: &[Done]) -> Vec<ClusterEffect> {
    let mut found = Vec::new();
    for store in 0..spec.stores.len() {
        for &memory in &spec.memory {
            for &access in &spec.access {
                found.extend(cluster_effect(spec, all, Key { store, memory, access, cluster: 0 }));
            }
        }
    }
    found
}

fn cluster_effect(spec: &FaultSpec, all: &[Done], key: Key) -> Option<ClusterEffect> {
    let least = *spec.page_clusters.iter().min()?;
    let largest = *spec.page_clusters.iter().max().filter(|largest| **largest > least)?;
    let with = [least, largest].map(|cluster| rounds_of(all, Key { cluster, ..key }));
    if is_notable(backing_share(with.iter().flat_map(BTreeMap::values))) {
        return None;
    }
    let ratio = pair_rounds(&with[0], &with[1]).map(|(a, b)| undisturbed_ns(b) / undisturbed_ns(a));
    let ratios: Vec<f64> = ratio.collect();
    let ratio = Middle::from_numbers(ratios.iter().copied())?;
    let mean =
        |rounds: &BTreeMap<u32, Round>| Middle::from_numbers(rounds.values().map(undisturbed_ns));
    let pages_per_fault = with.each_ref().map(pages_per_fault);
    let reads_ahead = pages_per_fault[1] > READS_AHEAD;
    Some(ClusterEffect {
        store: spec.stores[key.store].clone(),
        memory: key.memory,
        access: key.access,
        page_clusters: [least, largest],
        pages_per_fault,
        reads_ahead,
        undisturbed_ns: [mean(&with[0])?.median, mean(&with[1])?.median],
        time_ratio: ratio.median,
        time_ratio_spread: ratio.ends,
        verdict: if reads_ahead { to_verdict(&ratios) } else { ClusterVerdict::NoDifferenceShown },
    })
}

fn pages_per_fault(rounds: &BTreeMap<u32, Round>) -> f64 {
    let sum = |pick: fn(&Round) -> u64| rounds.values().map(pick).sum();
    divide(sum(|one| one.swapped_in), sum(|one| one.major_faults))
}

fn to_verdict(ratios: &[f64]) -> ClusterVerdict {
    match compare_with_one(ratios) {
        Ordering::Less => ClusterVerdict::Faster,
        Ordering::Greater => ClusterVerdict::Slower,
        Ordering::Equal => ClusterVerdict::NoDifferenceShown,
    }
}

/// What the ratios of two costs show, with one ratio for each round: `Less`, `Greater`, or `Equal`
/// if there is no difference.
pub(super) fn compare_with_one(ratios: &[f64]) -> Ordering {
    let median = Middle::from_numbers(ratios.iter().copied()).map_or(1.0, |middle| middle.median);
    if ratios.len() < ENOUGH {
        Ordering::Equal
    } else if median < 1.0 - MARGIN && ratios.iter().all(|ratio| *ratio < 1.0) {
        Ordering::Less
    } else if median > 1.0 + MARGIN && ratios.iter().all(|ratio| *ratio > 1.0) {
        Ordering::Greater
    } else {
        Ordering::Equal
    }
}

/// The choice of `vm.page-cluster` for each zram device.
pub(super) fn cluster_choices(spec: &FaultSpec, all: &[Done]) -> Vec<ClusterChoice> {
    let measured = |store: &usize| all.iter().any(|done| done.key.store == *store);
    zram_indices(spec).filter(measured).map(|store| cluster_choice(spec, all, store)).collect()
}

/// Indices of the zram devices in [`FaultSpec::stores`].
fn zram_indices(spec: &FaultSpec) -> impl Iterator<Item = usize> {
    (0..spec.stores.len()).filter(|store| spec.stores[*store].kind == StoreKind::Zram)
}

fn cluster_choice(spec: &FaultSpec, all: &[Done], store: usize) -> ClusterChoice {
    let memory: Vec<SwappedKind> = (spec.memory.iter().copied())
        .filter(|memory| is_read_ahead(spec, all, store, *memory))
        .collect();
    let mut clusters = spec.page_clusters.clone();
    clusters.sort_unstable();
    clusters.dedup();
    let times =
        |cluster: &u32| mean_times(all, &combinations_of(store, &memory, &spec.access, *cluster));
    let times = keep_common_rounds(clusters.iter().map(times).collect());
    let candidates = relative_times(&clusters, &times);
    let alike = candidates.iter().all(|one| one.as_good_as_best);
    let best = candidates.iter().min_by(|a, b| a.undisturbed_ns.total_cmp(&b.undisturbed_ns));
    ClusterChoice {
        compressor: spec.stores[store].compressor.clone(),
        memory,
        rounds: times.first().map_or(0, |rounds| u32::try_from(rounds.len()).unwrap_or(u32::MAX)),
        implied: best.filter(|_| !alike).map(|best| best.page_cluster),
        candidates,
    }
}

/// Whether the kernel reads ahead for this kind of memory, with any order and page-cluster.
fn is_read_ahead(spec: &FaultSpec, all: &[Done], store: usize, memory: SwappedKind) -> bool {
    let all_keys = spec.page_clusters.iter();
    let mut all_keys =
        all_keys.flat_map(|cluster| combinations_of(store, &[memory], &spec.access, *cluster));
    all_keys.any(|key| pages_per_fault(&rounds_of(all, key)) > READS_AHEAD)
}

/// Keeps only the rounds that all settings have in common.
fn keep_common_rounds(mut times: Vec<BTreeMap<u32, f64>>) -> Vec<BTreeMap<u32, f64>> {
    let everywhere = |round: &u32| times.iter().all(|time| time.contains_key(round));
    let rounds = times.first().map(|first| first.keys().copied().filter(everywhere).collect());
    let rounds: Vec<u32> = rounds.unwrap_or_default();
    times.iter_mut().for_each(|time| time.retain(|round, _| rounds.contains(round)));
    times
}

/// Time with each page-cluster relative to the best one; empty if no round has all of them.
fn relative_times(clusters: &[u32], times: &[BTreeMap<u32, f64>]) -> Vec<ClusterTime> {
    let middles = times.iter().map(|time| Middle::from_numbers(time.values().copied()));
    let Some(middles) = middles.collect::<Option<Vec<Middle>>>() else { return Vec::new() };
    let both = times.iter().zip(&middles);
    let best = both.min_by(|a, b| a.1.median.total_cmp(&b.1.median)).map(|(times, _)| times);
    let Some(best) = best else { return Vec::new() };
    let as_good = |time: &BTreeMap<u32, f64>| {
        let ratios: Vec<f64> = pair_rounds(best, time).map(|(best, one)| one / best).collect();
        to_verdict(&ratios) != ClusterVerdict::Slower
    };
    let all = clusters.iter().zip(times).zip(&middles);
    all.map(|((page_cluster, time), middle)| ClusterTime {
        page_cluster: *page_cluster,
        undisturbed_ns: middle.median,
        undisturbed_spread: middle.ends,
        as_good_as_best: as_good(time),
    })
    .collect()
}

fn combinations_of(
    store: usize,
    memory: &[SwappedKind],
    access: &[Access],
    cluster: u32,
) -> Vec<Key> {
    let both = |&memory: &SwappedKind| {
        access.iter().map(move |&access| Key { store, memory, access, cluster })
    };
    memory.iter().flat_map(both).collect()
}

/// Mean time of a touch over all these combinations with equal weight, for each round that has all
/// of them.
fn mean_times(all: &[Done], keys: &[Key]) -> BTreeMap<u32, f64> {
    let mut rounds: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for key in keys {
        for (round, figures) in rounds_of(all, *key) {
            rounds.entry(round).or_default().push(undisturbed_ns(&figures));
        }
    }
    let count = u32::try_from(keys.len().max(1)).map_or(f64::INFINITY, f64::from);
    let whole = rounds.into_iter().filter(|(_, times)| times.len() == keys.len());
    whole.map(|(round, times)| (round, times.iter().sum::<f64>() / count)).collect()
}

/// The ratio of the cost of swap to that of a file, for each zram device. A device has a ratio if,
/// in some round, private memory was touched in random order and the file was read, too.
pub(super) fn cost_ratios(
    spec: &FaultSpec,
    all: &[Done],
    files: &[(u32, Round)],
) -> Vec<CostRatio> {
    zram_indices(spec).filter_map(|store| cost_ratio(spec, all, files, store)).collect()
}

fn cost_ratio(
    spec: &FaultSpec,
    all: &[Done],
    files: &[(u32, Round)],
    store: usize,
) -> Option<CostRatio> {
    let cluster = *spec.page_clusters.iter().min()?;
    let key = Key { store, memory: SwappedKind::Private, access: Access::Random, cluster };
    let swap = rounds_of(all, key);
    let files: BTreeMap<u32, Round> = files.iter().copied().collect();
    let both: Vec<(f64, f64)> = pair_rounds(&files, &swap)
        .map(|(file, swap)| (undisturbed_ns(file), undisturbed_ns(swap)))
        .collect();
    let ratio = Middle::from_numbers(both.iter().map(|(file, swap)| file / swap))?;
    let swap = Middle::from_numbers(both.iter().map(|(_, swap)| *swap))?;
    let file = Middle::from_numbers(both.iter().map(|(file, _)| *file))?;
    let sum = |pick: fn(&Round) -> u64| files.values().map(pick).sum();
    Some(CostRatio {
        compressor: spec.stores[store].compressor.clone(),
        rounds: u32::try_from(both.len()).unwrap_or(u32::MAX),
        page_cluster: cluster,
        swap_ns_per_page: swap.median,
        swap_spread: swap.ends,
        file_ns_per_page: file.median,
        file_spread: file.ends,
        file_faults_per_page: divide(sum(|one| one.major_faults), sum(|one| one.touches)),
        file_per_swap: ratio.median,
        file_per_swap_spread: ratio.ends,
        swappiness: swappiness(ratio.median),
        swappiness_spread: ratio.ends.map(swappiness),
    })
}

#[cfg(test)]
mod tests {
    use pagewise_model::{Compressor, SwapStore};
    use proptest::prelude::*;

    use super::super::task::PastPool;
    use super::super::testing::{any_rounds, fault_spec};
    use super::*;

    /// Makes a round whose touches took this long each, with this many pages per fault.
    fn round_with_touches(undisturbed_ns: f64, pages_per_fault: u64) -> Round {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small")]
        let own_ns = (8.0 * undisturbed_ns) as u64;
        let swapped_in = 8 * pages_per_fault;
        Round { own_ns, touches: 8, major_faults: 8, swapped_in, ..Round::default() }
    }

    /// Number of pages that the simulated kernel swaps in per fault; it reads ahead only for shared
    /// memory in sequential order.
    fn window(memory: SwappedKind, access: Access, cluster: u32) -> u64 {
        let ahead = memory != SwappedKind::Private && access == Access::Sequential;
        if ahead { 1 << cluster } else { 1 }
    }

    /// Makes rounds with these times per touch, by memory, order, cluster and round.
    fn make_rounds(rounds: u32, time: impl Fn(SwappedKind, Access, u32, u32) -> f64) -> Vec<Done> {
        let spec = fault_spec();
        let mut all = Vec::new();
        for &cluster in &spec.page_clusters {
            for key in combinations_of(0, &spec.memory, &spec.access, cluster) {
                for round in 1..=rounds {
                    let pages = window(key.memory, key.access, cluster);
                    let figures =
                        round_with_touches(time(key.memory, key.access, cluster, round), pages);
                    all.push(Done { round, key, figures });
                }
            }
        }
        all
    }

    #[test]
    fn the_documented_rule_of_swappiness() {
        let known = [(0.0, 0), (0.5, 67), (1.0, 100), (2.0, 133), (3.0, 150), (1e9, 200)];
        for (faster, value) in known {
            assert_eq!(swappiness(faster), value, "{faster}");
        }
    }

    fn verdicts(all: &[Done], memory: SwappedKind) -> Vec<ClusterVerdict> {
        let effects = cluster_effects(&fault_spec(), all).into_iter();
        effects.filter(|effect| effect.memory == memory).map(|effect| effect.verdict).collect()
    }

    #[test]
    fn drift_over_rounds_hides_no_difference_within_them() {
        let all = make_rounds(5, |_, access, cluster, round| {
            let ahead = if access == Access::Sequential { f64::from(cluster) } else { 0.0 };
            1000.0 * f64::from(round * round) * (1.0 - 0.1 * ahead)
        });
        let [none, faster] = [ClusterVerdict::NoDifferenceShown, ClusterVerdict::Faster];
        assert_eq!(verdicts(&all, SwappedKind::Private), [none, none], "nothing is read ahead");
        assert_eq!(verdicts(&all, SwappedKind::Forked), [faster, none]);
        let choice = &cluster_choices(&fault_spec(), &all)[0];
        assert_eq!(choice.memory, [SwappedKind::Forked, SwappedKind::Shmem]);
        assert_eq!((choice.implied, choice.rounds), (Some(3), 5));
    }

    #[test]
    fn what_is_good_in_order_and_bad_at_random_is_weighed() {
        let all = make_rounds(5, |_, access, cluster, _| match access {
            Access::Sequential => 4000.0 / f64::from(1 << cluster),
            Access::Random => 4000.0 * f64::from(1 << cluster),
        });
        let choice = &cluster_choices(&fault_spec(), &all)[0];
        assert_eq!(choice.implied, Some(0));
        assert_eq!(choice.candidates[3].undisturbed_ns, (500.0 + 32_000.0) / 2.0);
    }

    #[test]
    fn little_few_rounds_and_rounds_that_disagree_show_no_difference() {
        let much = |cluster| 100.0 * f64::from(cluster);
        let few = make_rounds(4, |_, _, cluster, _| 1000.0 + much(cluster));
        let little = make_rounds(9, |_, _, cluster, _| 1000.0 + 0.1 * much(cluster));
        let torn = make_rounds(9, |_, _, cluster, round| {
            1000.0 + if round == 4 { -much(cluster) } else { much(cluster) }
        });
        for all in [few, little, torn] {
            assert_eq!(cluster_choices(&fault_spec(), &all)[0].implied, None);
            let all = verdicts(&all, SwappedKind::Forked);
            assert_eq!(all, [ClusterVerdict::NoDifferenceShown; 2]);
        }
        assert!(
            cluster_choices(&fault_spec(), &[]).is_empty()
                && cluster_effects(&fault_spec(), &[]).is_empty()
        );
    }

    #[test]
    fn where_nothing_is_read_ahead_nothing_is_to_choose() {
        let mut all = make_rounds(5, |_, _, cluster, _| 1000.0 + 100.0 * f64::from(cluster));
        all.retain(|done| done.key.memory == SwappedKind::Private);
        let choice = &cluster_choices(&fault_spec(), &all)[0];
        assert!(choice.memory.is_empty() && choice.candidates.is_empty());
        assert_eq!(choice.implied, None);
    }

    #[test]
    fn swap_and_file_are_compared_within_a_round() {
        let all = make_rounds(3, |_, _, _, round| 1000.0 * f64::from(round));
        let file = |round: u32| (round, round_with_touches(3000.0 * f64::from(round), 1));
        let ratio = &cost_ratios(&fault_spec(), &all, &[file(2), file(3), file(9)])[0];
        assert_eq!((ratio.rounds, ratio.swappiness, ratio.swappiness_spread), (2, 150, [150, 150]));
        assert_eq!((ratio.file_per_swap, ratio.file_faults_per_page), (3.0, 1.0));
        assert!(cost_ratios(&fault_spec(), &all, &[]).is_empty());
    }

    /// Two cases: private memory with zswap as measured on Linux 6.18, and the same with some pages
    /// that bypassed the pool.
    #[test]
    fn zswap_has_an_effect_unless_pages_went_past_its_pool_and_never_a_choice() {
        let mut spec = fault_spec();
        spec.stores = vec![SwapStore::zswap(Compressor::new("lzo"))];
        let mut all = make_rounds(5, |_, _, cluster, _| 1000.0 * f64::from(1 << cluster));
        for done in &mut all {
            done.figures.out = 100;
            done.figures.swapped_in = 8 << done.key.cluster;
            done.figures.backing = Some(PastPool { written: 1, ..PastPool::default() });
        }
        let found = cluster_effects(&spec, &all);
        assert_eq!(found.len(), 6);
        assert!(found.iter().all(|one| one.verdict == ClusterVerdict::Slower), "{found:?}");
        assert!(
            cluster_choices(&spec, &all).is_empty() && cost_ratios(&spec, &all, &[]).is_empty()
        );
        for done in &mut all {
            done.figures.backing = Some(PastPool { written: 2, ..PastPool::default() });
        }
        assert!(cluster_effects(&spec, &all).is_empty());
    }

    proptest! {
        /// For any rounds, nothing panics; the implied value is the best of the candidates, and
        /// ranges are in order.
        #[test]
        fn any_rounds_can_be_judged(all in any_rounds()) {
            let spec = fault_spec();
            for effect in cluster_effects(&spec, &all) {
                prop_assert!(effect.time_ratio_spread[0] <= effect.time_ratio_spread[1]);
            }
            for choice in cluster_choices(&spec, &all) {
                let least = choice.candidates.iter().map(|one| one.undisturbed_ns).fold(f64::MAX, f64::min);
                if let Some(implied) = choice.implied {
                    let best = choice.candidates.iter().find(|one| one.page_cluster == implied);
                    prop_assert_eq!(best.unwrap().undisturbed_ns, least);
                }
            }
        }
    }
}
