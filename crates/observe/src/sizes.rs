// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sizes of the same thing at several times → its growth.

use std::collections::VecDeque;

/// Sizes at the last few readings, for growth that a single second does not tell.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sizes(VecDeque<(f64, u64)>);

impl Sizes {
    /// Growth is computed over so many readings.
    const KEPT: usize = 6;

    /// Adds a size in bytes; the answer is the growth per second over all that are kept.
    pub(crate) fn add(&mut self, seconds: f64, size: u64) -> Option<f64> {
        if self.0.len() == Self::KEPT {
            self.0.pop_front();
        }
        self.0.push_back((seconds, size));
        let (then, before) = self.0.front()?;
        (seconds > *then).then(|| (size as f64 - *before as f64) / (seconds - then))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_over_the_readings_that_are_kept() {
        let mut sizes = Sizes::default();
        assert_eq!(sizes.add(10.0, 100), None);
        assert_eq!(sizes.add(12.0, 300), Some(100.0));
        assert_eq!(sizes.add(14.0, 100), Some(0.0));
        for second in 15..30 {
            sizes.add(f64::from(second), 100);
        }
        assert_eq!(sizes.add(30.0, 105), Some(1.0));
    }
}
