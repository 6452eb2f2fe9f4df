// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory at each of several readings ([`MemoryCourse`]), as the pictures of `pagewise why` show it,
//! and round times for their axis ([`time_marks`]).
//!
//! A page must not grow with the number of readings. [`MemoryCourse::thin`] therefore keeps one
//! reading of each of a limited number of equal periods: the one with the least available memory,
//! with the highest pressure of the period, so that no short trouble disappears.

use pagewise_model::{Bytes, Interval, Level};

use crate::text::{MemoryPart, Role, memory_parts};
use crate::time;

/// Memory over some time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MemoryCourse {
    /// The readings, the earliest first.
    pub points: Vec<CoursePoint>,
    /// Times without a reading: begin and end of each, in seconds since 1970.
    pub holes: Vec<[f64; 2]>,
    /// Pressure and kills of all readings of the record, of which `points` are a part.
    pub whole: Vec<PressurePoint>,
    /// Times without a reading in the whole record.
    pub whole_holes: Vec<[f64; 2]>,
}

/// Memory at one reading.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CoursePoint {
    /// When it was read, in seconds since 1970.
    pub unix_seconds: f64,
    /// How short memory was, apart from kills that were over.
    pub level: Level,
    /// Size of RAM.
    pub total: Option<Bytes>,
    /// The uses of RAM in the order in which the report shows them; empty if they are unknown.
    pub uses: Vec<MemoryUse>,
    /// What the kernel estimated to be available without swapping.
    pub available: Option<Bytes>,
    /// Size of all swap areas.
    pub swap_size: Option<Bytes>,
    /// The used part of all swap areas.
    pub swap_used: Option<Bytes>,
    /// The share of the time since the previous reading in which some task waited for memory, in
    /// percent; `None` if it is unknown.
    pub some_percent: Option<f64>,
    /// The same for all tasks at once.
    pub full_percent: Option<f64>,
}

/// One use of RAM, without the explanation that [`MemoryPart`] has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUse {
    /// The name of the use, such as `anon`.
    pub name: &'static str,
    /// The meaning of its colour.
    pub role: Role,
    /// How much memory it takes.
    pub bytes: Bytes,
}

/// Pressure at one reading of a record.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PressurePoint {
    /// When it was read, in seconds since 1970.
    pub unix_seconds: f64,
    /// The share of the time since the previous reading in which some task waited for memory, in
    /// percent; `None` if it is unknown.
    pub some_percent: Option<f64>,
    /// Whether a process was killed for lack of memory since the previous reading.
    pub has_kill: bool,
}

impl CoursePoint {
    /// Keeps of the later snapshot of an interval what the pictures show.
    pub fn new(interval: &Interval, level: Level) -> Self {
        let end = &interval.end;
        let memory = &end.memory;
        let waited = |change: Option<pagewise_model::Change>| {
            change.map(|it| (it.per_second / 1e4).clamp(0.0, 100.0))
        };
        let swap_size = memory.swap_total.get();
        let swap_used =
            swap_size.zip(memory.swap_free.get()).map(|(all, free)| all.saturating_sub(free));
        Self {
            unix_seconds: end.taken.unix_seconds,
            level,
            total: memory.total.get(),
            uses: memory_parts(end).iter().map(MemoryUse::from_part).collect(),
            available: memory.available.get(),
            swap_size,
            swap_used,
            some_percent: waited(interval.change(|it| it.psi.memory.some.total_us.clone())),
            full_percent: waited(interval.change(|it| it.psi.memory.full.total_us.clone())),
        }
    }
}

impl MemoryUse {
    fn from_part(part: &MemoryPart) -> Self {
        Self { name: part.name, role: part.role, bytes: part.bytes }
    }
}

impl MemoryCourse {
    /// The first and the last time; at least a second apart, as an axis needs two ends. `None`
    /// without a reading.
    pub fn ends(&self) -> Option<[f64; 2]> {
        ends_of(self.points.iter().map(|point| point.unix_seconds))
    }

    /// The first and the last time of the whole record.
    pub fn ends_of_whole(&self) -> Option<[f64; 2]> {
        ends_of(self.whole.iter().map(|point| point.unix_seconds))
    }

    /// Keeps at most about `most` points of each list.
    pub fn thin(&self, most: usize) -> Self {
        let points = thin(&self.points, most, |point| point.unix_seconds, CoursePoint::merge);
        let whole = thin(&self.whole, most, |point| point.unix_seconds, PressurePoint::merge);
        Self { points, whole, ..self.clone() }
    }

    /// The last reading at or before a time, or the first one.
    pub fn at(&self, unix_seconds: f64) -> Option<&CoursePoint> {
        let earlier = self.points.iter().rev().find(|point| point.unix_seconds <= unix_seconds);
        earlier.or(self.points.first())
    }

    /// Splits the readings at the holes: each part is a time in which there are readings.
    pub fn parts(&self) -> Vec<&[CoursePoint]> {
        split(&self.points, &self.holes, |point| point.unix_seconds)
    }

