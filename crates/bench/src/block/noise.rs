// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures other activity of the machine during a measurement, as [`Noise`].
//!
//! `/proc/stat` counts the time of all CPUs in timer ticks, while the CPU time of this process is
//! exact. So over less than some seconds, the difference between the two is not accurate.

use pagewise_model::{Name, Noise};
use pagewise_observe::{HostGauges, HostRoot, ProcessorTicks};

use super::clock;
use super::round::Round;

/// Counters of the machine at the start of a measurement.
#[derive(Debug)]
pub(super) struct Baseline {
    ticks: Option<ProcessorTicks>,
    wall_ns: u64,
    cpu_ns: u64,
}

impl Baseline {
    pub(super) fn now() -> Self {
        let host = HostRoot::live().ok();
        let ticks = host.and_then(|host| HostGauges(&host).processor_ticks());
        Self { ticks, wall_ns: clock::now(), cpu_ns: clock::process_cpu_ns() }
    }

    /// The noise since this baseline was taken. On an idle machine, all rounds of the `calm` cell
    /// would have equal results.
    pub(super) fn until_now(&self, calm: Option<(String, &[Round])>) -> Noise {
        let now = Self::now();
        let seconds = (now.wall_ns - self.wall_ns) as f64 / 1e9;
        let ours = (now.cpu_ns - self.cpu_ns) as f64 / 1e9;
        let ticks = self.ticks.zip(now.ticks);
        let shares = ticks.and_then(|(from, to)| shares_of_time(from, to, ours / seconds));
        Noise {
            seconds,
            others_share: shares.map(|(others, _)| others),
            stolen_share: shares.map(|(_, stolen)| stolen),
            calm_p50_spread: calm.as_ref().and_then(|(_, rounds)| spread(rounds)),
            calm: calm.map(|(name, _)| Name::from(name.as_str())),
            clock_step_ns: clock::measure_step(),
        }
    }
}

/// Two shares of all CPUs' time between two readings: used by other processes, and stolen by the
/// hypervisor. `ours` is the number of CPUs that this process used on average.
fn shares_of_time(from: ProcessorTicks, to: ProcessorTicks, ours: f64) -> Option<(f64, f64)> {
    let grown =
        |of: fn(&ProcessorTicks) -> u64| of(&to).checked_sub(of(&from)).map(|ticks| ticks as f64);
    let (busy, stolen) = (grown(|ticks| ticks.busy)?, grown(|ticks| ticks.stolen)?);
    let all = grown(|ticks| ticks.all).filter(|&all| all > 0.0)?;
    let others = busy / all - ours / to.processors.max(1) as f64;
    Some((others.clamp(0.0, 1.0), stolen / all))
}

/// Spread of the medians of some rounds: the largest divided by the smallest, minus 1.
fn spread(rounds: &[Round]) -> Option<f64> {
    let p50 = rounds.iter().map(|round| round.p50_ns);
    let (least, largest) = p50
        .fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), one| (low.min(one), high.max(one)));
    (rounds.len() > 1 && least > 0.0).then_some(largest / least - 1.0)
}

#[cfg(test)]
mod tests {
    use pagewise_observe::Entry;

    use super::*;

    fn ticks_in(text: &str) -> Option<ProcessorTicks> {
        let stat = ("proc/stat".to_owned(), Entry::File(text.into()));
        HostGauges(&HostRoot::memory([stat])).processor_ticks()
    }

    const STAT: &str = "cpu  100 0 100 700 50 0 50 0 0 0\ncpu0 1 2\ncpu1 3 4\nintr 5\n";

    #[test]
    fn what_others_used_is_what_was_busy_without_us() {
        let from = ticks_in(STAT).unwrap();
        let expected = ProcessorTicks { busy: 250, user: 100, stolen: 0, all: 1000, processors: 2 };
        assert_eq!(from, expected);
        let to = ticks_in("cpu  160 0 140 750 50 0 50 50 0 0\ncpu0\ncpu1\n").unwrap();
        // of 200 ticks 100 were busy and 50 stolen; we used half of one of two CPUs
        assert_eq!(shares_of_time(from, to, 0.5), Some((0.25, 0.25)));
        assert_eq!(shares_of_time(from, to, 2.0), Some((0.0, 0.25)));
        assert_eq!(shares_of_time(from, from, 0.0), None);
        assert_eq!(shares_of_time(to, from, 0.0), None);
    }

    #[test]
    fn this_machine_is_looked_at() {
        let before = Baseline::now();
        assert!(before.ticks.is_some_and(|ticks| ticks.processors > 0 && ticks.all > 0));
        assert!(before.until_now(None).seconds > 0.0);
    }
}
