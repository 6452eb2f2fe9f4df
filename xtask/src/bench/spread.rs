// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes the median and the spread of the values of many runs.

/// The median of many values, and their quartiles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) runs: usize,
    pub(crate) smallest: f64,
    pub(crate) lower_quarter: f64,
    pub(crate) median: f64,
    pub(crate) upper_quarter: f64,
    pub(crate) largest: f64,
}

impl Spread {
    /// Computes the spread of these values; `None` if there are no values.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            runs: sorted.len(),
            smallest: *sorted.first()?,
            lower_quarter: interpolate_quartile(&sorted, 1)?,
            median: interpolate_quartile(&sorted, 2)?,
            upper_quarter: interpolate_quartile(&sorted, 3)?,
            largest: *sorted.last()?,
        })
    }
}

/// The value below which this many quarters of the values lie, interpolated linearly between the
/// two nearest values.
fn interpolate_quartile(sorted: &[f64], quarters: usize) -> Option<f64> {
    let steps = sorted.len().checked_sub(1)? * quarters;
    let (below, part) = (steps / 4, (steps % 4) as f64 / 4.0);
    let low = sorted.get(below)?;
    let high = sorted.get(below + 1).unwrap_or(low);
    Some(low + (high - low) * part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_in_the_middle_whatever_the_order() {
        let spread = Spread::of(&[5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!((spread.smallest, spread.median, spread.largest), (1.0, 3.0, 5.0));
        assert_eq!((spread.lower_quarter, spread.upper_quarter), (2.0, 4.0));
    }

    #[test]
    fn between_two_values_lies_their_mean() {
        let spread = Spread::of(&[1.0, 2.0]).unwrap();
        assert_eq!((spread.lower_quarter, spread.median), (1.25, 1.5));
        assert_eq!(Spread::of(&[7.0]).unwrap().upper_quarter, 7.0);
        assert_eq!(Spread::of(&[]), None);
    }
}
