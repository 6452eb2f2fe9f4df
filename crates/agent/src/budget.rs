// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The limit on the agent's own CPU time.
//!
//! CPU time is allowed at a constant rate and can be saved for one minute. An action is not
//! interrupted, so it can use more than what is left; the agent then does nothing until the excess is
//! made up for. The time that the kernel spends on an action for the agent is part of its CPU time.

use std::time::Duration;

const MINUTE: f64 = 60.0;

/// The CPU time that the agent may still use.
#[derive(Debug, Clone)]
pub struct CpuBudget {
    /// CPU seconds allowed per minute, which is also what can be saved.
    per_minute: f64,
    /// CPU seconds that may be used now; below zero if more was used than allowed.
    left: f64,
    at: Duration,
    used: Duration,
}

impl CpuBudget {
    /// A budget of `per_minute` CPU seconds, of which a minute's may be used at once.
    pub fn new(per_minute: f64) -> Self {
        Self { per_minute, left: per_minute, at: Duration::ZERO, used: Duration::ZERO }
    }

    /// Changes what is allowed from now on. What was used too much stays used.
    pub fn set(&mut self, per_minute: f64) {
        self.per_minute = per_minute;
        self.left = self.left.min(per_minute);
    }

    /// Counts the CPU time that was used until `now`: `used` is the process's whole CPU time.
    pub fn count(&mut self, now: Duration, used: Duration) {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        let spent = used.saturating_sub(self.used).as_secs_f64();
        let saved = self.left + passed * self.per_minute / MINUTE;
        self.left = saved.min(self.per_minute) - spent;
        self.at = self.at.max(now);
        self.used = self.used.max(used);
    }

    /// Whether something may be done now.
    pub fn is_left(&self) -> bool {
        self.left > 0.0
    }

    /// The CPU time that may be used at once now.
    pub fn left(&self) -> Duration {
        Duration::try_from_secs_f64(self.left.max(0.0)).unwrap_or(Duration::MAX)
    }

    /// How long nothing may be done; zero if something may be done now.
    pub fn wait(&self) -> Duration {
        let seconds = (-self.left).max(0.0) * MINUTE / self.per_minute;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Over any part of the time, what was used is at most what the rate allows for it, a minute's
        /// savings, and the last action, which is not interrupted.
        #[test]
        fn no_part_of_the_time_has_more_than_was_allowed(
            per_minute in 0.01f64..5.0,
            actions in proptest::collection::vec((0u64..20_000, 0u64..3_000), 1..200),
        ) {
            let mut budget = CpuBudget::new(per_minute);
            let (mut now, mut used) = (Duration::ZERO, Duration::ZERO);
            let mut done: Vec<(f64, f64)> = Vec::new();
            for (gap, cost) in actions {
                now += Duration::from_millis(gap);
                budget.count(now, used);
                if budget.is_left() {
                    let cost = Duration::from_millis(cost);
                    used += cost;
                    done.push((now.as_secs_f64(), cost.as_secs_f64()));
                }
            }
            for first in 0..done.len() {
                let mut sum = 0.0;
                for (at, cost) in &done[first..] {
                    let allowed = per_minute + (at - done[first].0) * per_minute / MINUTE;
                    prop_assert!(sum <= allowed + 1e-6, "{sum} of {allowed}");
                    sum += cost;
                }
            }
        }

        /// After the time that `wait` says, something may be done, and not before.
        #[test]
        fn waiting_is_as_long_as_needed(per_minute in 0.01f64..5.0, cost in 1u64..100_000) {
            let mut budget = CpuBudget::new(per_minute);
            let used = Duration::from_millis(cost);
            budget.count(Duration::ZERO, used);
            let wait = budget.wait();
            if wait > Duration::from_millis(1) {
                let mut early = budget.clone();
                early.count(wait - Duration::from_millis(1), used);
                prop_assert!(!early.is_left());
            }
            budget.count(wait + Duration::from_millis(1), used);
            prop_assert!(budget.is_left());
        }
    }

    #[test]
    fn an_idle_day_saves_one_minute() {
        let mut budget = CpuBudget::new(0.3);
        budget.count(Duration::from_secs(86_400), Duration::ZERO);
        budget.count(Duration::from_secs(86_400), Duration::from_millis(301));
        assert!(!budget.is_left());
        budget.set(0.1);
        assert!(!budget.is_left() && budget.wait() < Duration::from_secs(1));
    }

    #[test]
    fn a_clock_that_goes_back_gives_nothing() {
        let mut budget = CpuBudget::new(1.0);
        budget.count(Duration::from_secs(10), Duration::from_secs(2));
        budget.count(Duration::from_secs(5), Duration::from_secs(1));
        assert!(!budget.is_left());
        budget.count(Duration::from_secs(10), Duration::from_secs(2));
        assert!(!budget.is_left());
    }
}
