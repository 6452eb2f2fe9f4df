// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the times of the requests of one contestant in one shape for a slice of time.
//!
//! Each job is a thread with one request at a time. The clock is read right before and right after
//! a request; times go into a histogram whose buckets are at most 0.8 % wide. Between two requests
//! the thread only draws an offset, updates the histogram and checks the stop flag; it does not
//! allocate memory or make system calls.
//!
//! Kernel time is the thread's CPU time multiplied by the share of the slice that was spent inside
//! requests; the time of one reading of the clock is subtracted from each request. Interruptions do
//! not distort this, because they occur inside requests in proportion to that share.

use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use fastrand::Rng;
use pagewise_model::Direction;

use super::cell::Cell;
use super::clock;
use super::contestant::Contestant;
use super::latencies::{Latencies, new_latencies, quantile};
use super::pages::Aligned;
use super::round::Round;
use super::store::Store;

/// Number of requests before the measurement, to fill the CPU's caches.
const WARMING: u32 = 8;

/// What one job (a thread) measured.
struct Done {
    requests: u64,
    wall_ns: u64,
    cpu_ns: u64,
    inside_ns: u64,
    latencies: Latencies,
}

/// The buffers and threads' state for slices. They are reused, so that no slice begins with page
/// faults.
pub(super) struct Runner<'a> {
    stop: &'a AtomicBool,
    buffers: Vec<Aligned>,
    clock_ns: f64,
    random: Rng,
}

impl<'a> Runner<'a> {
    pub(super) fn new(jobs: u32, largest: usize, seed: u64, stop: &'a AtomicBool) -> Self {
        let buffers = (0..jobs).map(|_| Aligned::new_zeroed(largest)).collect();
        Self {
            stop,
            buffers,
            clock_ns: clock::measure_reading_time(),
            random: Rng::with_seed(seed),
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Runs one slice on all jobs; `None` if the user stopped it.
    pub(super) fn run(
        &mut self,
        contestant: &Contestant<'_>,
        cell: &mut Cell,
        slice_ns: u64,
    ) -> io::Result<Option<Round>> {
        let jobs = cell.shape.jobs as usize;
        let task = Task { contestant, cell, slice_ns, stop: self.stop, start: &Barrier::new(jobs) };
        let random = &mut self.random;
        let done: Vec<Done> = std::thread::scope(|scope| {
            let buffers = self.buffers.iter_mut().take(jobs);
            let seeded = buffers.map(|buffer| (buffer, random.fork()));
            let jobs: Vec<_> = seeded
                .map(|(buffer, random)| scope.spawn(|| task.run_job(buffer, random)))
                .collect();
            let ended = |job: std::thread::ScopedJoinHandle<'_, io::Result<Done>>| {
                job.join().unwrap_or_else(|_| Err(io::Error::other("its thread panicked")))
            };
            jobs.into_iter().map(ended).collect::<io::Result<_>>()
        })?;
        if self.is_stopped() {
            return Ok(None);
        }
        let in_kernel = contestant.store.is_system_call();
        Ok(Some(summarize(done, in_kernel.then_some(self.clock_ns), &mut cell.latencies)))
    }
}

#[derive(Clone, Copy)]
struct Task<'t> {
    contestant: &'t Contestant<'t>,
    cell: &'t Cell,
    slice_ns: u64,
    stop: &'t AtomicBool,
    start: &'t Barrier,
}

impl Task<'_> {
    fn run_job(self, buffer: &mut Aligned, mut random: Rng) -> io::Result<Done> {
        let block = self.cell.block_bytes();
        let slots = self.contestant.span.get() / block as u64;
        let buffer = &mut buffer.get_mut()[..block];
        let mut offset = || random.u64(..slots) * block as u64;
        let written = match self.cell.shape.direction {
            Direction::Read => None,
            Direction::Write => self.contestant.pages,
        };
        let mut request = |store: &dyn Store, at| match written {
            None => store.read_at(at, buffer),
            Some(pages) => store.write_at(at, pages.slice_at(at, block)),
        };
        let latencies = new_latencies();
        let ready = self.contestant.store.for_one_job().and_then(|store| {
            self.warm_up(|| request(&*store, offset()))?;
            Ok(store)
        });
        // the other jobs wait at the barrier, even if this one failed
        self.start.wait();
        let store = ready?;
        self.time_requests(latencies, offset, |at| request(&*store, at))
    }

    fn warm_up(self, mut request: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        let began = clock::now();
        for _ in 0..WARMING {
            request()?;
            // a slow disk needs no warm-up
            if clock::now() - began > self.slice_ns / 8 {
                break;
            }
        }
        Ok(())
    }

    fn time_requests(
        self,
        mut latencies: Latencies,
        mut offset: impl FnMut() -> u64,
        mut request: impl FnMut(u64) -> io::Result<()>,
    ) -> io::Result<Done> {
        let (mut requests, mut inside_ns) = (0, 0);
        let (began, cpu) = (clock::now(), clock::thread_cpu_ns());
        let mut now = began;
        while now - began < self.slice_ns && !self.stop.load(Ordering::Relaxed) {
            let at = offset();
            let before = clock::now();
            request(at)?;
            now = clock::now();
            latencies.saturating_record(now - before);
            inside_ns += now - before;
            requests += 1;
        }
        let cpu_ns = clock::thread_cpu_ns() - cpu;
        Ok(Done { requests, wall_ns: now - began, cpu_ns, inside_ns, latencies })
    }
}

