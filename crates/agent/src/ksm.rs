// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When kernel same-page merging (KSM) is switched on, and when it is switched off again because it does
//! not pay: it saves too little memory, or its thread uses too much CPU time.
//!
//! What KSM saves cannot be known without trying it: it depends on the contents of the memory that
//! programs have offered for merging. A page is merged in its second scan at the earliest, so KSM is
//! judged after two scans. Switched off, it merges nothing more, and pages that were merged stay so
//! until they are written.

use std::time::Duration;

use pagewise_model::{Bytes, Pages};

/// What KSM may cost, and must save.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KsmSettings {
    /// False if a later file switches off what an earlier one switched on.
    pub is_on: bool,
    /// KSM is switched off if it saves less, after the memory of its own records was subtracted.
    pub least_profit: Bytes,
    /// KSM is switched off if its thread uses more than this share of one CPU, in percent.
    pub cpu_percent: f64,
    /// Time between two readings.
    pub interval: Duration,
    /// Time until KSM is tried again after it did not pay; it doubles each further time, up to eightfold.
    pub retry_after: Duration,
}

impl Default for KsmSettings {
    fn default() -> Self {
        Self {
            is_on: true,
            least_profit: Bytes::new(16 << 20),
            cpu_percent: 5.0,
            interval: Duration::from_secs(60),
            retry_after: Duration::from_secs(86_400),
        }
    }
}

/// What was read of KSM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KsmReading {
    /// Its switch, `run`; `None` if the kernel has no KSM.
    pub run: Option<u32>,
    /// How often it has scanned all memory that is offered for merging.
    pub full_scans: Option<u64>,
    /// Bytes that it saves, its own records subtracted.
    pub profit: Option<i64>,
    /// Number of pages that it has a record of: those that programs offer and it has scanned.
    pub tracked: Option<Pages>,
    /// CPU time of its thread since boot.
    pub cpu: Option<Duration>,
    /// Another program that switches it on and off.
    pub manager: Option<&'static str>,
}

/// What is to be done about KSM.
#[derive(Debug, Clone, PartialEq)]
pub enum KsmStep {
    /// Nothing may be done: why.
    LeaveAlone(String),
    /// It is off, because it did not pay: why, and how long it stays off.
    Rest(String, Duration),
    /// Switch it on. Then call [`KsmTarget::begin`].
    SwitchOn,
    /// It is on, and has not scanned all memory twice.
    Measure,
    /// It is on, and this reading says that it does not pay: why. The next ones decide.
    Doubt(String),
    /// It pays: bytes saved, and the share of a CPU that its thread uses, in percent.
    Keep(i64, Option<f64>),
    /// Switch it off: why.
    SwitchOff(String),
}

#[derive(Debug, Clone, PartialEq)]
enum State {
    Off { until: Duration, why: String },
    On(Trial),
}

/// KSM since the agent has switched it on.
#[derive(Debug, Clone, PartialEq)]
struct Trial {
    since: Duration,
    full_scans: u64,
    /// The last reading of the thread's CPU time, and when it was.
    cpu: Option<(Duration, Duration)>,
    /// How many readings in a row were too bad.
    bad: u32,
}

/// KSM, as far as the agent has switched it.
#[derive(Debug, Clone)]
pub struct KsmTarget {
    settings: KsmSettings,
    next: Duration,
    state: State,
    /// How often in a row it did not pay.
    failures: u32,
}

/// This many full scans must have ended before the savings are judged.
const SETTLED_SCANS: u64 = 2;
/// After this time, they are judged even so: a thread that is so slow will not save much soon.
const LONGEST_TRIAL: Duration = Duration::from_secs(6 * 3600);
/// One reading can be an exception: a program that just ended, or a burst of new pages.
const BAD_READINGS: u32 = 3;
/// Nothing was offered for merging in this time.
const NOTHING_OFFERED: Duration = Duration::from_secs(600);
const MOST_DOUBLINGS: u32 = 3;

