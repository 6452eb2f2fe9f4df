// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A set of page frames, with one bit for each frame. A bitmap is allocated only for a range that
//! contains a frame of the set.
//!
//! Only frames that several processes map are added, so the set takes at most one bit per page of
//! RAM.

use std::collections::HashMap;

const WORDS: usize = 512;
const STRETCH: u64 = WORDS as u64 * 64;

/// A set of frame numbers.
#[derive(Debug, Default)]
pub(crate) struct SeenFrames {
    segments: HashMap<u64, Box<[u64; WORDS]>>,
}

impl SeenFrames {
    /// Adds a frame; returns whether it was not in the set before.
    pub(crate) fn insert(&mut self, frame: u64) -> bool {
        let bits = self.segments.entry(frame / STRETCH).or_insert_with(|| Box::new([0; WORDS]));
        let place = usize::try_from(frame % STRETCH / 64).unwrap_or(0);
        let bit = 1u64 << (frame % 64);
        bits.get_mut(place).is_some_and(|word| {
            let new = *word & bit == 0;
            *word |= bit;
            new
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn frames_are_a_set(frames in prop::collection::vec(prop_oneof![0u64..99, 0..1u64 << 55], 0..300)) {
            let (mut seen, mut oracle) = (SeenFrames::default(), HashSet::new());
            for frame in frames {
                prop_assert_eq!(seen.insert(frame), oracle.insert(frame));
            }
        }
    }
}
