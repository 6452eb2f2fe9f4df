// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ranges of page numbers; used to count a page of a file once, even if it is mapped several times.

use std::collections::BTreeMap;

/// A set of numbers, stored as ranges that neither overlap nor are adjacent.
#[derive(Debug, Clone, Default)]
pub(crate) struct RangeSet {
    /// Maps the start of each range to its end.
    ranges: BTreeMap<u64, u64>,
}

impl RangeSet {
    /// Number of ranges that the set consists of.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Adds `first..end`; returns those parts of it that were not in the set, in order.
    pub(crate) fn insert(&mut self, first: u64, end: u64) -> Vec<(u64, u64)> {
        if first >= end {
            return Vec::new();
        }
        let touching: Vec<(u64, u64)> = self.touching(first, end);
        let new = gaps(first, end, &touching);
        let begin = touching.first().map_or(first, |range| range.0.min(first));
        let last = touching.last().map_or(end, |range| range.1.max(end));
        for (begin, _) in &touching {
            self.ranges.remove(begin);
        }
        self.ranges.insert(begin, last);
        new
    }

    /// The parts of `first..end` that are not in the set.
    pub(crate) fn missing(&self, first: u64, end: u64) -> Vec<(u64, u64)> {
        gaps(first, end, &self.touching(first, end))
    }

    /// Ranges of the set that overlap or touch `first..end`, in order.
    fn touching(&self, first: u64, end: u64) -> Vec<(u64, u64)> {
        let before = self.ranges.range(..first).next_back().filter(|(_, last)| **last >= first);
        let after = self.ranges.range(first..).take_while(|(begin, _)| **begin <= end);
        before.into_iter().chain(after).map(|(&begin, &last)| (begin, last)).collect()
    }
}

/// The parts of `first..end` that none of the sorted `ranges` covers.
fn gaps(first: u64, end: u64, ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut free = Vec::new();
    let mut at = first;
    for &(begin, last) in ranges {
        if begin > at {
            free.push((at, begin.min(end)));
        }
        at = at.max(last);
    }
    if at < end {
        free.push((at, end));
    }
    free
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// The set behaves like a plain set of numbers.
        #[test]
        fn ranges_are_a_set(inserted in prop::collection::vec((0u64..60, 0u64..12), 0..40)) {
            let mut ranges = RangeSet::default();
            let mut oracle = BTreeSet::new();
            for (first, length) in inserted {
                let expected: Vec<u64> =
                    (first..first + length).filter(|number| !oracle.contains(number)).collect();
                let listed = |ranges: Vec<(u64, u64)>| -> Vec<u64> {
                    ranges.into_iter().flat_map(|(first, end)| first..end).collect()
                };
                prop_assert_eq!(&listed(ranges.missing(first, first + length)), &expected);
                prop_assert_eq!(&listed(ranges.insert(first, first + length)), &expected);
                oracle.extend(expected);
            }
            let runs = oracle.iter().filter(|&&number| number == 0 || !oracle.contains(&(number - 1)));
            prop_assert_eq!(ranges.len(), runs.count());
        }
    }

    #[test]
    fn the_largest_numbers_do_not_wrap() {
        let mut ranges = RangeSet::default();
        assert_eq!(ranges.insert(u64::MAX - 1, u64::MAX), [(u64::MAX - 1, u64::MAX)]);
        assert_eq!(ranges.insert(0, u64::MAX), [(0, u64::MAX - 1)]);
        assert!(ranges.insert(9, 3).is_empty());
    }
}