impl KsmTarget {
    /// KSM before the first reading.
    pub fn new(settings: KsmSettings) -> Self {
        let state = State::Off { until: Duration::ZERO, why: String::new() };
        Self { settings, next: Duration::ZERO, state, failures: 0 }
    }

    /// Takes other settings; what is known stays.
    pub fn set(&mut self, settings: KsmSettings) {
        self.settings = settings;
    }

    /// Whether it is time for a reading.
    pub fn is_due(&self, now: Duration) -> bool {
        now >= self.next
    }

    /// Whether the agent has switched KSM on.
    pub fn is_on(&self) -> bool {
        matches!(self.state, State::On(_))
    }

    /// Decides what is done after a reading.
    pub fn decide(&mut self, now: Duration, reading: &KsmReading) -> KsmStep {
        self.next = now + self.settings.interval;
        let Some(run) = reading.run else {
            return self.leave("this kernel has no KSM, or does not show it".to_owned());
        };
        if let Some(manager) = reading.manager {
            return self.leave(format!("{manager} switches KSM on and off"));
        }
        match &mut self.state {
            State::On(_) if run != 1 => {
                KsmStep::SwitchOff("somebody else has switched it off".to_owned())
            }
            State::On(trial) => trial.judge(now, reading, &self.settings),
            State::Off { .. } if run == 1 => {
                self.leave("somebody else has switched KSM on".to_owned())
            }
            State::Off { .. } if run != 0 => {
                self.leave(format!("somebody else has set run to {run}, which unmerges all pages"))
            }
            State::Off { until, why } if now < *until => KsmStep::Rest(why.clone(), *until - now),
            State::Off { .. } => KsmStep::SwitchOn,
        }
    }

    fn leave(&self, why: String) -> KsmStep {
        if self.is_on() { KsmStep::SwitchOff(why) } else { KsmStep::LeaveAlone(why) }
    }

    /// KSM was switched on, at the time of this reading.
    pub fn begin(&mut self, now: Duration, reading: &KsmReading) {
        self.state = State::On(Trial {
            since: now,
            full_scans: reading.full_scans.unwrap_or(0),
            cpu: reading.cpu.map(|cpu| (now, cpu)),
            bad: 0,
        });
    }

    /// KSM was switched off, or could not be switched on, because it does not pay or is not to be had.
    /// Returns the time until it is tried again.
    pub fn end(&mut self, now: Duration, why: String) -> Duration {
        let wait = self.settings.retry_after * (1 << self.failures.min(MOST_DOUBLINGS));
        self.failures += 1;
        self.state = State::Off { until: now + wait, why };
        wait
    }

    /// KSM pays, so the next wait is a short one again.
    pub fn succeed(&mut self) {
        self.failures = 0;
    }
}

impl Trial {
    fn judge(&mut self, now: Duration, reading: &KsmReading, settings: &KsmSettings) -> KsmStep {
        let percent = self.cpu_percent(now, reading.cpu);
        let scans = reading.full_scans.unwrap_or(0).saturating_sub(self.full_scans);
        let is_nothing_offered = reading.tracked.is_some_and(|pages| pages.get() == 0);
        if is_nothing_offered && now.saturating_sub(self.since) >= NOTHING_OFFERED {
            let why =
                "no program offers memory for merging (MADV_MERGEABLE, or MemoryKSM= of a unit)";
            return KsmStep::SwitchOff(why.to_owned());
        }
        let dear = percent.filter(|percent| *percent > settings.cpu_percent);
        let is_settled = scans >= SETTLED_SCANS || now.saturating_sub(self.since) >= LONGEST_TRIAL;
        let poor = match reading.profit {
            _ if !is_settled => None,
            Some(profit) if is_at_least(profit, settings.least_profit) => None,
            profit => Some(profit),
        };
        if dear.is_none() && poor.is_none() {
            self.bad = 0;
            return match reading.profit {
                Some(profit) if is_settled => KsmStep::Keep(profit, percent),
                _ => KsmStep::Measure,
            };
        }
        self.bad += 1;
        let why = match (dear, poor) {
            (Some(percent), _) => {
                format!(
                    "its thread uses {percent:.1} % of a CPU, more than {} %",
                    settings.cpu_percent
                )
            }
            (None, Some(Some(profit))) => {
                format!("it saves {}, less than {}", describe_profit(profit), settings.least_profit)
            }
            (None, _) => "the kernel does not say what it saves".to_owned(),
        };
        if self.bad < BAD_READINGS { KsmStep::Doubt(why) } else { KsmStep::SwitchOff(why) }
    }

