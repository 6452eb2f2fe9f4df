// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Samples the kernel's reclaim threads a thousand times per second of CPU time, and counts samples
//! per function.
//!
//! The software CPU clock needs no hardware counter, so this works in virtual machines too. A
//! sample is an address in the kernel; its function is the last symbol in `/proc/kallsyms` at or
//! before it. That file has some megabytes: it is read line by line, and only the needed symbols
//! are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader};

use perf_event::events::Software;
use perf_event::{Builder, SampleFlag, Sampler};

/// Number of samples per second of CPU time; odd, to avoid sampling in step with periodic work.
const PER_SECOND: u64 = 997;
/// Size of the ring buffer of each thread, in pages: room for 32768 samples with 4 KiB pages.
const RING_PAGES: usize = 128;
/// `PERF_RECORD_SAMPLE`, the type of a record with one sample; it contains only the instruction
/// pointer.
const SAMPLE: u32 = 9;
/// Maximum number of functions that a profile keeps.
const MOST: usize = 40;
/// Maximum number of distinct addresses that a profile counts.
const PLACES: usize = 100_000;

/// Samples of the instruction pointers of some threads since the start.
#[derive(Default)]
pub struct ThreadProfile {
    samplers: Vec<Sampler>,
    places: BTreeMap<u64, u64>,
}

impl fmt::Debug for ThreadProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ThreadProfile({} threads, {} places)", self.samplers.len(), self.places.len())
    }
}

impl ThreadProfile {
    /// Starts sampling those threads for which perf is permitted; none if it is not.
    #[must_use]
    pub fn start(threads: &[u32]) -> Self {
        let samplers = threads.iter().filter_map(|it| start_sampler(*it).ok()).collect();
        Self { samplers, places: BTreeMap::new() }
    }

    /// Takes the samples so far out of the ring buffers, before these are full.
    pub fn collect(&mut self) {
        let places = &mut self.places;
        for sampler in &mut self.samplers {
            drain(sampler, |place| {
                if places.len() < PLACES || places.contains_key(&place) {
                    *places.entry(place).or_insert(0) += 1;
                }
            });
        }
    }

    /// Functions with their numbers of samples, the highest number first.
    #[must_use]
    pub fn functions(mut self) -> Vec<(String, u64)> {
        self.collect();
        if self.places.is_empty() {
            return Vec::new();
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "longer than HostRoot reads, and never recorded"
        )]
        let read = || File::open("/proc/kallsyms").map(BufReader::new).ok();
        name_addresses(&self.places, read)
    }
}

/// Starts a sampler of a kernel thread or a thread of this process.
fn start_sampler(thread: u32) -> io::Result<Sampler> {
    let thread = i32::try_from(thread).map_err(io::Error::other)?;
    let mut builder = Builder::new(Software::CPU_CLOCK);
    builder.observe_pid(thread).any_cpu().include_kernel().include_hv().enabled(true);
    builder.sample(SampleFlag::IP).sample_frequency(PER_SECOND);
    builder.build()?.sampled(RING_PAGES * rustix::param::page_size())
}

/// The addresses in all samples since the last call. Samples that did not fit into the ring buffer
/// are lost.
fn drain(sampler: &mut Sampler, mut each: impl FnMut(u64)) {
    while let Some(record) = sampler.next_record() {
        let is_sample = record.ty() == SAMPLE;
        let bytes = record.to_contiguous();
        if let Some(place) = bytes.first_chunk().filter(|_| is_sample) {
            each(u64::from_ne_bytes(*place));
        }
    }
}

/// Finds the function names of addresses. Reads the symbols twice: first to find those that are
/// needed, then to get their names.
fn name_addresses<R: BufRead>(
    places: &BTreeMap<u64, u64>,
    symbols: impl Fn() -> Option<R>,
) -> Vec<(String, u64)> {
    let mut starts: Vec<u64> = Vec::new();
    each_function(symbols(), |start, _| starts.push(start));
    starts.sort_unstable();
    let start_of = |place: &u64| {
        let behind = starts.partition_point(|start| start <= place);
        behind.checked_sub(1).map(|at| starts[at])
    };
    let mut samples: BTreeMap<Option<u64>, u64> = BTreeMap::new();
    for (place, count) in places {
        *samples.entry(start_of(place)).or_insert(0) += count;
    }
    let starts_seen: BTreeSet<u64> = samples.keys().flatten().copied().collect();
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    each_function(symbols(), |start, name| {
        if starts_seen.contains(&start) {
            names.entry(start).or_insert_with(|| name.to_owned());
        }
    });
    let name = |start: Option<u64>| {
        let known = start.and_then(|start| names.get(&start));
        known.map_or_else(|| "(unknown)".to_owned(), Clone::clone)
    };
    let mut all: BTreeMap<String, u64> = BTreeMap::new();
    samples.into_iter().for_each(|(start, count)| *all.entry(name(start)).or_insert(0) += count);
    let mut all: Vec<(String, u64)> = all.into_iter().collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all.truncate(MOST);
    all
}

