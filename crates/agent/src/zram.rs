// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When the unused pages of a zram device are recompressed, and written to its backing device.
//!
//! Nothing in the kernel does that by itself. If the kernel keeps the time of the last access of each
//! page, it marks the pages that were unused for long enough, and each round acts on these. Otherwise
//! it can only mark all pages, and removes the mark of a page that is used: then a round acts on the
//! pages whose mark is as old as required, and marks all again.
//!
//! A page that was recompressed loses its mark. So a page is first recompressed, and written only if
//! it is still unused in a later round.

use std::time::Duration;

use pagewise_model::Bytes;

/// What a zram device may do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ZramSettings {
    /// False if a later file switches off what an earlier one switched on.
    pub is_on: bool,
    /// How long a page must be unused.
    pub idle_after: Duration,
    /// Whether unused pages are recompressed if the device has an algorithm for it.
    pub recompresses: bool,
    /// Bytes that may be written to the backing device per day; zero: none is.
    pub flash_per_day: Bytes,
    /// Time between two rounds.
    pub interval: Duration,
}

impl Default for ZramSettings {
    fn default() -> Self {
        Self {
            is_on: true,
            idle_after: Duration::from_secs(3600),
            recompresses: true,
            flash_per_day: Bytes::new(0),
            interval: Duration::from_secs(300),
        }
    }
}

/// What was read of a device before a round.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ZramReading {
    /// Names the device as it was set up in this boot.
    pub epoch: String,
    /// Priorities of the algorithms for recompression.
    pub priorities: Vec<u32>,
    /// Why it cannot write to a backing device; `None` if it can.
    pub no_writeback: Option<String>,
}

/// What is to be done about a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ZramStep {
    /// Nothing can be done: why.
    Nothing(String),
    /// The time since all pages were marked is too short: how long it will still take.
    Wait(Duration),
    /// Do this.
    Round(ZramRound),
}

/// What is done in a round, in the order of the fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ZramRound {
    /// Let the kernel mark the pages that were unused for this long, before anything else.
    pub mark_by_age: Option<Duration>,
    /// Recompress marked pages with the algorithms of these priorities.
    pub recompress: Vec<u32>,
    /// Write marked pages to the backing device.
    pub writes_back: bool,
    /// Mark all pages in the end.
    pub marks_all: bool,
}

/// A device that the user named, and what is known of it.
#[derive(Debug, Clone)]
pub struct ZramTarget {
    settings: ZramSettings,
    next: Duration,
    /// Whether the kernel marks by age; `None` before it was tried.
    takes_age: Option<bool>,
    /// When all pages were marked, and of which device.
    marked: Option<(String, Duration)>,
}

impl ZramTarget {
    /// A device that was not read yet.
    pub fn new(settings: ZramSettings) -> Self {
        Self { settings, next: Duration::ZERO, takes_age: None, marked: None }
    }

    /// Takes other settings; what is known stays.
    pub fn set(&mut self, settings: ZramSettings) {
        self.settings = settings;
    }

    /// Whether it is time for a round.
    pub fn is_due(&self, now: Duration) -> bool {
        now >= self.next
    }

    /// Decides what this round does.
    pub fn decide(&mut self, now: Duration, reading: &ZramReading) -> ZramStep {
        self.next = now + self.settings.interval;
        let is_wanted = self.settings.flash_per_day.get() > 0;
        let writes_back = is_wanted && reading.no_writeback.is_none();
        let recompress =
            if self.settings.recompresses { reading.priorities.clone() } else { Vec::new() };
        if recompress.is_empty() && !writes_back {
            return ZramStep::Nothing(self.describe_nothing(reading));
        }
        let round = ZramRound { recompress, writes_back, ..ZramRound::default() };
        if self.takes_age != Some(false) {
            return ZramStep::Round(ZramRound {
                mark_by_age: Some(self.settings.idle_after),
                ..round
            });
        }
        let marked = self.marked.as_ref().filter(|(epoch, _)| *epoch == reading.epoch);
        match marked.map(|(_, at)| now.saturating_sub(*at)) {
            None => ZramStep::Round(ZramRound { marks_all: true, ..ZramRound::default() }),
            Some(age) if age < self.settings.idle_after => {
                let left = self.settings.idle_after - age;
                self.next = now + left.min(self.settings.interval);
                ZramStep::Wait(left)
            }
            Some(_) => ZramStep::Round(ZramRound { marks_all: true, ..round }),
        }
    }

    fn describe_nothing(&self, reading: &ZramReading) -> String {
        let recompression = if !self.settings.recompresses {
            "recompression is switched off"
        } else {
            "it has no algorithm for recompression"
        };
        let writeback = match &reading.no_writeback {
            _ if self.settings.flash_per_day.get() == 0 => "flash_per_day allows no writeback",
            Some(why) => why,
            None => "",
        };
        format!("{recompression}, and {writeback}")
    }

