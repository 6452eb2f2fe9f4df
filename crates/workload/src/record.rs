// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records the iterations of a workload, and computes its course and the values of its steady
//! state.
//!
//! Which iterations belong to the steady state is known only at the end. So latencies are stored
//! for each iteration; if there are many iterations, for equal groups of them: at most [`MOST`]
//! histograms of 14 KiB, however long the workload runs.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use pagewise_model::Course;
use pagewise_stats::median;

use super::settle::find_steady_start;

/// Maximum number of points of a course.
const MOST: usize = 200;
/// Maximum latency that is recorded: 17 s, in nanoseconds.
const LONGEST_NS: u64 = (1 << 34) - 1;

/// The iterations of a workload so far.
#[derive(Debug)]
pub(super) struct Record {
    points: Vec<Point>,
    /// Number of iterations in a point of the course.
    width: u32,
    open: Point,
}

#[derive(Debug)]
struct Point {
    iterations: u32,
    operations: u64,
    seconds: f64,
    latency: Histogram<u32>,
}

impl Point {
    fn new() -> Self {
        Self { iterations: 0, operations: 0, seconds: 0.0, latency: latencies() }
    }

    fn join(&mut self, other: &Self) {
        self.iterations += other.iterations;
        self.operations += other.operations;
        self.seconds += other.seconds;
        // Both histograms have the same bounds, so this cannot fail.
        let _ = self.latency.add(&other.latency);
    }

    fn seconds_each(&self) -> f64 {
        self.seconds / f64::from(self.iterations)
    }
}

impl Record {
    pub(super) fn new() -> Self {
        Self { points: Vec::with_capacity(MOST), width: 1, open: Point::new() }
    }

    /// Records the latency of one operation of the present iteration.
    pub(super) fn add_latency(&mut self, nanoseconds: u64) {
        self.open.latency.saturating_record(nanoseconds);
    }

    /// Ends an iteration, with its duration in seconds and the number of its operations.
    pub(super) fn add_iteration(&mut self, seconds: f64, operations: u64) {
        self.open.iterations += 1;
        self.open.operations += operations;
        self.open.seconds += seconds;
        if self.open.iterations < self.width {
            return;
        }
        self.points.push(std::mem::replace(&mut self.open, Point::new()));
        if self.points.len() == MOST {
            self.join_pairs_of_points();
        }
    }

    fn join_pairs_of_points(&mut self) {
        let mut points = std::mem::take(&mut self.points).into_iter();
        while let (Some(mut first), Some(second)) = (points.next(), points.next()) {
            first.join(&second);
            self.points.push(first);
        }
        self.width *= 2;
    }

    /// Number of complete points of the course.
    pub(super) fn points(&self) -> usize {
        self.points.len()
    }

    fn seconds_each(&self) -> Vec<f64> {
        self.points.iter().map(Point::seconds_each).collect()
    }

    /// The course and the values of the steady state. Iterations at the end that do not fill a
    /// point are left out, and so is an iteration that was cut short. If the workload did not
    /// settle, the values are those of the second half.
    pub(super) fn conclude(self) -> (Course, BTreeMap<String, f64>) {
        let settled = find_steady_start(&self.seconds_each());
        self.steady_from(settled)
    }

    /// The course and the values of the steady state, which begins at this point.
    pub(super) fn conclude_from(self, point: usize) -> (Course, BTreeMap<String, f64>) {
        self.steady_from(Some(point))
    }

    fn steady_from(self, settled: Option<usize>) -> (Course, BTreeMap<String, f64>) {
        let each = self.seconds_each();
        let steady = settled.unwrap_or(each.len() / 2);
        let mut all = Point::new();
        self.points[steady..].iter().for_each(|point| all.join(point));
        let mut values = BTreeMap::new();
        let mut say = |name: &str, value: f64| values.insert(name.to_owned(), value);
        if let Some(middle) = median(&each[steady..]) {
            say("steady-iteration", middle);
            say("operations-per-second", all.operations as f64 / all.seconds);
        }
        if !all.latency.is_empty() {
            say("p50", all.latency.value_at_quantile(0.5) as f64 / 1e9);
            say("p99", all.latency.value_at_quantile(0.99) as f64 / 1e9);
        }
        if settled.is_some() {
            let before = self.points[..steady].iter();
            say("settling", before.fold(0.0, |sum, point| sum + point.seconds));
        }
        let settled_at = settled.and_then(|at| u32::try_from(at).ok());
        let latency_ns = count_by_powers_of_two(&all.latency);
        (Course { iteration_seconds: each, settled_at, latency_ns }, values)
    }
}

