// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts the cost of TLB misses of running processes, or of the whole machine ([`PageWalks`]),
//! with the CPU's counters (`perf_event_open`).
//!
//! Nothing is sampled, and nothing about the programs is recorded: counters run beside the programs
//! and are read once at the end. If a machine has no counters, like most virtual machines, the
//! result of each event says so.

mod event;
mod intel;

use std::time::Instant;

use pagewise_model::{PageWalks, Percent, Reading, Source};
use perf_event::{Counter, ReadFormat};
use rustix::io::Errno;

use crate::open::threads;
use event::{EVENTS, Event};

/// Maximum number of open counters; most systems allow a process 1,024 open files.
const MOST_COUNTERS: usize = 900;

/// The processes or CPUs whose page walks are counted.
#[derive(Debug, Clone, Copy)]
pub enum WalkTarget<'a> {
    /// The threads of these processes, and the threads and processes that they start while events
    /// are counted.
    Processes(&'a [u32]),
    /// Everything that runs on these CPUs.
    Machine(&'a [u32]),
}

/// Hardware counters of page walks that are running.
#[derive(Debug)]
pub struct WalkCounters {
    began: Instant,
    subjects: u64,
    left_out: u64,
    user_only: bool,
    counts: Vec<Count>,
}

/// An event, and the counters that count it for all threads or CPUs.
#[derive(Debug)]
struct Count {
    event: Event,
    counters: Vec<Counter>,
    /// Why the event is not counted; `None` if it is counted.
    refused: Option<Refused>,
}

/// Why a counter could not be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Refused {
    /// The CPU or the virtual machine does not have the event.
    Unknown,
    NotAllowed,
    Other(String),
}

/// The thread or CPU whose events a counter counts.
#[derive(Debug, Clone, Copy)]
enum CounterScope {
    Thread(i32),
    Processor(usize),
}

impl WalkCounters {
    /// Opens and starts all counters. `intel_model` is the model of the CPU if it is an Intel CPU
    /// of family 6.
    pub fn begin(counted: WalkTarget<'_>, intel_model: Option<u32>) -> Self {
        let walking = intel::events_of_model(intel_model);
        let known = EVENTS.into_iter().chain(walking);
        Self::from_subjects(&subjects(counted), known.collect())
    }

    fn from_subjects(subjects: &[CounterScope], events: Vec<Event>) -> Self {
        let count = |event| Count { event, counters: Vec::new(), refused: None };
        let counts: Vec<Count> = events.into_iter().map(count).collect();
        let most = MOST_COUNTERS / counts.len().max(1);
        let left_out = subjects.len().saturating_sub(most) as u64;
        let began = Instant::now();
        let mut counting = Self { began, subjects: 0, left_out, user_only: false, counts };
        for subject in subjects.iter().take(most) {
            counting.subjects += u64::from(counting.open(*subject));
        }
        let counters = counting.counts.iter_mut().flat_map(|count| &mut count.counters);
        // a thread that has exited in the meantime cannot be counted
        counters.for_each(|counter| drop(counter.enable()));
        counting.began = Instant::now();
        counting
    }

    /// Opens a counter of each event for a thread or CPU. Returns `false` if none could be opened,
    /// for example because the thread has exited.
    fn open(&mut self, subject: CounterScope) -> bool {
        let mut opened = false;
        for count in self.counts.iter_mut().filter(|count| count.refused.is_none()) {
            let built = match build_counter(count.event, subject, self.user_only) {
                Err(Some(Refused::NotAllowed)) if !self.user_only => {
                    self.user_only = true;
                    build_counter(count.event, subject, true)
                }
                built => built,
            };
            opened |= built.is_ok();
            match built {
                Ok(counter) => count.counters.push(counter),
                Err(refused) => count.refused = refused,
            }
        }
        opened
    }

    /// Whether at least one event is counted.
    pub fn has_counters(&self) -> bool {
        self.counts.iter().any(|count| !count.counters.is_empty())
    }

