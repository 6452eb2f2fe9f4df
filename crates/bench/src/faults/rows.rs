// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Combines the rounds into rows: counts are summed; a time is the median over the rounds.

use pagewise_model::{
    Access, BackingTraffic, Ends, FaultRow, Reading, Source, SwapOutCost, SwapStore, SwappedKind,
    WritebackCost,
};

use super::spec::FaultSpec;
use super::task::Round;

/// A combination of store, kind of memory, order and setting that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// Index of the store in [`FaultSpec::stores`].
    pub(super) store: usize,
    pub(super) memory: SwappedKind,
    pub(super) access: Access,
    pub(super) cluster: u32,
}

/// What one measurement found, and in which round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Done {
    /// Number of the round, from 1.
    pub(super) round: u32,
    pub(super) key: Key,
    pub(super) figures: Round,
}

/// Median, smallest and largest of some numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Middle {
    pub(super) median: f64,
    pub(super) ends: Ends<f64>,
}

impl Middle {
    /// The median and the range of the numbers; `None` if there are no numbers.
    pub(super) fn from_numbers(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = numbers.into_iter().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let (first, last) = (*sorted.first()?, *sorted.last()?);
        let upper = sorted.len() / 2;
        let lower = (sorted.len() - 1) / 2;
        Some(Self { median: f64::midpoint(sorted[lower], sorted[upper]), ends: [first, last] })
    }
}

/// Makes a row for each combination that was measured, in sorted order.
pub(super) fn rows(spec: &FaultSpec, all: &[Done], is_zswap_on_zram: bool) -> Vec<FaultRow> {
    let mut keys: Vec<Key> = all.iter().map(|done| done.key).collect();
    keys.sort_unstable();
    keys.dedup();
    let of = |key| all.iter().filter(move |done| done.key == key).map(|done| done.figures);
    let row = |key| row(spec, key, &of(key).collect::<Vec<_>>(), is_zswap_on_zram);
    keys.into_iter().filter_map(row).collect()
}

fn row(spec: &FaultSpec, key: Key, rounds: &[Round], on_zram: bool) -> Option<FaultRow> {
    let sum = |pick: fn(&Round) -> u64| rounds.iter().map(pick).sum::<u64>();
    let middle = |pick: fn(&Round) -> f64| Middle::from_numbers(rounds.iter().map(pick));
    let pool = rounds.iter().map(|one| one.pool_bytes_per_page).collect::<Option<Vec<f64>>>();
    let (major_faults, swapped_in_pages) = (sum(|one| one.major_faults), sum(|one| one.swapped_in));
    let mean = middle(|one| one.times.mean_ns)?;
    let undisturbed = middle(undisturbed_ns)?;
    let cpu_in = middle(|one| divide(one.in_cpu_ns, one.touches))?;
    let cpu_out = middle(|one| divide(one.out_cpu_ns, one.out))?;
    Some(FaultRow {
        store: spec.stores[key.store].clone(),
        memory: key.memory,
        access: key.access,
        page_cluster: key.cluster,
        rounds: u32::try_from(rounds.len()).unwrap_or(u32::MAX),
        swapped_out_pages: sum(|one| one.out),
        backing: sum_backing_traffic(rounds, on_zram),
        pool_bytes_per_page: pool.and_then(Middle::from_numbers).map(|pool| pool.median),
        touched_pages: sum(|one| one.touches),
        wrong_pages: sum(|one| one.wrong),
        major_faults,
        swapped_in_pages,
        pages_per_fault: (major_faults > 0).then(|| divide(swapped_in_pages, major_faults)),
        read_ahead_pages: sum_counter(rounds, "swap_ra", |one| one.read_ahead),
        read_ahead_hits: sum_counter(rounds, "swap_ra_hit", |one| one.read_ahead_hits),
        mean_ns: mean.median,
        mean_spread: mean.ends,
        undisturbed_ns: undisturbed.median,
        undisturbed_spread: undisturbed.ends,
        p50_ns: middle(|one| one.times.p50_ns)?.median,
        p99_ns: middle(|one| one.times.p99_ns)?.median,
        p999_ns: middle(|one| one.times.p999_ns)?.median,
        in_cpu_ns_per_page: cpu_in.median,
        in_cpu_spread: cpu_in.ends,
        out_cpu_ns_per_page: cpu_out.median,
        out_cpu_spread: cpu_out.ends,
    })
}

