// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes the [`Figures`] of a contestant in one shape of requests from its rounds: medians, and
//! the smallest and largest value of a round.

use pagewise_model::{Bytes, Direction, Ends, Figures, Shape};

use super::latencies::{Latencies, new_latencies, quantile};
use super::round::Round;

/// A contestant in one shape of requests.
#[derive(Debug)]
pub struct Cell {
    /// Index of the contestant in the list of contestants.
    pub contestant: usize,
    /// The shape of the requests.
    pub shape: Shape,
    /// The measured rounds, without the warm-up.
    pub rounds: Vec<Round>,
    /// Why no further rounds of this cell are measured; `None` while it is still measured.
    pub ended: Option<String>,
    pub(super) latencies: Latencies,
}

impl Cell {
    pub(super) fn new(contestant: usize, shape: Shape) -> Self {
        Self { contestant, shape, rounds: Vec::new(), ended: None, latencies: new_latencies() }
    }

    /// Text for progress messages, such as `4.0 KiB read by 2`.
    pub(super) fn label(&self) -> String {
        let Shape { block_bytes, jobs, direction } = self.shape;
        let direction = match direction {
            Direction::Read => "read",
            Direction::Write => "written",
        };
        format!("{block_bytes} {direction} by {jobs}")
    }

    pub(super) fn block_bytes(&self) -> usize {
        usize::try_from(self.shape.block_bytes.get()).unwrap_or(usize::MAX)
    }
}

impl Cell {
    /// Medians over the cell's rounds; `None` if no round was completed.
    #[must_use]
    pub fn figures(&self, page: Bytes) -> Option<Figures> {
        let over = |pick: fn(&Round) -> f64| collect_sorted(self.rounds.iter().map(pick));
        let median = |pick| median_of_sorted(&over(pick));
        let cpu_ns_per_io = median(|round| round.cpu_ns_per_io)?;
        let kernel: Option<Vec<f64>> = self.rounds.iter().map(|r| r.kernel_ns_per_io).collect();
        let block = self.shape.block_bytes.get() as f64;
        let iops = median(|round| round.iops)?;
        Some(Figures {
            rounds: u32::try_from(self.rounds.len()).unwrap_or(u32::MAX),
            requests: self.rounds.iter().map(|round| round.requests).sum(),
            iops,
            iops_spread: ends_of_sorted(&over(|round| round.iops))?,
            bytes_per_second: iops * block,
            mean_ns: median(|round| round.mean_ns)?,
            mean_spread: ends_of_sorted(&over(|round| round.mean_ns))?,
            p50_ns: median(|round| round.p50_ns)?,
            p50_spread: ends_of_sorted(&over(|round| round.p50_ns))?,
            p99_ns: median(|round| round.p99_ns)?,
            p999_ns: quantile(&self.latencies, 0.999),
            cpu_ns_per_io,
            kernel_ns_per_io: kernel
                .and_then(|all| median_of_sorted(&collect_sorted(all.into_iter()))),
            cpu_ns_per_page: cpu_ns_per_io * page.get() as f64 / block,
        })
    }
}

fn collect_sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn ends_of_sorted(sorted: &[f64]) -> Option<Ends<f64>> {
    Some([*sorted.first()?, *sorted.last()?])
}

/// The median of sorted values; `None` if the slice is empty.
pub(super) fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get(sorted.len().checked_sub(1)? / 2)?;
    Some((lower + upper) / 2.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cell(iops: &[f64]) -> Cell {
        let shape = Shape { block_bytes: Bytes::new(8192), jobs: 1, direction: Direction::Read };
        let mut cell = Cell::new(0, shape);
        cell.rounds = iops
            .iter()
            .map(|&iops| Round {
                number: 0,
                requests: 10,
                iops,
                mean_ns: 1.0,
                p50_ns: 2.0 * iops,
                p99_ns: 3.0,
                p999_ns: 4.0,
                cpu_ns_per_io: 5.0,
                kernel_ns_per_io: None,
            })
            .collect();
        cell
    }

    proptest! {
        /// At most half of the values are below the median and at most half above, whatever their
        /// order.
        #[test]
        fn figures_are_medians_of_rounds(values in prop::collection::vec(1.0f64..1e6, 1..30)) {
            let figures = cell(&values).figures(Bytes::new(4096)).unwrap();
            let below = values.iter().filter(|&&value| value < figures.iops).count();
            let above = values.iter().filter(|&&value| value > figures.iops).count();
            prop_assert!(below <= values.len() / 2 && above <= values.len() / 2);
            prop_assert_eq!(below == 0 && above == 0, values.iter().all(|v| *v == values[0]));
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let largest = values.iter().copied().fold(0.0, f64::max);
            prop_assert_eq!(figures.iops_spread, [least, largest]);
            prop_assert_eq!(figures.p50_spread, [2.0 * least, 2.0 * largest]);
            prop_assert_eq!(figures.requests, 10 * values.len() as u64);
        }
    }

    #[test]
    fn a_page_costs_its_share_of_a_block() {
        let figures = cell(&[100.0]).figures(Bytes::new(4096)).unwrap();
        assert_eq!((figures.cpu_ns_per_io, figures.cpu_ns_per_page), (5.0, 2.5));
        assert_eq!((figures.bytes_per_second, figures.kernel_ns_per_io), (819_200.0, None));
        assert_eq!(cell(&[]).figures(Bytes::new(4096)), None);
    }
}