/// An empty histogram of latencies in nanoseconds.
pub(super) fn latencies() -> Histogram<u32> {
    // The bounds are constants that are valid; a test checks them.
    let latency = Histogram::new_with_bounds(1, LONGEST_NS, 2);
    latency.unwrap_or_else(|_| unreachable!("constant bounds"))
}

/// Numbers of latencies by powers of two: for each power, how many are between the previous power
/// and this one.
pub(super) fn count_by_powers_of_two(latency: &Histogram<u32>) -> Vec<(u64, u64)> {
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    for step in latency.iter_recorded() {
        let bits = u64::BITS - latency.lowest_equivalent(step.value_iterated_to()).leading_zeros();
        *counts.entry(bits).or_default() += u64::from(step.count_at_value());
    }
    let (first, last) = (counts.keys().next(), counts.keys().next_back());
    let (Some(&first), Some(&last)) = (first, last) else { return Vec::new() };
    (first..=last).map(|bits| (1 << bits, counts.get(&bits).copied().unwrap_or(0))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_slow_start_is_told_apart() {
        let mut record = Record::new();
        for at in 0..60u8 {
            let slow = at < 10;
            (0..100).for_each(|_| record.add_latency(if slow { 1_000_000 } else { 1000 }));
            record.add_iteration(if slow { 5.0 } else { 1.0 + f64::from(at % 3) * 0.01 }, 100);
        }
        let (course, values) = record.conclude();
        assert_eq!((course.settled_at, course.iteration_seconds.len()), (Some(10), 60));
        assert_eq!(values["settling"], 50.0);
        assert_eq!(values["steady-iteration"], 1.01);
        assert!((values["operations-per-second"] - 99.0).abs() < 0.1, "{values:?}");
        assert!((values["p99"] - 1e-6).abs() < 1e-8, "{values:?}");
        assert_eq!(course.latency_ns, [(1024, 5000)]);
    }

    /// The property holds for a course of any form.
    #[test]
    fn where_the_steady_state_is_known_it_begins_there() {
        let mut record = Record::new();
        for second in [1.0, 1.0, 9.0, 5.0] {
            record.add_latency(1000);
            record.add_iteration(second, 10);
        }
        assert_eq!(record.points(), 4);
        let (course, values) = record.conclude_from(2);
        assert_eq!((course.settled_at, values["settling"]), (Some(2), 2.0));
        assert_eq!(values["steady-iteration"], 7.0);
        assert!((values["operations-per-second"] - 20.0 / 14.0).abs() < 1e-9);
        assert_eq!(course.latency_ns, [(1024, 2)]);
    }

    #[test]
    fn nothing_is_said_of_nothing() {
        assert_eq!(Record::new().conclude(), Default::default());
    }

    #[test]
    fn latencies_of_any_length_are_kept() {
        let mut record = Record::new();
        [0, 1, 2, 3, 1023, 1024, u64::MAX].into_iter().for_each(|ns| record.add_latency(ns));
        record.add_iteration(1.0, 7);
        let (course, values) = record.conclude();
        assert_eq!(course.latency_ns.iter().map(|(_, count)| count).sum::<u64>(), 7);
        assert_eq!(course.latency_ns.last().unwrap(), &(1 << 34, 1));
        assert!(values["p99"] > 17.0 && !values.contains_key("settling"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// For any number of iterations, the course is short, and few iterations are lost.
        #[test]
        fn a_long_course_is_kept_short(count in 0u32..1500) {
            let mut record = Record::new();
            for at in 0..count {
                record.add_latency(u64::from(at) + 1);
                record.add_iteration(2.0, 1);
            }
            let width = record.width;
            let (course, _) = record.conclude();
            prop_assert!(course.iteration_seconds.len() < MOST);
            let kept = u32::try_from(course.iteration_seconds.len()).unwrap() * width;
            prop_assert!(count - kept < width && course.iteration_seconds.iter().all(|s| *s == 2.0));
        }
    }
}
