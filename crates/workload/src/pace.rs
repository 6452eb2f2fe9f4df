// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes how many operations are due at each step of a fractional rate, such as 0.25 operations
//! per step.

/// Accumulates a rate that need not be an integer; fractions are carried over to the next step.
#[derive(Debug, Default)]
pub(super) struct Pace(f64);

impl Pace {
    /// Number of operations that are due after one more step.
    pub(super) fn operations_due(&mut self, rate: f64) -> u32 {
        self.0 += rate;
        let mut due = 0;
        while self.0 >= 1.0 {
            self.0 -= 1.0;
            due += 1;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn on_the_whole_it_is_the_rate(rate in 0.0f64..5.0, steps in 1u32..2000) {
            let mut pace = Pace::default();
            let all: u32 = (0..steps).map(|_| pace.operations_due(rate)).sum();
            prop_assert!((f64::from(all) - rate * f64::from(steps)).abs() < 1.001);
        }
    }
}