    /// Splits the readings of the whole record as [`Self::parts`] does.
    pub fn parts_of_whole(&self) -> Vec<&[PressurePoint]> {
        split(&self.whole, &self.whole_holes, |point| point.unix_seconds)
    }

    /// All uses of memory, in an order that agrees with that of each reading.
    pub fn uses(&self) -> Vec<(&'static str, Role)> {
        let mut all: Vec<(&'static str, Role)> = Vec::new();
        for point in &self.points {
            let mut next = 0;
            for MemoryUse { name, role, .. } in &point.uses {
                match all.iter().position(|(known, _)| known == name) {
                    Some(at) => next = at + 1,
                    None => {
                        all.insert(next, (name, *role));
                        next += 1;
                    }
                }
            }
        }
        all
    }
}

impl CoursePoint {
    /// Of two readings, the one with less available memory, with the higher pressure and level of
    /// both.
    fn merge(&self, other: &Self) -> Self {
        let available = |point: &Self| point.available.map_or(u64::MAX, Bytes::get);
        let least = if available(other) <= available(self) { other } else { self };
        Self {
            level: self.level.max(other.level),
            some_percent: highest(self.some_percent, other.some_percent),
            full_percent: highest(self.full_percent, other.full_percent),
            ..least.clone()
        }
    }
}

impl PressurePoint {
    fn merge(&self, other: &Self) -> Self {
        Self {
            unix_seconds: other.unix_seconds,
            some_percent: highest(self.some_percent, other.some_percent),
            has_kill: self.has_kill || other.has_kill,
        }
    }
}

fn split<'a, T>(points: &'a [T], holes: &[[f64; 2]], time: impl Fn(&T) -> f64) -> Vec<&'a [T]> {
    let is_split =
        |before: f64, now: f64| holes.iter().any(|[_, end]| *end > before && *end <= now + 1e-6);
    let mut parts = Vec::new();
    let mut from = 0;
    for at in 1..points.len() {
        if is_split(time(&points[at - 1]), time(&points[at])) {
            parts.push(&points[from..at]);
            from = at;
        }
    }
    parts.push(&points[from..]);
    parts
}

fn highest(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.max(other)),
        (one, other) => one.or(other),
    }
}

fn ends_of(times: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    let times = times.filter(|time| time.is_finite());
    let (least, most) = times.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), time| {
        (least.min(time), most.max(time))
    });
    match most - least {
        some if some >= 1.0 => Some([least, most]),
        moment if moment >= 0.0 => Some([least - 30.0, most + 30.0]),
        _ => None,
    }
}