/// Parses lines like `ffffffff81000000 T name`, with a module in brackets after it. Without the
/// permission to see addresses they are all zero; such lines are skipped.
fn each_function(symbols: Option<impl BufRead>, mut each: impl FnMut(u64, &str)) {
    let Some(mut symbols) = symbols else { return };
    let mut line = String::new();
    while symbols.read_line(&mut line).is_ok_and(|length| length > 0) {
        let mut words = line.split_whitespace();
        if let (Some(start), Some("t" | "T" | "w" | "W"), Some(name)) =
            (words.next(), words.next(), words.next())
        {
            if let Some(start) = u64::from_str_radix(start, 16).ok().filter(|start| *start > 0) {
                each(start, name);
            }
        }
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLS: &str = "ffffffff81000000 T first\nffffffff81000100 t second\nffffffff81000100 T alias\n\
                           ffffffff81000180 D data\nffffffffa0000000 t of_module\t[zram]\n";

    fn count_places(places: &[(u64, u64)], symbols: &'static str) -> Vec<(String, u64)> {
        name_addresses(&places.iter().copied().collect(), || Some(symbols.as_bytes()))
    }

    #[test]
    fn a_place_belongs_to_the_function_that_begins_last_before_it() {
        let found = count_places(
            &[
                (0xffff_ffff_8100_0010, 2),
                (0xffff_ffff_8100_0100, 3),
                (0xffff_ffff_8100_0190, 4),
                (0xffff_ffff_a000_0020, 5),
                (0x1000, 1),
            ],
            SYMBOLS,
        );
        let shown: Vec<(&str, u64)> =
            found.iter().map(|(name, count)| (&name[..], *count)).collect();
        assert_eq!(shown, [("second", 7), ("of_module", 5), ("first", 2), ("(unknown)", 1)]);
    }

    #[test]
    fn addresses_that_are_hidden_name_nothing() {
        let hidden = "0000000000000000 T first\n0000000000000000 t second\n";
        assert_eq!(
            count_places(&[(0xffff_ffff_8100_0010, 2)], hidden),
            [("(unknown)".to_owned(), 2)]
        );
    }

    #[test]
    fn a_thread_that_does_not_exist_has_no_samples() {
        assert!(ThreadProfile::start(&[u32::MAX, 4_000_000]).functions().is_empty());
    }

    /// Without permission to use perf this test checks nothing.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a setting of this machine decides")]
    fn a_busy_thread_is_seen() {
        let own = u32::try_from(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        let Ok(mut sampler) = start_sampler(own) else {
            let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
            assert!(
                !rustix::process::geteuid().is_root() || paranoid.is_err(),
                "root may look at its own thread"
            );
            return;
        };
        let mut seen = 0;
        for _ in 0..100 {
            // busy both in the kernel and in user space
            (0..2000).for_each(|_| drop(std::fs::metadata("/proc/self/stat")));
            drain(&mut sampler, |place| seen += u32::from(place != 0));
            if seen > 20 {
                return;
            }
        }
        panic!("only {seen} samples of a busy thread");
    }

    /// On a machine without memory shortage kswapd sleeps and has no samples.
    #[test]
    fn root_may_look_at_reclaim_threads() {
        if rustix::process::geteuid().is_root() {
            let threads = crate::ThreadCpu::kswapd(&crate::HostRoot::live().unwrap()).threads;
            assert_eq!(ThreadProfile::start(&threads).samplers.len(), threads.len());
        }
    }

    /// A thread that is busy with system calls has samples in kernel functions, with names if they
    /// are readable.
    #[test]
    fn functions_of_the_kernel_are_named() {
        let own = u32::try_from(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        let mut profile = ThreadProfile::start(&[own]);
        let is_sampled = !profile.samplers.is_empty();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while profile.places.len() < 20 && std::time::Instant::now() < until {
            (0..2000).for_each(|_| drop(std::fs::metadata("/proc/self/stat")));
            profile.collect();
            if profile.samplers.is_empty() {
                break;
            }
        }
        let sampled: u64 = profile.places.values().sum();
        let found = profile.functions();
        assert!(
            found.len() <= MOST
                && found.iter().map(|(_, count)| count).sum::<u64>() <= sampled + 1000
        );
        // if perf is permitted, such a busy thread has samples
        assert_eq!(sampled > 0, is_sampled);
        if rustix::process::geteuid().is_root() && is_sampled {
            assert!(found.iter().any(|(name, _)| name != "(unknown)"), "{found:?}");
        }
    }
}
