// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When memory has become so short that the loops pause, and that a plan which was applied shortly before
//! is suspected.
//!
//! The loops have brakes of their own; this is the one of the whole host. Time in which all tasks that
//! could run waited for memory (PSI `full`) is lost for every program.

use std::time::Duration;

/// What counts as trouble, and what is done about a plan then.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GuardSettings {
    /// False if a later file switches off what an earlier one switched on.
    pub is_on: bool,
    /// Whether a plan that was applied shortly before is undone; otherwise it is only named.
    pub undoes: bool,
    /// How long after it was applied a plan is suspected.
    pub watch: Duration,
    /// Trouble: the tasks waited for memory for more than this share of the time, in percent.
    pub stall_percent: f64,
    /// How long it must last.
    pub lasts: Duration,
    /// Time between two readings.
    pub interval: Duration,
}

impl Default for GuardSettings {
    fn default() -> Self {
        Self {
            is_on: true,
            undoes: false,
            watch: Duration::from_secs(86_400),
            stall_percent: 10.0,
            lasts: Duration::from_secs(60),
            interval: Duration::from_secs(10),
        }
    }
}

/// What was read of the host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GuardReading {
    /// Time since boot in which all tasks that could run waited for memory; `None` without PSI.
    pub stalled: Option<Duration>,
    /// Programs that the kernel has killed for memory since boot.
    pub oom_kills: Option<u64>,
}

/// The state of memory on the host, as far as it stops the loops.
#[derive(Debug, Clone)]
pub struct Guard {
    settings: GuardSettings,
    next: Duration,
    before: Option<(Duration, GuardReading)>,
    /// Since when the tasks have waited too much.
    since: Option<Duration>,
    paused_until: Option<Duration>,
}

/// How long the loops pause after trouble.
const PAUSE: Duration = Duration::from_secs(3600);
/// After a longer time between two readings, the host was suspended or had no CPU time for the agent,
/// and a share of this time means nothing.
const LONGEST_GAP: u32 = 10;

impl Guard {
    /// A guard before its first reading.
    pub fn new(settings: GuardSettings) -> Self {
        Self { settings, next: Duration::ZERO, before: None, since: None, paused_until: None }
    }

    /// Takes other settings; what is known stays.
    pub fn set(&mut self, settings: GuardSettings) {
        self.settings = settings;
    }

    /// What counts as trouble.
    pub fn settings(&self) -> &GuardSettings {
        &self.settings
    }

    /// Whether it is time for a reading.
    pub fn is_due(&self, now: Duration) -> bool {
        now >= self.next
    }

    /// Until when the loops pause; `None` if they may act.
    pub fn paused_until(&self, now: Duration) -> Option<Duration> {
        self.paused_until.filter(|until| now < *until)
    }

    /// Takes a reading. Returns what the trouble is when it begins, and not again as long as the loops pause.
    pub fn decide(&mut self, now: Duration, reading: GuardReading) -> Option<String> {
        self.next = now + self.settings.interval;
        let (then, before) = self.before.replace((now, reading))?;
        let time = now.saturating_sub(then);
        let trouble =
            self.killed(before, reading).or_else(|| self.stalls(now, time, before, reading));
        let is_new = self.paused_until(now).is_none();
        if trouble.is_some() {
            self.paused_until = Some(now + PAUSE);
        }
        trouble.filter(|_| is_new)
    }

    fn killed(&self, before: GuardReading, after: GuardReading) -> Option<String> {
        match after.oom_kills?.checked_sub(before.oom_kills?)? {
            0 => None,
            1 => Some("the kernel killed a program for memory".to_owned()),
            more => Some(format!("the kernel killed {more} programs for memory")),
        }
    }

