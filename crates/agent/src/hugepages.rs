// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When the anonymous memory of a cgroup is collapsed into huge pages.
//!
//! Huge pages fall apart: after a fork, for example, each write to memory that both processes share
//! splits one. So the counters of the cgroup are read again and again, and a run begins whenever too
//! little of its memory is in huge pages. Which blocks a run collapses, and what stops it, is decided by
//! `pagewise_hugepages`.

use std::time::Duration;

use pagewise_model::Bytes;

/// After runs without a result, the next one follows after at most this.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
/// If coverage differs by so many percentage points from that after the last run, something has changed.
const CHANGED_POINTS: f64 = 5.0;
/// With less anonymous memory than so many huge pages, too few blocks are full.
const FEWEST_BLOCKS: u64 = 8;

/// How the memory of a cgroup is collapsed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HugepagesSettings {
    /// False if a later file switches off what an earlier one switched on.
    pub is_on: bool,
    /// By how much collapses may make the cgroup grow.
    pub max_growth: Bytes,
    /// If so many percent of the anonymous memory are in huge pages, nothing is done.
    pub coverage_percent: f64,
    /// Time between two readings.
    pub interval: Duration,
}

impl Default for HugepagesSettings {
    fn default() -> Self {
        Self {
            is_on: true,
            max_growth: Bytes::new(8 << 20),
            coverage_percent: 90.0,
            interval: Duration::from_secs(60),
        }
    }
}

/// Counters of a cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HugepagesReading {
    /// Its anonymous memory.
    pub anon: Bytes,
    /// The part of it that is in huge pages.
    pub huge: Bytes,
    /// Size of a huge page.
    pub block: Bytes,
}

impl HugepagesReading {
    /// The share of the anonymous memory that is in huge pages, in percent; zero without such memory.
    pub fn coverage_percent(&self) -> f64 {
        let anon = self.anon.get();
        if anon == 0 { 0.0 } else { self.huge.get() as f64 / anon as f64 * 100.0 }
    }
}

/// What is to be done about a cgroup.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HugepagesStep {
    /// It has too little anonymous memory.
    Little,
    /// Enough of it is in huge pages: how many percent.
    Covered(f64),
    /// The last runs collapsed nothing: how long the pause still takes.
    Paused(Duration),
    /// A run should begin.
    Collapse,
}

/// A cgroup that the user named, and what is known of it.
#[derive(Debug, Clone)]
pub struct HugepagesTarget {
    settings: HugepagesSettings,
    next: Duration,
    /// Number of runs in a row that collapsed nothing.
    in_vain: u32,
    /// Until when no run begins, and the coverage after the last one.
    paused: Option<(Duration, f64)>,
}

impl HugepagesTarget {
    /// A cgroup that was not read yet.
    pub fn new(settings: HugepagesSettings) -> Self {
        Self { settings, next: Duration::ZERO, in_vain: 0, paused: None }
    }

    /// Takes other settings; what is known stays.
    pub fn set(&mut self, settings: HugepagesSettings) {
        self.settings = settings;
    }

    /// Whether it is time to read it.
    pub fn is_due(&self, now: Duration) -> bool {
        now >= self.next
    }

    /// Records that nothing was read or may be done.
    pub fn skip(&mut self, now: Duration) {
        self.next = now + self.settings.interval;
    }

    /// Decides what is done after this reading.
    pub fn decide(&mut self, now: Duration, reading: &HugepagesReading) -> HugepagesStep {
        self.skip(now);
        if reading.anon.get() < reading.block.get().saturating_mul(FEWEST_BLOCKS) {
            return HugepagesStep::Little;
        }
        let coverage = reading.coverage_percent();
        if coverage >= self.settings.coverage_percent {
            return HugepagesStep::Covered(coverage);
        }
        match self.paused {
            Some((until, before)) if now < until && !has_changed(before, coverage) => {
                HugepagesStep::Paused(until.saturating_sub(now))
            }
            _ => HugepagesStep::Collapse,
        }
    }

