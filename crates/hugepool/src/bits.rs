// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A set of small numbers as a bitmap, which finds the smallest number quickly.
//!
//! Only `reserve`, and `new_full`, which calls it, allocate memory. No other function can fail.

use crate::Error;

/// A set of numbers below a capacity, stored as a bitmap.
#[derive(Debug, Default)]
pub(crate) struct BitSet {
    words: Vec<u64>,
    /// Index in the bitmap before which no word has a bit set.
    first: usize,
}

impl BitSet {
    /// Makes room in the set for the numbers below `capacity`.
    pub(crate) fn reserve(&mut self, capacity: usize) -> Result<(), Error> {
        let words = capacity.div_ceil(64);
        if let Some(more) = words.checked_sub(self.words.len()) {
            self.words.try_reserve(more).map_err(|_| Error::RECORDS)?;
            self.words.resize(words, 0);
        }
        Ok(())
    }

    /// A set with all numbers below `capacity`.
    pub(crate) fn new_full(capacity: usize) -> Result<Self, Error> {
        let mut set = Self::default();
        set.reserve(capacity)?;
        set.words.fill(u64::MAX);
        if let (Some(last), rest @ 1..) = (set.words.last_mut(), capacity % 64) {
            *last = (1 << rest) - 1;
        }
        Ok(set)
    }

    /// Adds a number to the set, which must have room for it.
    pub(crate) fn insert(&mut self, number: usize) {
        self.words[number / 64] |= 1 << (number % 64);
        self.first = self.first.min(number / 64);
    }

    pub(crate) fn remove(&mut self, number: usize) {
        self.words[number / 64] &= !(1 << (number % 64));
    }

    pub(crate) fn contains(&self, number: usize) -> bool {
        self.words.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// The smallest number in the set; `None` if the set is empty.
    pub(crate) fn smallest(&mut self) -> Option<usize> {
        let found = self.words[self.first..].iter().position(|word| *word != 0);
        self.first += found.unwrap_or(self.words.len() - self.first);
        let word = self.words.get(self.first)?;
        Some(self.first * 64 + word.trailing_zeros() as usize)
    }

    /// All numbers in the set, in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let bits = |word: u64| (0..64).filter(move |bit| word >> bit & 1 == 1);
        let words = self.words.iter().enumerate().skip(self.first);
        words.flat_map(move |(at, word)| bits(*word).map(move |bit| at * 64 + bit))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_full_set_has_each_number_once() {
        for capacity in [1, 63, 64, 65, 4096] {
            let set = BitSet::new_full(capacity).unwrap();
            assert!(set.iter().eq(0..capacity), "{capacity}");
            assert!(!set.contains(capacity));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 128 }) })]

        /// The bit set contains the same numbers as a set of the standard library.
        #[test]
        fn it_is_a_set(steps in prop::collection::vec((any::<bool>(), 0usize..300), 0..200)) {
            let (mut set, mut model) = (BitSet::default(), BTreeSet::new());
            set.reserve(300)?;
            for (insert, number) in steps {
                if insert { set.insert(number) } else { set.remove(number) }
                if insert { model.insert(number); } else { model.remove(&number); }
                prop_assert_eq!(set.smallest(), model.first().copied());
                prop_assert!(set.iter().eq(model.iter().copied()));
            }
        }
    }
}
