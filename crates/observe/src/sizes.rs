// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes growth from sizes of the same thing at several times.

use std::collections::VecDeque;

/// The last few sizes of a process or cgroup, each with its time in seconds: growth over a single
/// second would be too noisy.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sizes(VecDeque<(f64, u64)>);

impl Sizes {
    /// Number of readings over which growth is computed.
    const KEPT: usize = 6;

    /// Adds a size in bytes and returns the growth per second over all readings kept.
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