    /// Records that the kernel marked pages by age, or that it cannot: then the next round is due at
    /// once.
    pub fn learn(&mut self, now: Duration, takes_age: bool) {
        self.takes_age = Some(takes_age);
        if !takes_age {
            self.next = now;
        }
    }

    /// Records that all pages of the device were marked.
    pub fn mark(&mut self, now: Duration, epoch: &str) {
        self.marked = Some((epoch.to_owned(), now));
    }

    /// Records that the round was not completed, so that the next one is due at once.
    pub fn leave_unfinished(&mut self, now: Duration) {
        self.next = now;
    }

    /// Records that the device could not be read: the next reading is due after the interval.
    pub fn skip(&mut self, now: Duration) {
        self.next = now + self.settings.interval;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn settings() -> ZramSettings {
        ZramSettings { flash_per_day: Bytes::new(1 << 30), ..ZramSettings::default() }
    }

    fn reading(priorities: &[u32]) -> ZramReading {
        ZramReading {
            epoch: "boot/7".to_owned(),
            priorities: priorities.to_vec(),
            no_writeback: None,
        }
    }

    #[test]
    fn a_kernel_that_keeps_ages_marks_by_age_in_each_round() {
        let mut target = ZramTarget::new(settings());
        for now in [0, 300] {
            assert!(
                target.is_due(at(now)) && !target.is_due(at(now).saturating_sub(at(1))) || now == 0
            );
            let expected = ZramRound {
                mark_by_age: Some(at(3600)),
                recompress: vec![1, 2],
                writes_back: true,
                marks_all: false,
            };
            assert_eq!(target.decide(at(now), &reading(&[1, 2])), ZramStep::Round(expected));
            target.learn(at(now), true);
        }
        target.leave_unfinished(at(301));
        assert!(target.is_due(at(301)));
    }

    #[test]
    fn without_ages_pages_are_written_when_their_mark_is_old_enough() {
        let mut target = ZramTarget::new(settings());
        target.decide(at(0), &reading(&[]));
        target.learn(at(0), false);
        assert!(target.is_due(at(0)));
        let mark = ZramRound { marks_all: true, ..ZramRound::default() };
        assert_eq!(target.decide(at(1), &reading(&[])), ZramStep::Round(mark.clone()));
        target.mark(at(1), "boot/7");
        assert_eq!(target.decide(at(301), &reading(&[])), ZramStep::Wait(at(3300)));
        assert_eq!(target.decide(at(3500), &reading(&[])), ZramStep::Wait(at(101)));
        assert!(!target.is_due(at(3600)) && target.is_due(at(3601)));
        let round = ZramRound { writes_back: true, marks_all: true, ..ZramRound::default() };
        assert_eq!(target.decide(at(3601), &reading(&[])), ZramStep::Round(round));
        // the device was removed, and another one has its name
        let other = ZramReading { epoch: "boot/8".to_owned(), ..reading(&[]) };
        assert_eq!(target.decide(at(9000), &other), ZramStep::Round(mark));
    }

    #[test]
    fn what_cannot_be_done_is_said() {
        let mut none = reading(&[]);
        none.no_writeback = Some("it has no backing device".to_owned());
        let said = |settings: ZramSettings, reading: &ZramReading| match ZramTarget::new(settings)
            .decide(at(0), reading)
        {
            ZramStep::Nothing(why) => why,
            step => panic!("{step:?}"),
        };
        assert_eq!(
            said(settings(), &none),
            "it has no algorithm for recompression, and it has no backing device"
        );
        let off = ZramSettings { recompresses: false, ..ZramSettings::default() };
        assert_eq!(
            said(off, &reading(&[1])),
            "recompression is switched off, and flash_per_day allows no writeback"
        );
    }

    proptest! {
        /// Against a model of pages: without ages, no page is written that was used within
        /// `idle_after`.
        #[test]
        fn only_what_was_unused_long_enough_is_written(
            accesses in proptest::collection::vec((0usize..4, 1u64..2000), 1..200),
        ) {
            let mut target = ZramTarget::new(settings());
            target.learn(at(0), false);
            let (mut now, mut used, mut is_marked) = (0, [0u64; 4], [false; 4]);
            for (page, gap) in accesses {
                now += gap;
                if target.is_due(at(now)) {
                    if let ZramStep::Round(round) = target.decide(at(now), &reading(&[])) {
                        for page in (0..4).filter(|_| round.writes_back) {
                            prop_assert!(!is_marked[page] || now - used[page] >= 3600);
                        }
                        prop_assert!(round.marks_all);
                        is_marked = [true; 4];
                        target.mark(at(now), "boot/7");
                    }
                }
                used[page] = now;
                is_marked[page] = false;
            }
        }
    }
}
