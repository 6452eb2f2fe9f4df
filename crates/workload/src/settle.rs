// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds where the steady state of a series begins, by the marginal standard error rule (MSER).
//!
//! The rule cuts off so many values at the start that the standard error of the mean of the rest is
//! minimal; there is no threshold to choose. At most the first half may be cut off: the rule is
//! easily misled by a few similar values at the end, and a minimum at the half itself means that
//! the series has not settled.
//!
//! Source: White, "An effective truncation heuristic for bias reduction in simulation output",
//! Simulation 69 (1997); Hoad, Robinson, Davies, "Automating warm-up length estimation" (2010).

/// Minimum number of values in a series for a result.
const LEAST: usize = 10;

/// Index of the first value of the steady state; `None` if the series does not settle.
#[must_use]
pub(crate) fn find_steady_start(values: &[f64]) -> Option<usize> {
    let half = values.len() / 2;
    if values.len() < LEAST || !values.iter().all(|value| value.is_finite()) {
        return None;
    }
    let errors = squared_errors(values);
    let least = errors[..=half].iter().copied().fold(f64::INFINITY, f64::min);
    errors[..=half].iter().position(|error| *error == least).filter(|at| *at < half)
}

/// For each number of values cut off: the squared standard error of the mean of the rest.
fn squared_errors(values: &[f64]) -> Vec<f64> {
    let (mut mean, mut squares, mut count) = (0.0, 0.0, 0.0);
    // standard errors from the end, adding one value at a time (Welford's algorithm)
    let mut errors: Vec<f64> = values
        .iter()
        .rev()
        .map(|value| {
            count += 1.0;
            let before: f64 = value - mean;
            mean += before / count;
            squares += before * (value - mean);
            squares / (count * count)
        })
        .collect();
    errors.reverse();
    errors
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The error computed by the formula as in the paper.
    fn naive(values: &[f64]) -> f64 {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count.powi(2)
    }

    #[test]
    fn a_slow_start_is_cut_off() {
        let slow = (0..12u8).map(|at| 9.0 - 0.5 * f64::from(at));
        let noise = [1.0, 1.1, 0.9, 1.05, 0.95];
        let values: Vec<f64> = slow.chain(noise.into_iter().cycle().take(40)).collect();
        assert!(
            (10..=13).contains(&find_steady_start(&values).unwrap()),
            "{:?}",
            find_steady_start(&values)
        );
    }

    #[test]
    fn what_is_steady_loses_nothing_and_what_moves_never_settles() {
        assert_eq!(find_steady_start(&[2.0; 30]), Some(0));
        let slower: Vec<f64> = (0..30u8).map(f64::from).collect();
        assert_eq!(find_steady_start(&slower), None);
        assert_eq!(find_steady_start(&[1.0; 9]), None);
        assert_eq!(find_steady_start(&[f64::NAN; 30]), None);
    }

    proptest! {
        /// No other point of the first half has a smaller error.
        #[test]
        fn it_is_the_least_error_of_the_first_half(
            values in proptest::collection::vec(0.001f64..1000.0, LEAST..60),
        ) {
            let half = values.len() / 2;
            let at = find_steady_start(&values).unwrap_or(half);
            let here = naive(&values[at..]);
            for other in 0..=half {
                prop_assert!(here <= naive(&values[other..]) * (1.0 + 1e-9), "{other} and {at}");
            }
        }
    }
}
