// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits on sampling: its time, its share of a CPU, and the user's request to stop.

use std::time::{Duration, Instant};

use rustix::time::ClockId;

use crate::{Options, Partial};

/// Maximum length of one sleep, and so the delay until a Ctrl-C has an effect.
const NAP: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Pace {
    options: Options,
    begun: Instant,
    cpu_before: Duration,
}

impl Pace {
    pub(crate) fn start(options: Options) -> Self {
        Self { options, begun: Instant::now(), cpu_before: cpu_used() }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Why sampling must end now; `None` if it can continue.
    pub(crate) fn why_over(&self) -> Option<Partial> {
        let late = self.time_left().is_some_and(|left| left.is_zero());
        match (self.options.is_stopped(), late) {
            (true, _) => Some(Partial::Stopped),
            (_, true) => Some(Partial::Budget),
            _ => None,
        }
    }

    /// Remaining time until sampling must end; `None` without a limit.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        self.options.budget.map(|budget| budget.saturating_sub(self.begun.elapsed()))
    }

    /// Sleeps until the CPU use is back below its limit, or sampling must end.
    pub(crate) fn wait_for_cpu_limit(&self) {
        while let Some(nap) = self.time_to_sleep().filter(|_| self.why_over().is_none()) {
            std::thread::sleep(nap.min(NAP));
        }
    }

    fn time_to_sleep(&self) -> Option<Duration> {
        let percent = self.options.max_cpu?.get();
        let due = time_when_within_limit(cpu_used().saturating_sub(self.cpu_before), percent)?;
        due.checked_sub(self.begun.elapsed()).filter(|nap| !nap.is_zero())
    }
}

/// The elapsed time after which a process that used this CPU time is back at the given percentage
/// of a CPU.
fn time_when_within_limit(used: Duration, percent: f64) -> Option<Duration> {
    let usable = percent.is_finite() && percent > 0.0;
    let seconds = usable.then(|| used.as_secs_f64() * 100.0 / percent)?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// CPU time of the whole process, which includes the processing of the pages by the caller.
fn cpu_used() -> Duration {
    let time = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_quarter_of_a_processor_takes_four_times_as_long() {
        assert_eq!(
            time_when_within_limit(Duration::from_secs(2), 25.0),
            Some(Duration::from_secs(8))
        );
        assert_eq!(time_when_within_limit(Duration::from_secs(2), 0.0), None);
        assert_eq!(time_when_within_limit(Duration::from_secs(2), f64::NAN), None);
    }

    #[test]
    fn it_is_over_when_time_is_up_or_somebody_says_so() {
        let stop = Arc::new(AtomicBool::new(false));
        let options = |budget| Options { budget, stop: Some(stop.clone()), ..Options::default() };
        let endless = Pace::start(options(None));
        assert_eq!(endless.why_over(), None);
        assert_eq!(Pace::start(options(Some(Duration::ZERO))).why_over(), Some(Partial::Budget));
        stop.store(true, Ordering::Relaxed);
        assert_eq!(endless.why_over(), Some(Partial::Stopped));
    }
}
