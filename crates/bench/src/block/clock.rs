// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clocks with which requests are timed.
//!
//! CLOCK_MONOTONIC is read without a system call (vDSO). The CPU time of a thread is exact
//! (CLOCK_THREAD_CPUTIME_ID is the scheduler's sum), but the division of that time into kernel and
//! user time is not: with CONFIG_TICK_CPU_ACCOUNTING, which distributions use, getrusage divides it
//! by samples at timer ticks, and a slice of 50 ms has about a dozen of these. So kernel time is
//! computed from the share of the time that was spent inside requests; see [`super::slice`].

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Reads the clock: nanoseconds since an arbitrary moment.
pub(super) fn now() -> u64 {
    nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// CPU time of this thread, in nanoseconds.
pub(super) fn thread_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
}

/// CPU time of this process, in nanoseconds.
pub(super) fn process_cpu_ns() -> u64 {
    nanoseconds(clock_gettime(ClockId::ProcessCPUTime))
}

fn nanoseconds(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Time that one reading of the clock takes, in nanoseconds: the measured time of every request is
/// longer by this amount. It is computed from consecutive readings.
pub(super) fn measure_reading_time() -> f64 {
    const READINGS: u32 = 1000;
    let batch = || {
        let start = now();
        (0..READINGS).for_each(|_| _ = std::hint::black_box(now()));
        (now() - start) as f64 / f64::from(READINGS + 1)
    };
    // the minimum of nine batches, because a batch may have been interrupted
    (0..9).map(|_| batch()).fold(f64::INFINITY, f64::min)
}

/// Resolution of the clock in nanoseconds: the smallest step that was observed. On a machine
/// without a time stamp counter the clock may advance only with timer ticks.
pub(super) fn measure_step() -> Option<f64> {
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
        let (time, cpu) = (now(), thread_cpu_ns());
        let takes = measure_reading_time();
        assert!(takes > 0.0 && takes.is_finite());
        assert!(measure_step().is_some_and(|step| step > 0.0));
        assert!(now() > time && thread_cpu_ns() > cpu && process_cpu_ns() >= thread_cpu_ns());
    }
}
