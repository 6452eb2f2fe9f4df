// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes how often each block was accessed from samples of accessed addresses.
//!
//! A sample is a list of regions with the number of times each was seen accessed; the next sample
//! may have other regions. A block gets the sum over all samples, weighted by the part of it that a
//! region covers.

use std::collections::BTreeMap;

use pagewise_observe::DamonRegion;

/// The memory regions that DAMON saw accessed, for the processes that were sampled.
#[derive(Debug, Clone, Default)]
pub struct AccessProfile {
    looks: BTreeMap<u32, Vec<Vec<DamonRegion>>>,
}

impl AccessProfile {
    /// Adds a sample of a process: regions in order of address that do not overlap.
    pub fn add(&mut self, pid: u32, regions: Vec<DamonRegion>) {
        self.looks.entry(pid).or_default().push(regions);
    }

    /// Whether the profile contains no samples of any process.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.looks.values().flatten().all(Vec::is_empty)
    }

    /// How much a range was accessed: for each sampled region, the number of its bytes in the range
    /// times the number of accesses that DAMON counted in it, summed over all samples of the
    /// process. 0 if there are none.
    pub(crate) fn accesses(&self, pid: u32, start: u64, length: u64) -> u128 {
        let end = start.saturating_add(length);
        let looks = self.looks.get(&pid).into_iter().flatten();
        looks.map(|regions| accesses_within(regions, start, end)).sum()
    }
}

fn accesses_within(regions: &[DamonRegion], start: u64, end: u64) -> u128 {
    let first = regions.partition_point(|region| region.end <= start);
    let within = regions[first..].iter().take_while(|region| region.start < end);
    let bytes = |region: &DamonRegion| region.end.min(end).saturating_sub(region.start.max(start));
    within.map(|region| u128::from(bytes(region)) * u128::from(region.accesses)).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn regions() -> impl Strategy<Value = Vec<DamonRegion>> {
        let parts = prop::collection::vec((0u64..6, 1u64..6, 0u64..4), 0..12);
        parts.prop_map(|parts| {
            let mut at = 0;
            let region = |(gap, length, accesses)| {
                let start = at + gap;
                at = start + length;
                DamonRegion { start, end: at, accesses }
            };
            parts.into_iter().map(region).collect()
        })
    }

    proptest! {
        /// Counting byte by byte gives the same result.
        #[test]
        fn a_block_has_what_its_bytes_have(
            looks in prop::collection::vec(regions(), 0..4),
            start in 0u64..70,
            length in 0u64..20,
        ) {
            let mut heat = AccessProfile::default();
            looks.iter().for_each(|regions| heat.add(7, regions.clone()));
            let all = looks.iter().flatten();
            let at = |byte| {
                let covers = |region: &&DamonRegion| region.start <= byte && byte < region.end;
                all.clone().filter(covers).map(|region| u128::from(region.accesses)).sum::<u128>()
            };
            let naive: u128 = (start..start + length).map(at).sum();
            prop_assert_eq!(heat.accesses(7, start, length), naive);
            prop_assert_eq!(heat.accesses(8, start, length), 0);
        }
    }
}
