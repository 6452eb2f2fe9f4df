// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tiers`: writes a cold set of pages once, then accesses a hot set, and measures how often a page
//! must be swapped in after the first half of the accesses.
//!
//! The kernel fills the swap area with the highest priority first, so cold pages occupy it, and hot
//! pages that do not fit into RAM go to the slower area behind it: LRU inversion. The settling
//! phase is always the first half of the accesses, so that all arms are compared over the same
//! accesses.
//!
//! The workload ends after its accesses, however long they take: a truncated sequence would not be
//! comparable.
//!
//! Memory of the workload itself: this program, 4 MiB while the sets are written, and 12 bytes for
//! each page of a skewed hot set.

mod accesses;

use std::ops::RangeInclusive;
use std::time::Instant;

use accesses::Accesses;
use pagewise_mappings::Region;
use pagewise_observe::OwnUsage;

use super::error::Error;
use super::progress::Progress;
use super::record::Record;
use super::slices::{SLICES, share_of, slice_end};
use super::swap::nanoseconds;
use super::{FILLED, STEADY, Tiers, WorkloadSummary, check, store};

/// Runs the workload; `mark` is called before the first and the second half.
pub(super) fn run(
    settings: &Tiers,
    progress: &mut Progress<'_>,
    mark: &mut dyn FnMut(&str),
) -> Result<WorkloadSummary, Error> {
    check::check_tiers(settings)?;
    let mut sets = Sets::new(settings, progress)?;
    mark(FILLED);
    let mut record = Record::new();
    sets.iterate(1..=SLICES / 2, &mut record, progress);
    mark(STEADY);
    let (point, done, faults) = (record.points(), sets.done, major_faults());
    sets.iterate(SLICES / 2 + 1..=SLICES, &mut record, progress);
    let faults = major_faults().saturating_sub(faults) as f64;
    let (course, mut values) = record.conclude_from(point);
    let mut say = |name: &str, value: f64| values.insert(name.to_owned(), value);
    say("operations", sets.done as f64);
    say("cold-accesses", sets.cold_done as f64);
    say("fault-share", faults / (sets.done - done) as f64);
    Ok(WorkloadSummary { workload: "tiers".to_owned(), values, course })
}

/// Number of major faults of this process so far, on its data and on any other page that was
/// evicted.
fn major_faults() -> u64 {
    OwnUsage::of_ourselves().major_faults
}

/// The cold and the hot set, and the accesses so far.
#[derive(Debug)]
struct Sets {
    /// Memory of the cold set; `None` if the set has no pages.
    cold: Option<Region>,
    hot: Region,
    accesses: Accesses,
    operations: u64,
    done: u64,
    /// Number of accesses to the cold set so far.
    cold_done: u64,
}

impl Sets {
    /// Writes each page of the cold set, then each page of the hot set.
    fn new(settings: &Tiers, progress: &mut Progress<'_>) -> Result<Self, Error> {
        let contents = check::parse_mix(&settings.contents)?;
        let cold_pages = check::page_count("cold", settings.cold)?;
        let hot_pages = check::page_count("hot", settings.hot)?;
        let mut memory =
            |pages, seed| store::map_filled(pages, false, &contents, seed, &mut *progress);
        let cold = if cold_pages > 0 { Some(memory(cold_pages, settings.seed)?) } else { None };
        let hot = memory(hot_pages, settings.seed.wrapping_add(1))?;
        let accesses = Accesses::new(settings, cold_pages, hot_pages);
        let operations = settings.operations;
        Ok(Self { cold, hot, accesses, operations, done: 0, cold_done: 0 })
    }

    fn iterate(
        &mut self,
        slices: RangeInclusive<u64>,
        record: &mut Record,
        progress: &mut Progress<'_>,
    ) {
        for slice in slices {
            progress("accessing memory", share_of(self.done, self.operations));
            let count = slice_end(slice, self.operations) - self.done;
            if count == 0 {
                continue;
            }
            let began = Instant::now();
            (0..count).for_each(|_| self.access(record));
            record.add_iteration(began.elapsed().as_secs_f64(), count);
        }
    }

    fn access(&mut self, record: &mut Record) {
        let access = self.accesses.draw();
        let set = match &mut self.cold {
            Some(cold) if access.cold => cold,
            _ => &mut self.hot,
        };
        let began = Instant::now();
        if access.write {
            set.write(access.page);
        } else {
            std::hint::black_box(set.touch(access.page));
        }
        record.add_latency(nanoseconds(began.elapsed()));
        self.done += 1;
        self.cold_done += u64::from(access.cold);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Size;
    use super::*;

    fn small() -> Tiers {
        Tiers { cold: Size::mib(1), hot: Size::mib(2), operations: 10_000, ..Tiers::default() }
    }

    #[test]
    fn where_memory_is_enough_no_access_has_to_read_a_page() {
        for exponent in [0.0, 0.9] {
            let mut marks = Vec::new();
            let settings = Tiers { exponent, ..small() };
            let summary =
                run(&settings, &mut |_, _| {}, &mut |mark| marks.push(mark.to_owned())).unwrap();
            let values = &summary.values;
            assert_eq!((values["operations"], values["cold-accesses"]), (10_000.0, 0.0));
            // some pages of this program itself may be evicted and fault
            assert!(values["fault-share"] < 0.01, "{values:?}");
            assert!(values["p50"] <= values["p99"] && values["steady-iteration"] > 0.0);
            assert!(values["settling"] > 0.0, "{values:?}");
            assert_eq!(marks, [FILLED, STEADY]);
            assert_eq!(summary.course.iteration_seconds.len(), 160);
            assert_eq!(summary.course.settled_at, Some(80));
            let counted: u64 = summary.course.latency_ns.iter().map(|(_, count)| count).sum();
            assert_eq!(counted, 5000, "latencies are those of the second half");
        }
    }

    #[test]
    fn the_cold_set_is_accessed_as_often_as_asked_for() {
        let settings = Tiers { cold_share: 0.25, ..small() };
        let values = run(&settings, &mut |_, _| {}, &mut |_| {}).unwrap().values;
        assert!((2200.0..2800.0).contains(&values["cold-accesses"]), "{values:?}");
        let none = Tiers { cold: Size::mib(0), ..small() };
        let values = run(&none, &mut |_, _| {}, &mut |_| {}).unwrap().values;
        assert_eq!(values["cold-accesses"], 0.0);
    }

    #[test]
    fn few_accesses_have_two_halves_too() {
        for operations in [2, 3, 161] {
            let settings = Tiers { operations, ..small() };
            let summary = run(&settings, &mut |_, _| {}, &mut |_| {}).unwrap();
            assert_eq!(summary.values["operations"], operations as f64);
            let counted: u64 = summary.course.latency_ns.iter().map(|(_, count)| count).sum();
            assert_eq!(counted, operations - operations / 2);
        }
    }
}