/// Combines the measurements of all jobs. `clock_ns` (the time of one reading of the clock) is
/// given if requests are system calls; then kernel time is computed.
fn summarize(done: Vec<Done>, clock_ns: Option<f64>, all: &mut Latencies) -> Round {
    let mut latencies = new_latencies();
    let (mut requests, mut iops, mut inside, mut cpu, mut kernel) = (0, 0.0, 0, 0, 0.0);
    for job in done {
        let _ = latencies.add(job.latencies);
        requests += job.requests;
        iops += job.requests as f64 / (job.wall_ns as f64 / 1e9);
        inside += job.inside_ns;
        cpu += job.cpu_ns;
        kernel += job.cpu_ns as f64 * job.inside_ns as f64 / job.wall_ns as f64;
    }
    let _ = all.add(&latencies);
    let each = requests as f64;
    Round {
        number: 0,
        requests,
        iops,
        mean_ns: inside as f64 / each,
        p50_ns: quantile(&latencies, 0.5),
        p99_ns: quantile(&latencies, 0.99),
        p999_ns: quantile(&latencies, 0.999),
        cpu_ns_per_io: cpu as f64 / each,
        kernel_ns_per_io: clock_ns.map(|clock| (kernel / each - clock).max(0.0)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A quantile of the histogram is within 1 % of that of the sorted list of values.
        #[test]
        fn quantiles_are_those_of_the_values(
            mut values in prop::collection::vec(1u64..5_000_000_000, 1..400),
            per_mille in prop::sample::select(vec![500usize, 990, 999]),
        ) {
            let mut latencies = new_latencies();
            values.iter().for_each(|&value| latencies.saturating_record(value));
            values.sort_unstable();
            let rank = (per_mille * values.len()).div_ceil(1000);
            let naive = values[rank - 1] as f64;
            let found = quantile(&latencies, per_mille as f64 / 1000.0);
            prop_assert!((found - naive).abs() <= naive * 0.01 + 1.0, "{found} for {naive}");
        }

        /// Jobs are combined correctly: requests and requests per second are sums, means are
        /// weighted by requests.
        #[test]
        fn a_round_is_the_sum_of_its_jobs(
            jobs in prop::collection::vec(prop::collection::vec(100u64..100_000, 1..50), 1..5),
        ) {
            let done = |values: &Vec<u64>| {
                let mut latencies = new_latencies();
                values.iter().for_each(|&value| latencies.saturating_record(value));
                let inside_ns = values.iter().sum();
                let requests = values.len() as u64;
                Done { requests, wall_ns: inside_ns, cpu_ns: inside_ns, inside_ns, latencies }
            };
            let mut all = new_latencies();
            let round = summarize(jobs.iter().map(done).collect(), Some(25.0), &mut all);
            let flat: Vec<u64> = jobs.iter().flatten().copied().collect();
            let mean = flat.iter().sum::<u64>() as f64 / flat.len() as f64;
            let iops: f64 = jobs.iter().map(|job| {
                job.len() as f64 * 1e9 / job.iter().sum::<u64>() as f64
            }).sum();
            prop_assert_eq!(round.requests, flat.len() as u64);
            prop_assert_eq!(all.len(), flat.len() as u64);
            prop_assert!((round.mean_ns - mean).abs() < 1e-6 * mean);
            prop_assert!((round.iops - iops).abs() < 1e-6 * iops);
            prop_assert!((round.cpu_ns_per_io - mean).abs() < 1e-6 * mean);
            prop_assert!((round.kernel_ns_per_io.unwrap() - (mean - 25.0)).abs() < 1e-6 * mean);
        }
    }
}
