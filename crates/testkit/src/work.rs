// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the work of a piece of code: the instructions that this thread executes in user space.
//!
//! Unlike time, the number of instructions does not depend on other load. If the CPU's counter
//! cannot be used (a virtual machine without one, `kernel.perf_event_paranoid` above 2), the CPU
//! time of the thread is used instead, and the test prints that. Cold caches, interrupts and steal
//! only increase the result. Limits must therefore be wide, and a value above a limit must be
//! measured again: the smallest of several measurements is used.

use perf_event::events::Hardware;
use perf_event::{Builder, Counter};
use rustix::time::{ClockId, clock_gettime};

/// Counts the work of the thread that created it.
#[derive(Debug)]
pub struct Work {
    /// Counter of instructions; `None` if only CPU time can be measured.
    counter: Option<Counter>,
}

impl Work {
    /// Creates a counter of instructions. If this machine cannot count them, prints this to
    /// standard error and uses CPU time.
    pub fn counter() -> Self {
        let counter = Builder::new(Hardware::INSTRUCTIONS).exclude_kernel(true).build();
        let counter = counter.and_then(|mut counter| counter.enable().map(|()| counter));
        if let Err(error) = &counter {
            eprintln!(
                "NO INSTRUCTIONS ARE COUNTED HERE ({error}): CPU time stands in, with a wider bound; \
                 set kernel.perf_event_paranoid to 2, or run on a machine with a counter"
            );
        }
        Self { counter: counter.ok() }
    }

    /// Whether instructions are counted; otherwise CPU time is measured.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.counter.is_some()
    }

    /// Runs a piece of code twice. Returns the smaller work of the two runs, and the result of the
    /// second run.
    ///
    /// # Panics
    /// If the counter cannot be read.
    pub fn measure<T>(&mut self, mut run: impl FnMut() -> T) -> (u64, T) {
        let mut once = || {
            let before = self.now();
            let answer = run();
            (self.now() - before, answer)
        };
        let (first, _) = once();
        let (second, answer) = once();
        (first.min(second), answer)
    }

    fn now(&mut self) -> u64 {
        match &mut self.counter {
            Some(counter) => counter.read().expect("the counter"),
            None => {
                let time = clock_gettime(ClockId::ThreadCPUTime);
                let part = |number: i64| u64::try_from(number).expect("no time before the start");
                part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[test]
    fn ten_times_the_work_counts_as_ten_times_the_work() {
        let mut work = Work::counter();
        let mut sum = |most: u64| work.measure(|| (0..most).fold(0, |sum, at| black_box(sum ^ at)));
        // under load, CPU time may need several attempts; instructions need one
        let is_tenfold = (0..20).any(|_| {
            let ((few, _), (many, answer)) = (sum(100_000), sum(1_000_000));
            assert_eq!(answer, (0..1_000_000).fold(0, |sum, at| sum ^ at));
            (few * 7..few * 13).contains(&many)
        });
        assert!(is_tenfold);
    }
}
