// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether a reading is due: after some time, or at once while memory is short.

use std::time::{Duration, Instant};

use pagewise_model::Micros;
use pagewise_observe::{HostGauges, HostRoot};

/// A part of a second for which some task waited for memory that counts as trouble.
const WAITED: Duration = Duration::from_millis(50);
/// How long readings stay frequent after the last sign of trouble.
const LINGERS: Duration = Duration::from_secs(30);

/// The counters that are read every second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Glance {
    /// Microseconds for which some task waited for memory; `None` if the kernel does not say.
    stalled: Option<u64>,
    /// Processes that the kernel killed for lack of memory.
    kills: Option<u64>,
}

impl Glance {
    pub(super) fn take(host: &HostRoot) -> Self {
        let gauges = HostGauges(host);
        Self { stalled: gauges.memory_wait().map(Micros::get), kills: gauges.oom_kills() }
    }

    /// Whether there was trouble since the glance before, which was that long ago.
    fn shows_trouble(self, before: Self, passed: Duration) -> bool {
        let grown = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        let killed = grown(self.kills, before.kills).is_some_and(|kills| kills > 0);
        let waited = grown(self.stalled, before.stalled).map(Duration::from_micros);
        let limit = WAITED.mul_f64(passed.as_secs_f64().max(1.0));
        killed || waited.is_some_and(|waited| waited > limit)
    }
}

/// When the last reading was taken, and the last sign of trouble.
#[derive(Debug)]
pub(super) struct Due {
    every: Duration,
    last: Option<Instant>,
    trouble: Option<Instant>,
    glance: Option<(Instant, Glance)>,
}

impl Due {
    pub(super) fn new(every: Duration) -> Self {
        Self { every, last: None, trouble: None, glance: None }
    }

    /// Whether a reading is due now.
    pub(super) fn is_due(&mut self, now: Instant, glance: Glance) -> bool {
        if let Some((then, before)) = self.glance.replace((now, glance)) {
            if glance.shows_trouble(before, now.saturating_duration_since(then)) {
                self.trouble = Some(now);
            }
        }
        let since = |then: Instant| now.saturating_duration_since(then);
        let is_troubled = self.trouble.is_some_and(|trouble| since(trouble) < LINGERS);
        // half a tick early is better than half a tick late
        let slack = Duration::from_millis(500);
        self.last.is_none_or(|last| is_troubled || since(last) + slack >= self.every)
    }

    /// A reading was taken; `is_short` says whether it showed that memory is short.
    pub(super) fn took(&mut self, now: Instant, is_short: bool) {
        self.last = Some(now);
        if is_short {
            self.trouble = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glance(stalled_ms: u64, kills: u64) -> Glance {
        Glance { stalled: Some(stalled_ms * 1000), kills: Some(kills) }
    }

    /// The seconds of 60 at which a reading is taken, if the glances are these.
    fn taken(glances: impl Fn(u64) -> Glance) -> Vec<u64> {
        let begun = Instant::now();
        let mut due = Due::new(Duration::from_secs(10));
        let seconds = (0..60).filter(|second| {
            let now = begun + Duration::from_secs(*second);
            let is_due = due.is_due(now, glances(*second));
            if is_due {
                due.took(now, false);
            }
            is_due
        });
        seconds.collect()
    }

    #[test]
    fn a_calm_machine_is_read_every_ten_seconds() {
        assert_eq!(taken(|_| glance(0, 0)), [0, 10, 20, 30, 40, 50]);
        assert_eq!(taken(|second| glance(second * 40, 7)), [0, 10, 20, 30, 40, 50]);
        assert_eq!(taken(|_| Glance::default()), [0, 10, 20, 30, 40, 50]);
    }

    #[test]
    fn a_kill_or_waiting_is_read_at_once_and_then_every_second_for_half_a_minute() {
        let killed = taken(|second| glance(0, u64::from(second >= 13)));
        let expected: Vec<u64> = [0, 10].into_iter().chain(13..43).chain([52]).collect();
        assert_eq!(killed, expected);
        let waited = taken(|second| glance(if second >= 5 { 400 } else { 0 }, 0));
        assert_eq!(waited[..4], [0, 5, 6, 7]);
    }

    #[test]
    fn counters_that_begin_anew_are_no_trouble() {
        assert_eq!(
            taken(|second| glance(9000 - second * 100, 60 - second)),
            [0, 10, 20, 30, 40, 50]
        );
    }
}