/// Merges the points of each of `most` equal periods. The first and the last point stay as they
/// are.
fn thin<T: Clone>(
    points: &[T],
    most: usize,
    time: impl Fn(&T) -> f64,
    merge: impl Fn(&T, &T) -> T,
) -> Vec<T> {
    let [first, .., last] = points else { return points.to_vec() };
    let (from, to) = (time(first), time(last));
    if points.len() <= most || to <= from {
        return points.iter().take(most.max(2)).cloned().collect();
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most `most`")]
    let period = |point: &T| ((time(point) - from) / (to - from) * most as f64) as usize;
    let mut kept: Vec<(usize, T)> = vec![(usize::MAX, first.clone())];
    for point in &points[1..points.len() - 1] {
        let now = period(point);
        match kept.last_mut() {
            Some((then, merged)) if *then == now => *merged = merge(merged, point),
            _ => kept.push((now, point.clone())),
        }
    }
    kept.push((usize::MAX, last.clone()));
    kept.into_iter().map(|(_, point)| point).collect()
}

const MINUTE: f64 = 60.0;
const HOUR: f64 = 3600.0;
const DAY: f64 = 86_400.0;
/// Distances of the labels of a time axis, in seconds.
const STEPS: [f64; 18] = [
    1.0,
    2.0,
    5.0,
    10.0,
    15.0,
    30.0,
    MINUTE,
    2.0 * MINUTE,
    5.0 * MINUTE,
    10.0 * MINUTE,
    15.0 * MINUTE,
    30.0 * MINUTE,
    HOUR,
    2.0 * HOUR,
    3.0 * HOUR,
    6.0 * HOUR,
    12.0 * HOUR,
    DAY,
];

/// Round times between two times, at most about ten, each with its label in UTC.
pub fn time_marks([from, to]: [f64; 2]) -> Vec<(f64, String)> {
    const MOST: f64 = 10.0;
    let span = to - from;
    if !span.is_finite() || span <= 0.0 {
        return Vec::new();
    }
    let fits = |step: &&f64| span / **step <= MOST;
    let step = STEPS.iter().find(fits).copied().unwrap_or_else(|| (span / MOST / DAY).ceil() * DAY);
    let format = match step {
        seconds if seconds < MINUTE => "%H:%M:%S",
        _ if span <= DAY => "%H:%M",
        hours if hours < DAY => "%m-%d %H:%M",
        _ => "%m-%d",
    };
    let first = (from / step).ceil();
    let times = (0..=12u32).map(|at| (first + f64::from(at)) * step).take_while(|at| *at <= to);
    let label = |at: f64| {
        let time = time::timestamp(at)?.strftime(format).to_string();
        Some((at, time))
    };
    times.filter_map(label).collect()
}

/// Round sizes from 0 to `most`, about four, each with its label.
pub fn size_marks(most: Bytes) -> Vec<(f64, String)> {
    let mut step: u64 = 1;
    while step.saturating_mul(5) < most.get() {
        step = step.saturating_mul(2);
    }
    let sizes = (0..=5u64).map(|at| step.saturating_mul(at)).take_while(|at| *at <= most.get());
    sizes.map(|at| (at as f64, Bytes::new(at).to_string().replace(".0 ", " "))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn point(unix_seconds: f64, available: u64, some: Option<f64>) -> CoursePoint {
        CoursePoint {
            unix_seconds,
            available: Some(Bytes::new(available)),
            some_percent: some,
            ..CoursePoint::default()
        }
    }

    #[test]
    fn round_times_are_labelled() {
        let labels = |ends| -> Vec<String> {
            time_marks(ends).into_iter().map(|(_, label)| label).collect()
        };
        // 2026-11-28 02:00:00 UTC
        let at = 1_795_831_200.0;
        assert_eq!(labels([at, at + 1800.0]).len(), 7);
        assert_eq!(labels([at - 1.0, at + 1799.0])[..2], ["02:00", "02:05"]);
        assert_eq!(labels([at, at + 7.0])[..2], ["02:00:00", "02:00:01"]);
        assert_eq!(labels([at, at + 7.0 * DAY])[0], "11-29");
        assert_eq!(labels([at, at + 2.0 * DAY])[0], "11-28 06:00");
        assert!(labels([at, at]).is_empty() && labels([f64::NAN, at]).is_empty());
        let sizes: Vec<String> =
            size_marks(Bytes::new(4 << 30)).into_iter().map(|(_, label)| label).collect();
        assert_eq!(sizes, ["0 B", "1 GiB", "2 GiB", "3 GiB", "4 GiB"]);
    }

    #[test]
    fn uses_that_come_and_go_keep_their_order() {
        let with = |names: &[&'static str]| {
            let uses = names.iter().map(|name| MemoryUse {
                name,
                role: Role::Plain,
                bytes: Bytes::new(1),
            });
            CoursePoint { uses: uses.collect(), ..CoursePoint::default() }
        };
        let points = vec![
            with(&["anon", "free"]),
            with(&["anon", "shmem", "the rest", "free"]),
            with(&["free"]),
        ];
        let course = MemoryCourse { points, ..MemoryCourse::default() };
        let names: Vec<&str> = course.uses().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["anon", "shmem", "the rest", "free"]);
    }

    #[test]
    fn readings_are_split_at_holes() {
        let points = [0.0, 10.0, 500.0, 510.0].map(|at| point(at, 1, None)).to_vec();
        let course = MemoryCourse { points, holes: vec![[10.0, 500.0]], ..MemoryCourse::default() };
        let lengths: Vec<usize> = course.parts().iter().map(|part| part.len()).collect();
        assert_eq!(lengths, [2, 2]);
        assert_eq!(course.at(499.0).unwrap().unix_seconds, 10.0);
        assert_eq!(course.at(-1.0).unwrap().unix_seconds, 0.0);
        assert!(MemoryCourse::default().parts().concat().is_empty());
        assert_eq!(MemoryCourse::default().ends(), None);
    }

    proptest! {
        /// However many readings there are, few points are kept, in order, and the least available
        /// memory and the highest pressure are among them.
        #[test]
        fn thinning_keeps_the_worst(
            values in proptest::collection::vec((0..1000u64, proptest::option::of(0.0..100.0), 0.1..50.0), 1..400),
            most in 2..40usize,
        ) {
            let mut time = 1e9;
            let points: Vec<CoursePoint> = values.iter().map(|(available, some, passed)| {
                time += passed;
                point(time, *available, *some)
            }).collect();
            let all = MemoryCourse { points, ..MemoryCourse::default() };
            let kept = all.thin(most);
            prop_assert!(kept.points.len() <= most + 3);
            prop_assert!(kept.points.windows(2).all(|pair| pair[0].unix_seconds < pair[1].unix_seconds));
            let least = |course: &MemoryCourse| course.points.iter().filter_map(|it| it.available).min();
            prop_assert_eq!(least(&kept), least(&all));
            let highest = |course: &MemoryCourse| {
                course.points.iter().filter_map(|it| it.some_percent).fold(0.0, f64::max)
            };
            prop_assert_eq!(highest(&kept), highest(&all));
            prop_assert_eq!(kept.ends(), all.ends());
        }

        #[test]
        fn any_times_give_few_marks_in_order(from in -1e12..1e12f64, span in 0.0..1e10f64) {
            let marks = time_marks([from, from + span]);
            prop_assert!(marks.len() <= 13);
            prop_assert!(marks.windows(2).all(|pair| pair[0].0 < pair[1].0));
            prop_assert!(marks.iter().all(|(at, _)| (from..=from + span).contains(at)));
        }
    }
}
