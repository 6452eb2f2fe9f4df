// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes from the costs of swapping out and faulting in for which memory compression pays, and
//! which swappiness follows if there is a slower tier below zram.

use pagewise_model::{BreakEven, CostRatio, Name, StoreKind, SwapOutCost, TierMix};

/// Shares of the faults that zram serves, for which the swappiness is computed.
const SHARES: [f64; 5] = [1.0, 0.95, 0.9, 0.75, 0.5];

/// When compression pays, for each zram algorithm whose swap-out and faults were measured together
/// with a file.
#[must_use]
pub fn break_even_points(out: &[SwapOutCost], ratios: &[CostRatio]) -> Vec<BreakEven> {
    let of_one = |out: &SwapOutCost| {
        let same = |ratio: &&CostRatio| ratio.compressor == out.store.compressor;
        let ratio = ratios.iter().find(same)?;
        let gain = ratio.file_ns_per_page - ratio.swap_ns_per_page;
        Some(BreakEven {
            contender: out.store.compressor.clone(),
            out_ns: out.cpu_ns_per_page,
            fault_ns: ratio.swap_ns_per_page,
            other_fault_ns: ratio.file_ns_per_page,
            other: Name::from("a page of a file, read at random"),
            faults_per_page: (gain > 0.0).then(|| out.cpu_ns_per_page / gain),
        })
    };
    out.iter().filter(|out| out.store.kind == StoreKind::Zram).filter_map(of_one).collect()
}

/// The mean cost of a fault and the swappiness for each share of faults that zram serves, if a disk
/// below zram is as fast as the one of the measured file.
#[must_use]
pub fn tier_mixes(ratio: &CostRatio) -> Vec<TierMix> {
    let (swap, disk) = (ratio.swap_ns_per_page, ratio.file_ns_per_page);
    let mix = |zram_share: f64| {
        let fault_ns = zram_share * swap + (1.0 - zram_share) * disk;
        TierMix { zram_share, fault_ns, swappiness: swappiness(disk / fault_ns) }
    };
    SHARES.into_iter().map(mix).collect()
}

/// The swappiness by the rule in the kernel's documentation of `vm.swappiness`: if swap is x times
/// as fast as the file system, anonymous and file memory are reclaimed in the ratio x to 1, in
/// parts of 200.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 200")]
pub(crate) fn swappiness(times_faster: f64) -> u32 {
    (200.0 * times_faster / (1.0 + times_faster)).round().clamp(0.0, 200.0) as u32
}

#[cfg(test)]
mod tests {
    use pagewise_model::{Compressor, SwapStore};

    use super::*;

    #[test]
    fn swappiness_is_the_documented_rule() {
        assert_eq!((swappiness(1.0), swappiness(2.0)), (100, 133));
        assert_eq!((swappiness(0.0), swappiness(1e12)), (0, 200));
    }

    fn ratio(swap_ns_per_page: f64, file_ns_per_page: f64) -> CostRatio {
        CostRatio {
            compressor: Compressor::new("lz4"),
            rounds: 5,
            page_cluster: 0,
            swap_ns_per_page,
            swap_spread: [swap_ns_per_page; 2],
            file_ns_per_page,
            file_spread: [file_ns_per_page; 2],
            file_faults_per_page: 1.0,
            file_per_swap: file_ns_per_page / swap_ns_per_page,
            file_per_swap_spread: [1.0, 9.0],
            swappiness: 100,
            swappiness_spread: [90, 110],
        }
    }

    #[test]
    fn compressing_pays_after_some_faults_or_never() {
        let zram = SwapStore::zram(Compressor::new("lz4"));
        let out = SwapOutCost {
            store: zram,
            swapped_out_pages: 9,
            cpu_ns_per_page: 5000.0,
            cpu_spread: [5000.0; 2],
        };
        let at = |swap, file| {
            break_even_points(std::slice::from_ref(&out), &[ratio(swap, file)])[0].faults_per_page
        };
        assert_eq!(at(2000.0, 102_000.0), Some(0.05));
        assert_eq!(at(2000.0, 2000.0), None);
        let zswap = SwapStore::zswap(Compressor::new("lz4"));
        let of_zswap = [SwapOutCost { store: zswap, ..out.clone() }];
        assert!(break_even_points(&of_zswap, &[ratio(2000.0, 102_000.0)]).is_empty());
    }

    #[test]
    fn the_more_the_disk_serves_the_lower_swappiness_is() {
        let mixes = tier_mixes(&ratio(3000.0, 90_000.0));
        assert_eq!((mixes[0].zram_share, mixes[0].fault_ns), (1.0, 3000.0));
        assert!(mixes.windows(2).all(|two| two[0].swappiness > two[1].swappiness), "{mixes:?}");
        assert!(mixes.iter().all(|mix| mix.swappiness > 100));
    }
}