    /// Reads the counters and closes them.
    pub fn end(mut self) -> PageWalks {
        let seconds = self.began.elapsed().as_secs_f64();
        let (mut enabled, mut running) = (0, 0);
        let mut sums = [const { None }; 6];
        for count in &mut self.counts {
            let (sum, times) = count.read();
            enabled += times[0];
            running += times[1];
            add(&mut sums[count.event.role as usize], sum);
        }
        let [cycles, instructions, load_misses, store_misses, fetch_misses, walking] =
            sums.map(|sum| sum.unwrap_or_else(no_such_event));
        PageWalks {
            seconds,
            counted: self.subjects,
            left_out: self.left_out,
            user_only: self.user_only,
            counting: (enabled > 0).then(|| Percent::new(running as f64 * 100.0 / enabled as f64)),
            cycles,
            instructions,
            load_misses,
            store_misses,
            fetch_misses,
            walking,
        }
    }
}

impl Count {
    /// Returns the sum of the counters of an event, each extrapolated to the whole time, and the
    /// times for which the counters were enabled and for which they were running.
    fn read(&mut self) -> (Reading<u64>, [u64; 2]) {
        let source = Source::file(format!("perf event {}", self.event.name));
        let reading = match &self.refused {
            Some(Refused::Unknown) => Reading::absent(NO_COUNTER, source),
            Some(Refused::NotAllowed) => Reading::denied(RIGHTS, source),
            Some(Refused::Other(why)) => Reading::absent(why.clone(), source),
            None => return self.read_total_and_times(source),
        };
        (reading, [0, 0])
    }

    fn read_total_and_times(&mut self, source: Source) -> (Reading<u64>, [u64; 2]) {
        let (mut sum, mut times) = (0u64, [0, 0]);
        for counter in &mut self.counters {
            let Ok(read) = counter.read_count_and_time() else { continue };
            times[0] += read.time_enabled;
            times[1] += read.time_running;
            sum += scale(read.count, read.time_enabled, read.time_running);
        }
        let never_ran = times[0] > 0 && times[1] == 0;
        if never_ran || self.counters.is_empty() {
            let why = if never_ran { NEVER_RAN } else { NOBODY };
            return (Reading::absent(why, source), times);
        }
        (Reading::found(sum, source), times)
    }
}

const NO_COUNTER: &str =
    "this machine shows no such counter, as most virtual machines and some processors";
const RIGHTS: &str = "not allowed: root may, or a lower kernel.perf_event_paranoid";
const NEVER_RAN: &str = "other counters were always in the way";
const NOBODY: &str = "everybody that was to be counted has ended";

fn no_such_event() -> Reading<u64> {
    let why = "no event that counts this is known for this processor";
    Reading::absent(why, Source::file("perf event"))
}

/// Adds a count to the sum. The sum becomes absent if one of the two was not counted.
fn add(sum: &mut Option<Reading<u64>>, more: Reading<u64>) {
    *sum = Some(match (sum.take(), more) {
        (None, more) => more,
        (Some(first), more) => match (first.get(), more.get()) {
            (Some(one), Some(other)) => Reading::found(one + other, first.source),
            (Some(_), None) => more,
            (None, _) => first,
        },
    });
}

/// Extrapolates a count to the whole time for which the counter was enabled: the kernel runs a
/// counter only for a part of this time if there are too many.
fn scale(count: u64, enabled: u64, running: u64) -> u64 {
    let all = u128::from(count) * u128::from(enabled) / u128::from(running.max(1));
    u64::try_from(all).unwrap_or(u64::MAX)
}

/// Opens a counter for an event. An error without a reason means that the thread has exited.
fn build_counter(
    event: Event,
    subject: CounterScope,
    user_only: bool,
) -> Result<Counter, Option<Refused>> {
    let mut builder = event.what.counter();
    builder.read_format(ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING);
    match subject {
        CounterScope::Thread(id) => builder.observe_pid(id).any_cpu().inherit(true),
        CounterScope::Processor(id) => builder.any_pid().one_cpu(id),
    };
    builder.exclude_kernel(user_only).exclude_hv(user_only);
    builder.build().map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::SRCH | Errno::NODEV) => None,
        Some(Errno::NOENT | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => {
            Some(Refused::Unknown)
        }
        Some(Errno::ACCESS | Errno::PERM) => Some(Refused::NotAllowed),
        _ => Some(Refused::Other(error.to_string())),
    })
}

