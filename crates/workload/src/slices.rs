// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Divides operations into iterations of equal length, so that a course can be recorded.

use super::progress::share;

/// Number of iterations into which the operations are divided.
pub(super) const SLICES: u64 = 160;

/// Number of operations that are done after this iteration.
pub(super) fn slice_end(slice: u64, operations: u64) -> u64 {
    let all = u128::from(operations) * u128::from(slice) / u128::from(SLICES);
    u64::try_from(all).unwrap_or(operations)
}

/// The fraction of operations that is done, from 0 to 1.
pub(super) fn share_of(done: u64, operations: u64) -> f64 {
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    share(number(done), number(operations))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// No operation is lost, and the lengths of iterations differ by at most one.
        #[test]
        fn iterations_share_all_operations_alike(operations: u64) {
            let lengths: Vec<u64> = (1..=SLICES)
                .map(|slice| slice_end(slice, operations) - slice_end(slice - 1, operations))
                .collect();
            prop_assert_eq!(lengths.iter().sum::<u64>(), operations);
            let (least, most) = (lengths.iter().min().unwrap(), lengths.iter().max().unwrap());
            prop_assert!(most - least <= 1);
        }
    }
}