    /// The share of a CPU that the thread used since the last reading, in percent.
    fn cpu_percent(&mut self, now: Duration, cpu: Option<Duration>) -> Option<f64> {
        let (then, before) = std::mem::replace(&mut self.cpu, cpu.map(|cpu| (now, cpu)))?;
        let (time, used) = (now.checked_sub(then)?, cpu?.checked_sub(before)?);
        (!time.is_zero()).then(|| 100.0 * used.as_secs_f64() / time.as_secs_f64())
    }
}

fn is_at_least(profit: i64, least: Bytes) -> bool {
    u64::try_from(profit).is_ok_and(|profit| profit >= least.get())
}

/// Bytes that are saved, as people write them: `48.0 MiB`, or `-1.0 MiB` if KSM costs more than it saves.
pub fn describe_profit(profit: i64) -> String {
    let sign = if profit < 0 { "-" } else { "" };
    format!("{sign}{}", Bytes::new(profit.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const MIB: i64 = 1 << 20;

    /// KSM of a simulated host: once switched on, it saves up to `worth`, and its thread uses `percent`.
    struct Host {
        worth: i64,
        percent: f64,
        /// How long a full scan takes.
        scan: Duration,
        /// The number of full scans before KSM was switched on.
        scans_before: u64,
        reading: KsmReading,
    }

    impl Host {
        fn new(worth: i64, percent: f64) -> Self {
            let reading = KsmReading {
                run: Some(0),
                full_scans: Some(7),
                profit: Some(0),
                tracked: Some(Pages::new(0)),
                cpu: Some(Duration::from_secs(3)),
                manager: None,
            };
            Self { worth, percent, scan: 2 * MINUTE, scans_before: 7, reading }
        }

        /// A minute passes; `on` is how long KSM has been on.
        fn pass(&mut self, on: Duration) {
            if self.reading.run != Some(1) {
                return;
            }
            let cpu = self.reading.cpu.unwrap() + MINUTE.mul_f64(self.percent / 100.0);
            self.reading.cpu = Some(cpu);
            if self.worth == 0 {
                return;
            }
            let scans = on.as_secs() / self.scan.as_secs();
            self.reading.full_scans = Some(self.scans_before + scans);
            self.reading.tracked = Some(Pages::new(100_000));
            self.reading.profit = Some(if scans >= 2 { self.worth } else { -6 * MIB });
        }
    }

    /// Runs for this many minutes; the minutes at which KSM was switched on and off.
    fn run(host: &mut Host, target: &mut KsmTarget, minutes: u32) -> Vec<(u32, bool, String)> {
        let (mut log, mut since) = (Vec::new(), 0);
        for minute in 0..minutes {
            let now = MINUTE * minute;
            host.pass(MINUTE * (minute - since));
            if !target.is_due(now) {
                continue;
            }
            match target.decide(now, &host.reading) {
                KsmStep::SwitchOn => {
                    host.reading.run = Some(1);
                    host.scans_before = host.reading.full_scans.unwrap();
                    target.begin(now, &host.reading);
                    since = minute;
                    log.push((minute, true, String::new()));
                }
                KsmStep::SwitchOff(why) => {
                    if host.reading.run == Some(1) {
                        host.reading.run = Some(0);
                    }
                    target.end(now, why.clone());
                    log.push((minute, false, why));
                }
                KsmStep::Keep(..) => target.succeed(),
                KsmStep::LeaveAlone(_)
                | KsmStep::Rest(..)
                | KsmStep::Measure
                | KsmStep::Doubt(_) => {}
            }
        }
        log
    }

    fn target() -> KsmTarget {
        KsmTarget::new(KsmSettings::default())
    }

    #[test]
    fn what_pays_stays_on() {
        let mut host = Host::new(200 * MIB, 2.0);
        assert_eq!(run(&mut host, &mut target(), 3000), [(0, true, String::new())]);
    }

    #[test]
    fn what_saves_too_little_is_tried_again_ever_more_rarely() {
        let mut host = Host::new(3 * MIB, 2.0);
        let log = run(&mut host, &mut target(), 30_000);
        let on: Vec<u32> = log.iter().filter(|(_, on, _)| *on).map(|(at, ..)| *at).collect();
        // two scans of two minutes each and two more readings; then 1, 2, 4, 8 and 8 days
        assert_eq!(on, [0, 1446, 4332, 10_098, 21_624]);
        assert_eq!(log[1], (6, false, "it saves 3.0 MiB, less than 16.0 MiB".to_owned()));
    }

    #[test]
    fn a_slow_scan_is_judged_in_the_end() {
        let mut host = Host::new(200 * MIB, 0.1);
        host.scan = 1000 * MINUTE;
        let log = run(&mut host, &mut target(), 400);
        assert_eq!(log[1], (362, false, "it saves -6.0 MiB, less than 16.0 MiB".to_owned()));
    }

    #[test]
    fn a_dear_thread_is_stopped_before_anything_is_known_of_the_savings() {
        let mut host = Host::new(200 * MIB, 7.5);
        host.scan = 1000 * MINUTE;
        let log = run(&mut host, &mut target(), 30);
        assert_eq!(log[1], (3, false, "its thread uses 7.5 % of a CPU, more than 5 %".to_owned()));
    }

    #[test]
    fn one_dear_minute_is_an_exception() {
        let (mut host, mut target) = (Host::new(200 * MIB, 1.0), target());
        assert_eq!(run(&mut host, &mut target, 30).len(), 1);
        for minute in 30..90 {
            host.percent = if minute % 3 == 0 { 1.0 } else { 20.0 };
            host.pass(MINUTE * minute);
            let step = target.decide(MINUTE * minute, &host.reading);
            assert!(!matches!(step, KsmStep::SwitchOff(_)), "{minute}: {step:?}");
        }
    }

    #[test]
    fn without_anything_to_merge_it_ends_after_ten_minutes() {
        let log = run(&mut Host::new(0, 0.0), &mut target(), 60);
        let [(0, true, _), (10, false, why)] = &log[..] else { panic!("{log:?}") };
        assert!(why.starts_with("no program offers memory"), "{why}");
    }

    #[test]
    fn what_others_do_is_left_alone() {
        let others = [
            KsmReading { run: None, ..KsmReading::default() },
            KsmReading { run: Some(1), ..KsmReading::default() },
            KsmReading { run: Some(2), ..KsmReading::default() },
            KsmReading { run: Some(0), manager: Some("ksmtuned"), ..KsmReading::default() },
        ];
        for reading in others {
            let step = target().decide(MINUTE, &reading);
            assert!(matches!(step, KsmStep::LeaveAlone(_)), "{reading:?}: {step:?}");
        }
        let (mut host, mut target) = (Host::new(200 * MIB, 1.0), target());
        run(&mut host, &mut target, 30);
        host.reading.run = Some(0);
        let log = run(&mut host, &mut target, 60);
        assert_eq!(log[0].2, "somebody else has switched it off");
        assert_eq!(log.len(), 1, "it is not switched on against somebody's will: {log:?}");
    }
}
