// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the cost of zswap with that of zram with the same algorithm.
//!
//! Rounds with the same number are compared in pairs, because the machine had about the same load
//! then. `judge` decides what counts as a difference. The comparison uses the smallest measured
//! `vm.page-cluster`; with 0 there is no readahead.

use std::cmp::Ordering;

use pagewise_model::{CostVerdict, RelativeCost, StoreComparison, StoreKind};

use super::judge::{backing_share, compare_with_one, is_notable, pair_rounds, rounds_of};
use super::rows::{Done, Key, Middle, divide, undisturbed_ns};
use super::spec::FaultSpec;
use super::task::Round;

/// A comparison of zswap with zram for each algorithm, kind of memory and order that were measured
/// with both stores.
pub(super) fn comparisons(spec: &FaultSpec, all: &[Done]) -> Vec<StoreComparison> {
    let is_zram = |store: usize| spec.stores[store].kind == StoreKind::Zram;
    let mut keys: Vec<Key> = all.iter().map(|done| done.key).collect();
    keys.sort_unstable();
    keys.dedup();
    let least = spec.page_clusters.iter().min();
    let of_zram = keys.iter().filter(|key| is_zram(key.store) && Some(&key.cluster) == least);
    of_zram.filter_map(|zram| comparison(spec, all, *zram)).collect()
}

fn comparison(spec: &FaultSpec, all: &[Done], zram: Key) -> Option<StoreComparison> {
    let compressor = &spec.stores[zram.store].compressor;
    let is_other = |store: &usize| {
        let store = &spec.stores[*store];
        store.kind == StoreKind::Zswap && store.compressor == *compressor
    };
    let store = (0..spec.stores.len()).find(is_other)?;
    let (of_zram, of_zswap) = (rounds_of(all, zram), rounds_of(all, Key { store, ..zram }));
    let pairs: Vec<(&Round, &Round)> = pair_rounds(&of_zram, &of_zswap).collect();
    let backing_share = backing_share(pairs.iter().map(|(_, zswap)| *zswap));
    // at least 1 ns: if the clock did not advance, the ratio would be a division by zero
    let of_one = |ns, count| Some(f64::max(divide(ns, count), 1.0));
    let relative = |cost: &dyn Fn(&Round) -> Option<f64>| {
        let ratio = |(zram, zswap): &(&Round, &Round)| Some(cost(zswap)? / cost(zram)?);
        relative_cost(&pairs.iter().map(ratio).collect::<Option<Vec<f64>>>()?, backing_share)
    };
    Some(StoreComparison {
        compressor: compressor.clone(),
        memory: zram.memory,
        access: zram.access,
        page_cluster: zram.cluster,
        rounds: u32::try_from(pairs.len()).unwrap_or(u32::MAX),
        backing_share,
        out_cpu: relative(&|one| of_one(one.out_cpu_ns, one.out))?,
        in_cpu: relative(&|one| of_one(one.in_cpu_ns, one.touches))?,
        touch: relative(&|one| Some(undisturbed_ns(one)))?,
        pool: relative(&|one| one.pool_bytes_per_page.filter(|bytes| *bytes > 0.0)),
    })
}

fn relative_cost(ratios: &[f64], backing_share: f64) -> Option<RelativeCost> {
    let middle = Middle::from_numbers(ratios.iter().copied())?;
    let verdict = match compare_with_one(ratios) {
        _ if is_notable(backing_share) => CostVerdict::NotJudged,
        Ordering::Less => CostVerdict::Less,
        Ordering::Greater => CostVerdict::More,
        Ordering::Equal => CostVerdict::NoDifferenceShown,
    };
    Some(RelativeCost { zswap_per_zram: middle.median, spread: middle.ends, verdict })
}

#[cfg(test)]
mod tests {
    use pagewise_model::{Access, Compressor, SwapStore, SwappedKind};

    use super::super::task::PastPool;
    use super::super::testing::fault_spec;
    use super::*;

    /// A specification of three stores: zram with lz4, zswap with lz4, and zswap with zstd.
    fn spec() -> FaultSpec {
        let [lz4, zstd] = ["lz4", "zstd"].map(Compressor::new);
        let stores =
            vec![SwapStore::zram(lz4.clone()), SwapStore::zswap(lz4), SwapStore::zswap(zstd)];
        FaultSpec { stores, ..fault_spec() }
    }

    fn done(store: usize, round: u32, cost_ns: u64, written: u64) -> Done {
        let (memory, access) = (SwappedKind::Private, Access::Random);
        let past = PastPool { written, ..PastPool::default() };
        let figures = Round {
            out: 100,
            out_cpu_ns: 100 * cost_ns,
            touches: 10,
            in_cpu_ns: 10 * cost_ns,
            own_ns: 10 * cost_ns,
            backing: (store > 0).then_some(past),
            pool_bytes_per_page: Some(1024.0),
            ..Round::default()
        };
        Done { round, key: Key { store, memory, access, cluster: 0 }, figures }
    }

    /// Rounds, each of which is slower than the one before; zswap costs 10 % more in each.
    fn rounds(count: u32, written: u64) -> Vec<Done> {
        let one = |round: u32| {
            let cost = 1000 * u64::from(round);
            [done(0, round, cost, 0), done(1, round, cost * 11 / 10, written)]
        };
        (1..=count).flat_map(one).collect()
    }

    #[test]
    fn rounds_with_the_same_number_are_compared() {
        let mut all = rounds(5, 1);
        all.push(done(2, 1, 9, 0));
        let found = comparisons(&spec(), &all);
        assert_eq!(found.len(), 1, "zram with zstd was not measured: {found:?}");
        let one = &found[0];
        assert_eq!((one.compressor.to_string().as_str(), one.rounds), ("lz4", 5));
        let more =
            RelativeCost { zswap_per_zram: 1.1, spread: [1.1, 1.1], verdict: CostVerdict::More };
        assert_eq!([one.out_cpu, one.in_cpu, one.touch], [more; 3]);
        assert_eq!(one.pool.map(|pool| pool.verdict), Some(CostVerdict::NoDifferenceShown));
        assert_eq!(one.backing_share, 0.01);
    }

    #[test]
    fn with_many_pages_past_the_pool_or_few_rounds_nothing_is_shown() {
        let one = &comparisons(&spec(), &rounds(5, 2))[0];
        assert_eq!((one.out_cpu.verdict, one.backing_share), (CostVerdict::NotJudged, 0.02));
        let one = &comparisons(&spec(), &rounds(4, 0))[0];
        assert_eq!(one.out_cpu.verdict, CostVerdict::NoDifferenceShown);
    }

    #[test]
    fn without_a_pair_or_a_figure_there_is_no_ratio() {
        let mut all = rounds(5, 0);
        all[3].figures.pool_bytes_per_page = None;
        assert_eq!(comparisons(&spec(), &all)[0].pool, None);
        all.retain(|done| done.key.store == 0 || done.round > 5);
        assert!(comparisons(&spec(), &all).is_empty());
    }
}