fn subjects(counted: WalkTarget<'_>) -> Vec<CounterScope> {
    match counted {
        WalkTarget::Machine(processors) => {
            let ids = processors.iter().filter_map(|number| usize::try_from(*number).ok());
            ids.map(CounterScope::Processor).collect()
        }
        WalkTarget::Processes(pids) => {
            pids.iter().flat_map(|pid| threads(*pid)).map(CounterScope::Thread).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use perf_event::events::Software;

    use super::event::{EventSource, Role, event};
    use super::*;

    /// An event that every kernel counts even without hardware counters: page faults. The tests use
    /// it, because it is counted by the same code.
    const FAULTS: Event =
        event("page-faults", Role::LoadMisses, EventSource::Software(Software::PAGE_FAULTS));
    /// A software event that no kernel has. A raw event number could not be used, because any
    /// number may be an event of the CPU.
    const NONE: Event = event("none", Role::Cycles, EventSource::Software(Software(u64::MAX)));

    fn touch(pages: usize) {
        // the buffer is larger than what malloc would reuse, so that its pages are new each time
        let mut fresh = vec![0u8; pages * 4096];
        fresh.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
        black_box(&fresh);
    }

    #[test]
    fn every_thread_of_a_process_is_counted_and_those_that_it_starts() {
        let (begin, begun) = std::sync::mpsc::channel::<()>();
        let (told, done) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            begun.recv().unwrap();
            touch(1000);
            std::thread::spawn(|| touch(1000)).join().unwrap();
            told.send(()).unwrap();
        });
        let all = subjects(WalkTarget::Processes(&[std::process::id()]));
        assert!(all.len() >= 2, "{all:?}");
        let counting = WalkCounters::from_subjects(&all, vec![FAULTS]);
        begin.send(()).unwrap();
        done.recv().unwrap();
        touch(1000);
        let walks = counting.end();
        // one huge page may replace many base pages, and other tests run at the same time
        let faults = walks.load_misses.get().unwrap();
        assert!(faults >= 6 && walks.counted >= 2, "{walks:?}");
        assert!(walks.counting.is_some_and(|share| share.get() > 99.0), "{walks:?}");
        thread.join().unwrap();
    }

    #[test]
    fn an_event_that_nobody_has_is_absent_and_says_so() {
        let own = subjects(WalkTarget::Processes(&[std::process::id()]));
        let walks = WalkCounters::from_subjects(&own, vec![NONE, FAULTS]).end();
        assert_eq!(walks.cycles.get(), None);
        assert_eq!(walks.cycles.source.path(), "perf event none");
        assert!(walks.load_misses.get().is_some(), "{walks:?}");
        assert_eq!(walks.store_misses.get(), None);
    }

    #[test]
    fn who_has_ended_is_not_counted() {
        let walks =
            WalkCounters::from_subjects(&[CounterScope::Thread(i32::MAX)], vec![FAULTS]).end();
        assert_eq!((walks.load_misses.get(), walks.counted), (None, 0));
    }

    #[test]
    fn too_many_are_left_out_and_told() {
        let own = i32::try_from(std::process::id()).unwrap();
        let walks =
            WalkCounters::from_subjects(&vec![CounterScope::Thread(own); 1000], vec![FAULTS]).end();
        assert_eq!((walks.counted, walks.left_out), (900, 100));
    }

    #[test]
    fn what_took_turns_is_scaled() {
        assert_eq!(scale(10, 100, 50), 20);
        assert_eq!(scale(u64::MAX, 2, 1), u64::MAX);
        assert_eq!(scale(0, 5, 0), 0);
    }

    #[test]
    fn a_sum_is_known_where_all_of_it_is() {
        let found = |count| Reading::found(count, Source::none());
        let sum = |parts: Vec<Reading<u64>>| {
            let mut sum = None;
            parts.into_iter().for_each(|part| add(&mut sum, part));
            sum.unwrap().get()
        };
        assert_eq!(sum(vec![found(1), found(2)]), Some(3));
        assert_eq!(sum(vec![found(1), Reading::not_read()]), None);
        assert_eq!(sum(vec![Reading::not_read(), found(1)]), None);
    }
}
