// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When a cgroup is aged: if its files refault much, although the kernel adds no generation to it.
//!
//! Refaults are read in each interval, which is cheap. Generations are read only while there are many
//! refaults, because the kernel prints those of all cgroups. So a cgroup is aged at the earliest after
//! two intervals with many refaults. How often it is then aged, and when that ends because refaults
//! fell or did not fall, is up to the action (`pagewise_apply::aging`); here is how often that may
//! begin.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use pagewise_model::{AgingEnd, RefaultCounters, Refaults};

use crate::config::AgingSettings;

const HOUR: Duration = Duration::from_secs(3600);
/// The longest pause after agings that did not help.
const LONGEST_PAUSE: Duration = Duration::from_secs(86_400);
/// At most this many agings in one run: the action ends after four that change nothing.
const MOST_IN_A_RUN: u32 = 6;

/// The number of the youngest generation, by path of the cgroup and NUMA node.
pub type Youngest = BTreeMap<(String, u32), u64>;

/// What is to be done about a cgroup after a reading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AgingStep {
    /// Nothing: there is no earlier reading to compare with.
    FirstReading,
    /// Nothing: files have few refaults; how many per second.
    FewRefaults(f64),
    /// Nothing yet: there are many refaults per second; in the next interval, the generations show
    /// whether the kernel ages the cgroup.
    Confirming(f64),
    /// Nothing: the kernel added a generation in this interval.
    KernelAges(f64),
    /// Nothing: the cgroup was aged as often as is allowed in an hour.
    HourSpent,
    /// Nothing: the last agings did not help; how long the pause still lasts.
    Paused(Duration),
    /// Age it at most this often.
    Age {
        /// The largest number of agings.
        times: u32,
        /// Refaults of files per second that are the reason.
        per_second: f64,
    },
}

#[derive(Debug, Clone)]
struct Look {
    at: Duration,
    counters: RefaultCounters,
    youngest: Option<Youngest>,
}

/// A cgroup that the user named, and what was read of it.
#[derive(Debug, Clone)]
pub struct AgingTarget {
    settings: AgingSettings,
    /// When it was aged, oldest first; none is older than an hour.
    aged: VecDeque<Duration>,
    last: Option<Look>,
    /// When the next reading is due.
    next: Duration,
    paused_until: Option<Duration>,
    /// How many runs of agings in a row did not help.
    in_vain: u32,
}

impl AgingTarget {
    /// A cgroup that was not read yet.
    pub fn new(settings: AgingSettings) -> Self {
        let (aged, next) = (VecDeque::new(), Duration::ZERO);
        Self { settings, aged, last: None, next, paused_until: None, in_vain: 0 }
    }

    /// Takes other settings; what was done and read stays.
    pub fn set(&mut self, settings: AgingSettings) {
        self.settings = settings;
    }

    /// Adds agings that were done this long before the agent was started, by it or by `pagewise age`.
    pub fn add_earlier(&mut self, ages: impl IntoIterator<Item = Duration>) {
        // the time before the start has no number here: an aging counts for what is left of its hour
        let earlier = ages.into_iter().filter(|age| *age < HOUR).count();
        self.aged.extend(std::iter::repeat_n(Duration::ZERO, earlier));
    }

    /// Whether it is time for a reading.
    pub fn is_due(&self, now: Duration) -> bool {
        now >= self.next
    }

    /// How often it was aged in the last hour.
    pub fn agings_in_hour(&self, now: Duration) -> u32 {
        let recent = self.aged.iter().filter(|at| now.saturating_sub(**at) < HOUR).count();
        u32::try_from(recent).unwrap_or(u32::MAX)
    }