/// Traffic of the swap area behind zswap; `None` if one of the rounds had no zswap.
fn sum_backing_traffic(rounds: &[Round], is_zram: bool) -> Option<BackingTraffic> {
    let past = rounds.iter().map(|one| one.backing).collect::<Option<Vec<_>>>()?;
    let refused = |one: &Round| one.backing.and_then(|past| past.refused);
    Some(BackingTraffic {
        written_pages: past.iter().map(|past| past.written).sum(),
        refused_pages: sum_counter(rounds, "zswpwb", refused),
        read_pages: past.iter().map(|past| past.read).sum(),
        is_zram,
    })
}

/// The sum over the rounds of a counter that this kernel may not have.
fn sum_counter(rounds: &[Round], name: &str, pick: fn(&Round) -> Option<u64>) -> Reading<u64> {
    let source = Source::file("/proc/vmstat");
    match rounds.iter().map(pick).sum::<Option<u64>>() {
        Some(sum) => Reading::found(sum, source),
        None => Reading::absent(format!("this kernel has no counter {name}"), source),
    }
}

#[expect(clippy::cast_precision_loss, reason = "no count or time here comes near 2⁵³")]
pub(super) fn divide(sum: u64, count: u64) -> f64 {
    sum as f64 / count.max(1) as f64
}

/// Mean time of a touch without waiting for a CPU; at least a nanosecond, because times are divided
/// by each other.
pub(super) fn undisturbed_ns(one: &Round) -> f64 {
    divide(one.own_ns, one.touches).max(1.0)
}

/// The cost of swapping out with each store. It does not depend on page-cluster or the order of
/// touching, so all rounds of a store count.
pub(super) fn swap_out_costs(spec: &FaultSpec, all: &[Done]) -> Vec<SwapOutCost> {
    let cost = |(number, store): (usize, &SwapStore)| {
        let rounds: Vec<Round> =
            all.iter().filter(|done| done.key.store == number).map(|done| done.figures).collect();
        let cpu = Middle::from_numbers(rounds.iter().map(|one| divide(one.out_cpu_ns, one.out)))?;
        Some(SwapOutCost {
            store: store.clone(),
            swapped_out_pages: rounds.iter().map(|one| one.out).sum(),
            cpu_ns_per_page: cpu.median,
            cpu_spread: cpu.ends,
        })
    };
    spec.stores.iter().enumerate().filter_map(cost).collect()
}

