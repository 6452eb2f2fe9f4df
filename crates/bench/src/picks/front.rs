// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Places the algorithms by read time and compression ratio, and marks those on the Pareto front.

use pagewise_model::{BenchRow, Bytes, Direction, ParetoPoint};

/// A point for each algorithm that was read by a single job; `span` is the size of its device's
/// contents.
#[must_use]
pub fn pareto_front(rows: &[BenchRow], span: Bytes) -> Vec<ParetoPoint> {
    let reads = || rows.iter().filter(|row| row.shape.direction == Direction::Read);
    let Some(shape) = reads().map(|row| row.shape).min() else { return Vec::new() };
    let point = |row: &BenchRow| {
        let used = row.memory_used_bytes.filter(|used| used.get() > 0)?;
        Some(ParetoPoint {
            contender: row.compressor.clone(),
            read_ns: row.figures.p50_ns,
            read_spread: row.figures.p50_spread,
            original_per_memory_used: span.get() as f64 / used.get() as f64,
            is_on_front: false,
        })
    };
    let mut points: Vec<ParetoPoint> =
        reads().filter(|row| row.shape == shape).filter_map(point).collect();
    let unbeaten: Vec<bool> =
        points.iter().map(|one| !points.iter().any(|by| is_better(by, one))).collect();
    points.iter_mut().zip(unbeaten).for_each(|(point, is)| point.is_on_front = is);
    points
}

/// Whether a point is at least as good in read time and in ratio, and better in one of the two.
fn is_better(one: &ParetoPoint, other: &ParetoPoint) -> bool {
    let as_fast = one.read_ns <= other.read_ns;
    let as_small = one.original_per_memory_used >= other.original_per_memory_used;
    let same = one.read_ns.total_cmp(&other.read_ns).is_eq()
        && one.original_per_memory_used.total_cmp(&other.original_per_memory_used).is_eq();
    as_fast && as_small && !same
}

#[cfg(test)]
mod tests {
    use pagewise_model::Compressor;
    use proptest::prelude::*;

    use super::*;

    fn point(read_ns: f64, original_per_memory_used: f64) -> ParetoPoint {
        let contender = Compressor::new("lz4");
        let read_spread = [read_ns; 2];
        ParetoPoint {
            contender,
            read_ns,
            read_spread,
            original_per_memory_used,
            is_on_front: false,
        }
    }

    proptest! {
        /// The relation is an order: no point beats itself, and of two points at most one beats the
        /// other.
        #[test]
        fn beating_is_an_order(a in (1.0f64..9.0, 1.0f64..9.0), b in (1.0f64..9.0, 1.0f64..9.0)) {
            let (a, b) = (point(a.0, a.1), point(b.0, b.1));
            prop_assert!(!is_better(&a, &a));
            prop_assert!(!is_better(&a, &b) || !is_better(&b, &a));
        }
    }
}