    /// Decides by a reading of the refaults. `youngest` is called if the generations are needed.
    ///
    /// # Errors
    /// The error of `youngest`: then nothing is to be done.
    pub fn decide<E>(
        &mut self,
        now: Duration,
        counters: RefaultCounters,
        youngest: impl FnOnce() -> Result<Youngest, E>,
    ) -> Result<AgingStep, E> {
        self.next = now + self.settings.interval;
        let last = self.last.replace(Look { at: now, counters, youngest: None });
        if let Some(until) = self.paused_until.filter(|until| *until > now) {
            return Ok(AgingStep::Paused(until.saturating_sub(now)));
        }
        let left = self.settings.agings_per_hour.saturating_sub(self.agings_in_hour(now));
        if left == 0 {
            return Ok(AgingStep::HourSpent);
        }
        let Some(last) = last else { return Ok(AgingStep::FirstReading) };
        let seconds = now.saturating_sub(last.at).as_secs_f64();
        let per_second = Refaults::between(&last.counters, &counters, seconds).file_per_second();
        if per_second < self.settings.refaults_per_second {
            return Ok(AgingStep::FewRefaults(per_second));
        }
        let found = youngest()?;
        let step = match &last.youngest {
            None => AgingStep::Confirming(per_second),
            Some(before) if has_risen(before, &found) => AgingStep::KernelAges(per_second),
            Some(_) => AgingStep::Age { times: left.min(MOST_IN_A_RUN), per_second },
        };
        self.last = Some(Look { at: now, counters, youngest: Some(found) });
        Ok(step)
    }

    /// Records that the refaults could not be read: the next reading has none to compare with.
    pub fn skip(&mut self, now: Duration) {
        self.last = None;
        self.next = now + self.settings.interval;
    }

    /// Records that a run aged the cgroup `times` times and ended for this reason.
    pub fn finish(&mut self, now: Duration, times: u32, end: AgingEnd) {
        self.aged.retain(|at| now.saturating_sub(*at) < HOUR);
        self.aged.extend(std::iter::repeat_n(now, times as usize));
        // what was read before the agings cannot be compared with what comes
        self.skip(now);
        match end {
            AgingEnd::Fell => self.in_vain = 0,
            AgingEnd::DidNotFall => {
                let pause = HOUR.saturating_mul(1 << self.in_vain.min(8)).min(LONGEST_PAUSE);
                self.in_vain = self.in_vain.saturating_add(1);
                self.paused_until = Some(now + pause);
            }
            AgingEnd::FewRefaults | AgingEnd::Budget | AgingEnd::Stopped => {}
        }
    }
}

