// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clocks that requests are timed with.
//!
//! CLOCK_MONOTONIC is read without a system call. A thread's processor time is exact
//! (CLOCK_THREAD_CPUTIME_ID is the scheduler's sum), but how it is divided between kernel and user is
//! not: with CONFIG_TICK_CPU_ACCOUNTING, which distributions use, getrusage divides it by what ran at
//! each timer tick, and a slice of 50 ms has a dozen. So kernel time is worked out from the share of the
//! time that was spent inside of requests; see [`super::slice`].

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds since some moment.
pub(super) fn now() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// Processor time of this thread, in nanoseconds.
pub(super) fn thread_cpu() -> u64 {
    nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
}

/// Processor time of this process, in nanoseconds.
pub(super) fn process_cpu() -> u64 {
    nanoseconds(clock_gettime(ClockId::ProcessCPUTime))
}

fn nanoseconds(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// What lies between two readings of the clock with nothing between them, in nanoseconds: every
/// request looks longer by this.
pub(super) fn reading_takes() -> f64 {
    const READINGS: u32 = 1000;
    let batch = || {
        let start = now();
        (0..READINGS).for_each(|_| _ = std::hint::black_box(now()));
        (now() - start) as f64 / f64::from(READINGS + 1)
    };
    // the least: a batch in which something else ran says nothing
    (0..9).map(|_| batch()).fold(f64::INFINITY, f64::min)
}

/// By how much the clock goes forward at a time, in nanoseconds: a machine without a time stamp
/// counter may know the time by its timer's ticks alone.
pub(super) fn step() -> Option<f64> {
    const LONGEST: u32 = 10_000_000;
    let mut last = now();
    let mut least = u64::MAX;
    let mut steps = 0;
    for _ in 0..LONGEST {
        let read = now();
        if read > last {
            least = least.min(read - last);
            steps += 1;
        }
        last = read;
        if steps == 9 {
            break;
        }
    }
    (steps > 0).then_some(least as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_go_forward_and_reading_one_takes_time() {
        let (time, cpu) = (now(), thread_cpu());
        let takes = reading_takes();
        assert!(takes > 0.0 && takes.is_finite());
        assert!(step().is_some_and(|step| step > 0.0));
        assert!(now() > time && thread_cpu() > cpu && process_cpu() >= thread_cpu());
    }
}