    fn stalls(
        &mut self,
        now: Duration,
        time: Duration,
        before: GuardReading,
        after: GuardReading,
    ) -> Option<String> {
        let stalled = after.stalled?.checked_sub(before.stalled?)?;
        let is_usual = !time.is_zero() && time <= self.settings.interval * LONGEST_GAP;
        let percent = 100.0 * stalled.as_secs_f64() / time.as_secs_f64().max(1e-9);
        if !is_usual || percent <= self.settings.stall_percent {
            self.since = None;
            return None;
        }
        let since = *self.since.get_or_insert(now.saturating_sub(time));
        (now.saturating_sub(since) >= self.settings.lasts).then(|| {
            format!(
                "all tasks waited for memory for {percent:.0} % of the time, for {} s",
                now.saturating_sub(since).as_secs()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_secs(10);

    /// Takes a reading every 10 seconds, of tasks that wait for these shares of the time. Returns at which of them
    /// there was trouble.
    fn troubles(guard: &mut Guard, percents: &[u32]) -> Vec<usize> {
        let mut stalled = Duration::from_secs(500);
        let mut troubles = Vec::new();
        guard.decide(Duration::ZERO, GuardReading { stalled: Some(stalled), oom_kills: Some(3) });
        for (at, percent) in percents.iter().enumerate() {
            stalled += STEP * *percent / 100;
            let reading = GuardReading { stalled: Some(stalled), oom_kills: Some(3) };
            let now = STEP * u32::try_from(at + 1).unwrap();
            if guard.decide(now, reading).is_some() {
                troubles.push(at + 1);
            }
        }
        troubles
    }

    fn guard() -> Guard {
        Guard::new(GuardSettings::default())
    }

    #[test]
    fn a_minute_of_waiting_is_trouble_and_said_once() {
        let mut guard = guard();
        let mut course = vec![2; 10];
        course.extend([40; 12]);
        course.extend([0; 350]);
        course.extend([11; 6]);
        assert_eq!(troubles(&mut guard, &course), [16]);
        // each later reading in trouble begins the hour anew
        assert_eq!(guard.paused_until(STEP * 381), Some(STEP * 378 + PAUSE));
    }

    #[test]
    fn after_an_hour_of_calm_the_loops_act_again() {
        let mut guard = guard();
        let mut course = vec![40; 6];
        course.extend([0; 360]);
        assert_eq!(troubles(&mut guard, &course), [6]);
        assert_eq!(guard.paused_until(STEP * 365), Some(STEP * 6 + PAUSE));
        assert_eq!(guard.paused_until(STEP * 366), None);
    }

    #[test]
    fn shorter_waiting_and_waiting_with_gaps_is_none() {
        assert!(troubles(&mut guard(), &[90, 90, 90, 90, 90, 3].repeat(40)).is_empty());
        assert!(troubles(&mut guard(), &[10; 400]).is_empty(), "not more than 10 %");
    }

    #[test]
    fn a_kill_is_trouble_at_once() {
        let mut guard = guard();
        let reading = |oom_kills| GuardReading { stalled: None, oom_kills: Some(oom_kills) };
        assert_eq!(guard.decide(Duration::ZERO, reading(3)), None, "kills before the start");
        let trouble = guard.decide(STEP, reading(5));
        assert_eq!(trouble.as_deref(), Some("the kernel killed 2 programs for memory"));
        assert_eq!(guard.decide(STEP * 2, reading(6)), None, "said once");
        assert_eq!(guard.paused_until(STEP * 3), Some(STEP * 2 + PAUSE));
        assert_eq!(guard.decide(STEP * 4, GuardReading::default()), None);
    }

    #[test]
    fn a_time_without_readings_says_nothing() {
        let mut guard = guard();
        let reading = |seconds| GuardReading {
            stalled: Some(Duration::from_secs(seconds)),
            oom_kills: Some(0),
        };
        guard.decide(Duration::ZERO, reading(0));
        assert_eq!(guard.decide(Duration::from_secs(7200), reading(7000)), None);
        assert_eq!(
            guard.decide(Duration::from_secs(7210), reading(6000)),
            None,
            "a counter that fell"
        );
    }
}