/// Whether a generation was added to one of the cgroups and nodes that are in both readings.
fn has_risen(before: &Youngest, now: &Youngest) -> bool {
    now.iter().any(|(place, number)| before.get(place).is_some_and(|earlier| number > earlier))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn settings() -> AgingSettings {
        AgingSettings { is_on: true, ..AgingSettings::default() }
    }

    fn counters(file: u64) -> RefaultCounters {
        RefaultCounters { file, anon: 0, swap: None }
    }

    fn youngest(number: u64) -> Result<Youngest, ()> {
        Ok(BTreeMap::from([(("/a".to_owned(), 0), number)]))
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn many_refaults_in_two_intervals_without_a_new_generation_are_a_reason() {
        let mut target = AgingTarget::new(settings());
        assert_eq!(target.decide(at(0), counters(0), || youngest(3)), Ok(AgingStep::FirstReading));
        assert!(!target.is_due(at(9)) && target.is_due(at(10)));
        let second = target.decide(at(10), counters(1000), || youngest(3));
        assert_eq!(second, Ok(AgingStep::Confirming(100.0)));
        let third = target.decide(at(20), counters(3000), || youngest(3));
        assert_eq!(third, Ok(AgingStep::Age { times: 6, per_second: 200.0 }));
    }

    #[test]
    fn a_group_that_the_kernel_ages_or_that_has_few_refaults_is_left_alone() {
        let mut target = AgingTarget::new(settings());
        let never = || -> Result<Youngest, ()> { panic!("few refaults need no generations") };
        target.decide(at(0), counters(0), never).unwrap();
        let few = target.decide(at(10), counters(100), never);
        assert_eq!(few, Ok(AgingStep::FewRefaults(10.0)));
        target.decide(at(20), counters(1100), || youngest(3)).unwrap();
        let aged = target.decide(at(30), counters(2100), || youngest(4));
        assert_eq!(aged, Ok(AgingStep::KernelAges(100.0)));
        // a group below it that is new says nothing
        let new = || -> Result<Youngest, ()> {
            Ok(BTreeMap::from([(("/a".to_owned(), 0), 4), (("/a/b".to_owned(), 0), 9)]))
        };
        let step = target.decide(at(40), counters(3100), new);
        assert!(matches!(step, Ok(AgingStep::Age { .. })), "{step:?}");
    }

    #[test]
    fn an_error_is_no_reason_to_age() {
        let mut target = AgingTarget::new(settings());
        target.decide(at(0), counters(0), || youngest(3)).unwrap();
        assert_eq!(target.decide(at(10), counters(9000), || Err("locked")), Err("locked"));
        let next = target.decide(at(20), counters(18_000), || youngest(3));
        assert!(matches!(next, Ok(AgingStep::Confirming(_))), "{next:?}");
        // counters of a new group of the same name
        let anew = target.decide(at(30), counters(5), || youngest(3));
        assert_eq!(anew, Ok(AgingStep::FewRefaults(0.0)));
    }

    #[test]
    fn pauses_double_until_agings_help() {
        let mut target = AgingTarget::new(settings());
        let mut now = at(0);
        for hours in [1, 2, 4, 8, 16, 24, 24] {
            target.finish(now, 4, AgingEnd::DidNotFall);
            let pause = HOUR * hours;
            let step = target.decide(now, counters(0), || youngest(0));
            assert_eq!(step, Ok(AgingStep::Paused(pause)));
            now += pause;
            let step = target.decide(now, counters(0), || youngest(0));
            assert_eq!(step, Ok(AgingStep::FewRefaults(0.0)));
        }
        target.finish(now, 1, AgingEnd::Fell);
        target.finish(now, 1, AgingEnd::DidNotFall);
        let step = target.decide(now, counters(0), || youngest(0));
        assert_eq!(step, Ok(AgingStep::Paused(HOUR)));
    }

    #[test]
    fn agings_before_the_start_count() {
        let mut target = AgingTarget::new(settings());
        target.add_earlier([at(10), at(3599), at(3600), at(90_000)]);
        assert_eq!(target.agings_in_hour(at(0)), 2);
        assert_eq!(target.agings_in_hour(at(3600)), 0);
    }

    /// What a kernel could print in an interval: its length, refaults, and whether a generation was
    /// added; and how a run of agings would end.
    fn any_interval() -> impl Strategy<Value = (u64, u64, bool, u32, AgingEnd)> {
        let end = prop_oneof![
            Just(AgingEnd::Fell),
            Just(AgingEnd::DidNotFall),
            Just(AgingEnd::Budget),
            Just(AgingEnd::FewRefaults),
            Just(AgingEnd::Stopped)
        ];
        (1u64..400, 0u64..40_000, any::<bool>(), 0u32..=6, end)
    }

    proptest! {
        /// In no hour there are more agings than allowed; a cgroup is aged only in an interval with
        /// enough refaults and without a new generation, that follows one with enough refaults, and
        /// never within an hour after agings that did not help.
        #[test]
        fn a_simulated_time_keeps_the_bounds(
            agings_per_hour in 1u32..20,
            intervals in proptest::collection::vec(any_interval(), 1..400),
        ) {
            let mut target = AgingTarget::new(AgingSettings { agings_per_hour, ..settings() });
            let (mut now, mut file, mut number) = (0u64, 0u64, 0u64);
            let mut history: Vec<u64> = Vec::new();
            // what the naive oracle knows: rates of this and the last interval since the last run
            let mut was_many = None;
            let mut in_vain = None;
            target.decide(at(0), counters(0), || youngest(0)).unwrap();
            for (seconds, refaults, is_aged, done, end) in intervals {
                now += seconds;
                file += refaults;
                number += u64::from(is_aged);
                let is_many = refaults as f64 / seconds as f64 >= 50.0;
                let step = target.decide(at(now), counters(file), || youngest(number)).unwrap();
                if let AgingStep::Age { times, .. } = step {
                    prop_assert!(is_many && !is_aged && was_many == Some(true));
                    prop_assert!(in_vain.is_none_or(|since| now - since >= 3600));
                    prop_assert!((1..=6).contains(&times));
                    let done = done.min(times);
                    history.extend((0..done).map(|_| now));
                    target.finish(at(now), done, end);
                    if end == AgingEnd::DidNotFall {
                        in_vain = Some(now);
                    }
                    was_many = None;
                } else {
                    was_many = Some(is_many && matches!(step, AgingStep::Confirming(_) | AgingStep::KernelAges(_)));
                }
                let recent = history.iter().filter(|then| now - **then < 3600).count();
                prop_assert!(recent <= agings_per_hour as usize, "{recent} in an hour");
            }
        }
    }
}