/// The cost of writing back from zswap's pool, for each of its algorithms.
pub(super) fn writeback_costs(spec: &FaultSpec, all: &[(usize, Round)]) -> Vec<WritebackCost> {
    let cost = |(number, store): (usize, &SwapStore)| {
        let rounds: Vec<Round> =
            all.iter().filter(|(of, _)| *of == number).map(|(_, figures)| *figures).collect();
        let cost = |one: &Round| divide(one.writeback_cpu_ns, one.written_back);
        let cpu = Middle::from_numbers(rounds.iter().map(cost))?;
        let written_pages = rounds.iter().map(|one| one.written_back).sum();
        Some(WritebackCost {
            compressor: store.compressor.clone(),
            rounds: u32::try_from(rounds.len()).unwrap_or(u32::MAX),
            written_pages,
            written_share: divide(written_pages, rounds.iter().map(|one| one.out).sum()).min(1.0),
            cpu_ns_per_page: cpu.median,
            cpu_spread: cpu.ends,
        })
    };
    spec.stores.iter().enumerate().filter_map(cost).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{any_rounds, fault_spec};
    use super::*;

    proptest! {
        /// At least half of the numbers are at or below the median, at least half at or above it,
        /// and all are within the range.
        #[test]
        fn a_median_has_half_on_either_side(numbers in prop::collection::vec(0.0..1e9f64, 1..50)) {
            let middle = Middle::from_numbers(numbers.clone()).unwrap();
            let half = numbers.len().div_ceil(2);
            prop_assert!(numbers.iter().filter(|&&one| one <= middle.median).count() >= half);
            prop_assert!(numbers.iter().filter(|&&one| one >= middle.median).count() >= half);
            prop_assert!(numbers.iter().all(|&one| middle.ends[0] <= one && one <= middle.ends[1]));
            prop_assert!(middle.ends.iter().all(|end| numbers.contains(end)));
        }

        /// Every round is counted exactly once, whichever combinations were measured.
        #[test]
        fn rows_hold_every_round_once(all in any_rounds()) {
            let spec = fault_spec();
            let rows = rows(&spec, &all, false);
            let rounds: u32 = rows.iter().map(|row| row.rounds).sum();
            prop_assert_eq!(usize::try_from(rounds).unwrap(), all.len());
            let faults: u64 = rows.iter().map(|row| row.major_faults).sum();
            prop_assert_eq!(faults, all.iter().map(|done| done.figures.major_faults).sum::<u64>());
            let out: u64 = swap_out_costs(&spec, &all).iter().map(|cost| cost.swapped_out_pages).sum();
            prop_assert_eq!(out, rows.iter().map(|row| row.swapped_out_pages).sum::<u64>());
            for row in rows {
                prop_assert!(row.mean_spread[0] <= row.mean_ns && row.mean_ns <= row.mean_spread[1]);
                prop_assert_eq!(row.pages_per_fault.is_some(), row.major_faults > 0);
            }
        }
    }

    #[test]
    fn a_counter_that_is_missing_once_is_absent_and_not_zero() {
        let with = Round { read_ahead: Some(3), ..Round::default() };
        let pick = |one: &Round| one.read_ahead;
        assert_eq!(sum_counter(&[with, with], "swap_ra", pick).get(), Some(6));
        assert_eq!(sum_counter(&[with, Round::default()], "swap_ra", pick).get(), None);
    }

    #[test]
    fn what_went_past_a_pool_is_summed_up_and_zram_has_none() {
        use super::super::task::PastPool;
        let past = |written, refused| Round {
            backing: Some(PastPool { written, refused, read: 1 }),
            ..Round::default()
        };
        let found = sum_backing_traffic(&[past(5, Some(3)), past(7, Some(4))], true).unwrap();
        assert_eq!((found.written_pages, found.read_pages, found.is_zram), (12, 2, true));
        assert_eq!(found.refused_pages.get(), Some(7));
        let found = sum_backing_traffic(&[past(5, Some(3)), past(7, None)], false).unwrap();
        assert_eq!((found.written_pages, found.refused_pages.get()), (12, None));
        assert_eq!(sum_backing_traffic(&[past(5, None), Round::default()], false), None);
    }

    #[test]
    fn a_page_written_back_costs_the_median_of_its_rounds() {
        let lz4 = pagewise_model::Compressor::new("lz4");
        let spec = FaultSpec {
            stores: vec![SwapStore::zram(lz4.clone()), SwapStore::zswap(lz4)],
            ..fault_spec()
        };
        let round = |out, written_back, writeback_cpu_ns| {
            (1, Round { out, written_back, writeback_cpu_ns, ..Round::default() })
        };
        let all = [round(100, 50, 500), round(100, 100, 3000), round(100, 90, 1800)];
        let [cost] = &writeback_costs(&spec, &all)[..] else { panic!("one of zswap") };
        assert_eq!((cost.rounds, cost.written_pages, cost.written_share), (3, 240, 0.8));
        assert_eq!((cost.cpu_ns_per_page, cost.cpu_spread), (20.0, [10.0, 30.0]));
        assert_eq!(writeback_costs(&spec, &[]), []);
    }

    #[test]
    fn nothing_has_no_middle() {
        assert_eq!(Middle::from_numbers([]), None);
    }
}