    /// Records that a run collapsed so many blocks, and the counters after it. `has_shared` if it left out
    /// blocks that another process shares, because these can be collapsed as soon as that process ends.
    pub fn finish(
        &mut self,
        now: Duration,
        collapsed: u64,
        has_shared: bool,
        after: &HugepagesReading,
    ) {
        self.skip(now);
        if collapsed > 0 {
            self.in_vain = 0;
            self.paused = None;
        } else {
            let doubled = if has_shared { 0 } else { self.in_vain.min(8) };
            let pause = self.settings.interval.saturating_mul(1 << doubled).min(LONGEST_PAUSE);
            self.in_vain = if has_shared { 0 } else { self.in_vain.saturating_add(1) };
            self.paused = Some((now + pause, after.coverage_percent()));
        }
    }
}

fn has_changed(before: f64, coverage: f64) -> bool {
    (before - coverage).abs() >= CHANGED_POINTS
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn reading(anon: u64, huge: u64) -> HugepagesReading {
        let mib = |mib: u64| Bytes::new(mib * MIB);
        HugepagesReading { anon: mib(anon), huge: mib(huge), block: mib(2) }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_run_begins_if_too_little_is_in_huge_pages() {
        let mut target = HugepagesTarget::new(HugepagesSettings::default());
        assert!(target.is_due(at(0)));
        assert_eq!(target.decide(at(0), &reading(15, 0)), HugepagesStep::Little);
        assert!(!target.is_due(at(59)) && target.is_due(at(60)));
        assert_eq!(target.decide(at(60), &reading(100, 90)), HugepagesStep::Covered(90.0));
        assert_eq!(target.decide(at(120), &reading(100, 89)), HugepagesStep::Collapse);
        target.finish(at(121), 40, true, &reading(100, 95));
        assert_eq!(target.decide(at(181), &reading(100, 89)), HugepagesStep::Collapse);
    }

    #[test]
    fn runs_in_vain_become_rarer_until_coverage_falls() {
        let mut target = HugepagesTarget::new(HugepagesSettings::default());
        let mut now = at(0);
        for minutes in [1, 2, 4, 8, 16, 32, 60, 60] {
            assert_eq!(target.decide(now, &reading(100, 50)), HugepagesStep::Collapse);
            target.finish(now, 0, false, &reading(100, 50));
            let pause = at(60 * minutes);
            let step = target.decide(now, &reading(100, 46));
            assert_eq!(step, HugepagesStep::Paused(pause));
            now += pause;
        }
        target.finish(now, 0, false, &reading(100, 50));
        // a fork: much of it fell apart
        assert_eq!(target.decide(now + at(60), &reading(100, 45)), HugepagesStep::Collapse);
    }

    #[test]
    fn blocks_that_a_fork_shares_are_tried_again_soon() {
        let mut target = HugepagesTarget::new(HugepagesSettings::default());
        for minute in 0..10 {
            assert_eq!(target.decide(at(minute * 60), &reading(100, 9)), HugepagesStep::Collapse);
            target.finish(at(minute * 60), 0, true, &reading(100, 9));
        }
    }

    proptest! {
        /// No run begins while enough is in huge pages; and of runs without a result, while nothing
        /// changes, at most 14 begin in the first hour, and then one each hour.
        #[test]
        fn runs_in_vain_are_few(anon in 16u64..10_000, percent in 0u64..100, hours in 1u64..30) {
            let mut target = HugepagesTarget::new(HugepagesSettings::default());
            let counters = reading(anon, anon * percent / 100);
            let mut runs = 0;
            for minute in 0..hours * 60 {
                let step = target.decide(at(minute * 60), &counters);
                prop_assert_eq!(
                    matches!(step, HugepagesStep::Covered(_)),
                    counters.coverage_percent() >= 90.0
                );
                if step == HugepagesStep::Collapse {
                    runs += 1;
                    target.finish(at(minute * 60), 0, false, &counters);
                }
            }
            prop_assert!(runs <= 7 + hours, "{runs} runs in {hours} hours");
        }
    }
}
