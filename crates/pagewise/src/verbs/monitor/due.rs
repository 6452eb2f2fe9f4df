// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides whether a reading is due, and how much of the machine it reads ([`Extent`]): everything
//! once a minute, what changes often at the interval of `--every`, and a part of that every second
//! while memory is short.

use std::path::Path;
use std::time::{Duration, Instant};

use pagewise_model::{Bytes, Cgroups, Limit, Micros, Name};
use pagewise_observe::{CgroupCounters, HostGauges, HostRoot};

/// If some task waited for memory for longer than this within a second, memory is short.
const WAITED: Duration = Duration::from_millis(50);
/// How long readings stay frequent after memory was last short.
const LINGERS: Duration = Duration::from_secs(30);
/// How often configuration files, features of the kernel and journald's files are read.
const COMPLETE: Duration = Duration::from_secs(60);
/// The shortest time between two complete readings, even if processes are killed again and again.
const SHORTEST: Duration = Duration::from_secs(10);
/// The shortest time between two readings while memory is short.
const FREQUENT: Duration = Duration::from_millis(900);
/// Readings become frequent if, at the pace since the glance before, no memory would be available after this time: a
/// leak on a machine without swap makes no task wait until its last second.
const EXHAUSTED_WITHIN: Duration = Duration::from_secs(20);
/// Number of cgroups with a limit that are read every second: those nearest to their limits.
const WATCHED_GROUPS: usize = 8;
/// A reading may be taken this much before it is due; otherwise it would be up to one tick late.
const SLACK: Duration = Duration::from_millis(500);

/// How much of the machine a reading reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// Everything that metrics and findings need.
    Complete,
    /// Everything but configuration files, features of the kernel and logs; while memory was not short for a
    /// while, also without the processes and cgroups that sleep.
    Usual { calm: bool },
    /// The host as a whole, cgroups and the largest processes; also the kernel log if something was
    /// killed.
    Part { killed: bool },
}

/// The cgroups whose limits are nearest. The kernel kills in a cgroup at its limit without any shortage of the host.
#[derive(Debug, Default)]
pub(super) struct LimitedGroups {
    /// The mount point of the memory cgroups, and whether they are version 2; `None` if there are none.
    mount: Option<(String, bool)>,
    groups: Vec<(Name, Bytes, CgroupCounters)>,
}

impl LimitedGroups {
    pub(super) fn new(mount: Option<(String, bool)>) -> Self {
        Self { mount, groups: Vec::new() }
    }

    /// Chooses the groups with the least memory below their limit at the last reading.
    pub(super) fn choose(&mut self, cgroups: &Cgroups) {
        let Some((mount, unified)) = &self.mount else { return };
        let limited = cgroups.groups.iter().filter_map(|group| {
            let Limit::Bytes(limit) = *group.max.value()? else { return None };
            Some((limit.saturating_sub(group.current.get()?), limit, &group.path))
        });
        let mut limited: Vec<(Bytes, Bytes, &Name)> = limited.collect();
        limited.sort_unstable();
        let nearest = limited.into_iter().take(WATCHED_GROUPS).map(|(_, limit, path)| {
            let folder = format!("{mount}{path}");
            (path.clone(), limit, CgroupCounters::new(Path::new(&folder), *unified))
        });
        self.groups = nearest.collect();
    }

    /// What the processes of each group can still take before its limit, in bytes. Page cache is not counted as used,
    /// because the kernel drops it first: a group that reads files is always near its limit.
    fn left(&self, host: &HostRoot) -> Vec<(Name, u64)> {
        let left = self.groups.iter().filter_map(|(path, limit, counters)| {
            let used = counters.usage(host)?.saturating_sub(counters.page_cache(host)?);
            Some((path.clone(), limit.saturating_sub(used).get()))
        });
        left.collect()
    }
}

/// The counters that are read every second.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Glance {
    /// Microseconds for which some task waited for memory; `None` if the kernel does not say.
    stalled: Option<u64>,
    /// Processes that the kernel killed for lack of memory.
    kills: Option<u64>,
    /// Bytes that programs can still take without swapping (`MemAvailable`).
    available: Option<u64>,
    /// Bytes that the processes of a cgroup can still take before its limit.
    left_in_groups: Vec<(Name, u64)>,
}

impl Glance {
    pub(super) fn take(host: &HostRoot, groups: &LimitedGroups) -> Self {
        let gauges = HostGauges(host);
        Self {
            stalled: gauges.memory_wait().map(Micros::get),
            kills: gauges.oom_kills(),
            available: gauges.available().map(Bytes::get),
            left_in_groups: groups.left(host),
        }
    }

    fn shows_kill_since(&self, before: &Self) -> bool {
        self.kills.zip(before.kills).is_some_and(|(now, then)| now > then)
    }

    /// Whether tasks waited for memory since the previous glance, which was taken `passed` ago.
    fn shows_stall_since(&self, before: &Self, passed: Duration) -> bool {
        let grown = self.stalled.zip(before.stalled).map(|(now, then)| now.saturating_sub(then));
        let limit = WAITED.mul_f64(passed.as_secs_f64().max(1.0));
        grown.map(Duration::from_micros).is_some_and(|waited| waited > limit)
    }

    /// Whether memory that programs can still take fell since the glance before, which was `passed` ago, so fast that
    /// none would be left after [`EXHAUSTED_WITHIN`]: on the host, or below the limit of a cgroup.
    fn shows_fall_since(&self, before: &Self, passed: Duration) -> bool {
        let falls = |now: u64, then: u64| {
            let pace = then.saturating_sub(now) as f64 / passed.as_secs_f64().max(1.0);
            pace > 0.0 && now as f64 <= pace * EXHAUSTED_WITHIN.as_secs_f64()
        };
        let then = |path: &Name| before.left_in_groups.iter().find(|(known, _)| known == path);
        self.available.zip(before.available).is_some_and(|(now, then)| falls(now, then))
            || self
                .left_in_groups
                .iter()
                .any(|(path, now)| then(path).is_some_and(|(_, then)| falls(*now, *then)))
    }
}

/// When the last readings were taken, and when memory was last short.
#[derive(Debug)]
pub(super) struct Due {
    every: Duration,
    complete: Option<Instant>,
    /// When metrics were last computed: at a complete or a usual reading.
    judged: Option<Instant>,
    /// When the last reading of any extent was taken.
    last: Option<Instant>,
    trouble: Option<Instant>,
    glance: Option<(Instant, Glance)>,
    /// Whether a process was killed since the last reading of the kernel log.
    killed: bool,
}

impl Due {
    pub(super) fn new(every: Duration) -> Self {
        Self {
            every,
            complete: None,
            judged: None,
            last: None,
            trouble: None,
            glance: None,
            killed: false,
        }
    }

    /// The extent of the reading that is due now; `None` if none is due.
    pub(super) fn find_due(&mut self, now: Instant, glance: Glance) -> Option<Extent> {
        if let Some((then, before)) = &self.glance {
            self.killed |= glance.shows_kill_since(before);
            let passed = now.saturating_duration_since(*then);
            let is_short =
                glance.shows_stall_since(before, passed) || glance.shows_fall_since(before, passed);
            if self.killed || is_short {
                self.trouble = Some(now);
            }
        }
        self.glance = Some((now, glance));
        let is_past = |then: Option<Instant>, time: Duration| {
            then.is_none_or(|then| now.saturating_duration_since(then) + SLACK >= time)
        };
        // a PSI trigger wakes the monitor in the middle of a second
        let is_early = self.last.is_some_and(|then| now.saturating_duration_since(then) < FREQUENT);
        let killed = self.killed;
        let is_short_of_late =
            self.trouble.is_some_and(|then| now.saturating_duration_since(then) < LINGERS);
        if self.complete.is_none() || killed && is_past(self.complete, SHORTEST) {
            Some(Extent::Complete)
        } else if is_past(self.judged, self.every) {
            Some(if is_past(self.complete, COMPLETE) {
                Extent::Complete
            } else {
                Extent::Usual { calm: !is_short_of_late }
            })
        } else if !is_early && is_short_of_late {
            Some(Extent::Part { killed })
        } else {
            None
        }
    }

    /// Notes that a reading of this extent was taken.
    pub(super) fn note_reading(&mut self, now: Instant, extent: Extent) {
        self.last = Some(now);
        match extent {
            Extent::Complete => {
                self.complete = Some(now);
                self.judged = Some(now);
                self.killed = false;
            }
            Extent::Usual { .. } => self.judged = Some(now),
            Extent::Part { killed } => self.killed &= !killed,
        }
    }

    /// Notes that the last reading showed that memory is short.
    pub(super) fn note_shortage(&mut self, now: Instant) {
        self.trouble = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use pagewise_model::{Cgroup, Reading, Source};
    use pagewise_observe::Entry;

    use super::*;

    fn glance(stalled_ms: u64, kills: u64) -> Glance {
        Glance {
            stalled: Some(stalled_ms * 1000),
            kills: Some(kills),
            available: Some(8 << 30),
            left_in_groups: Vec::new(),
        }
    }

    /// The seconds from 0 to 99 at which a reading is taken, and its extent, for these counters.
    fn taken(glances: impl Fn(u64) -> Glance) -> Vec<(u64, Extent)> {
        let begun = Instant::now();
        let mut due = Due::new(Duration::from_secs(10));
        let seconds = (0..100).filter_map(|second| {
            let now = begun + Duration::from_secs(second);
            let extent = due.find_due(now, glances(second))?;
            due.note_reading(now, extent);
            Some((second, extent))
        });
        seconds.collect()
    }

    const USUAL: Extent = Extent::Usual { calm: true };

    fn calm() -> Vec<(u64, Extent)> {
        let extent = |second| if second % 60 == 0 { Extent::Complete } else { USUAL };
        (0..100).step_by(10).map(|second| (second, extent(second))).collect()
    }

    #[test]
    fn a_calm_machine_is_read_every_ten_seconds_and_completely_once_a_minute() {
        assert_eq!(taken(|_| glance(0, 0)), calm());
        assert_eq!(taken(|second| glance(second * 40, 7)), calm());
        assert_eq!(taken(|_| Glance::default()), calm());
    }

    #[test]
    fn a_kill_is_read_at_once_with_its_report_and_then_every_second_for_half_a_minute() {
        let killed = taken(|second| glance(0, u64::from(second >= 13)));
        let part = Extent::Part { killed: false };
        assert_eq!(
            killed[..4],
            [(0, Extent::Complete), (10, USUAL), (13, Extent::Complete), (14, part)]
        );
        let seconds: Vec<u64> = killed.iter().map(|(second, _)| *second).collect();
        // the usual reading at 43 is due ten seconds after that at 33
        let expected: Vec<u64> =
            [0, 10].into_iter().chain(13..44).chain([53, 63, 73, 83, 93]).collect();
        assert_eq!(seconds, expected);
        // everything is read until memory has not been short for half a minute
        assert_eq!(killed[12], (23, Extent::Usual { calm: false }));
        assert_eq!(killed[killed.len() - 4..][..2], [(63, USUAL), (73, Extent::Complete)]);
    }

    /// If processes are killed every second, the kernel log is read every second, and everything
    /// else every ten seconds.
    #[test]
    fn kills_each_second_are_each_read_and_completely_every_ten_seconds() {
        let storm = taken(|second| glance(0, second));
        assert_eq!(storm.len(), 100);
        let complete: Vec<u64> =
            storm.iter().filter(|(_, it)| *it == Extent::Complete).map(|(at, _)| *at).collect();
        assert_eq!(complete, (0..100).step_by(10).collect::<Vec<_>>());
        assert!(storm[1..10].iter().all(|(_, it)| *it == Extent::Part { killed: true }));
    }

    #[test]
    fn waiting_is_read_at_once() {
        let waited = taken(|second| glance(if second >= 5 { 400 } else { 0 }, 0));
        let seconds: Vec<u64> = waited.iter().map(|(second, _)| *second).collect();
        assert_eq!(seconds[..4], [0, 5, 6, 7]);
    }

    #[test]
    fn memory_that_will_be_gone_within_twenty_seconds_is_read_every_second() {
        let falling = |pace: u64| {
            let glances = taken(move |second| {
                let left = 1000_u64.saturating_sub(pace * second.saturating_sub(12)).max(100);
                Glance { available: Some(left << 20), ..glance(0, 0) }
            });
            glances.into_iter().map(|(second, _)| second).collect::<Vec<u64>>()
        };
        // at 50 MiB a second, 950 MiB are left after a second and last for 19 s more
        assert_eq!(falling(50)[..5], [0, 10, 13, 14, 15]);
        // at 12 MiB a second there are 232 MiB left after 64 s
        assert_eq!(falling(12)[..10], [0, 10, 20, 30, 40, 50, 60, 70, 76, 77]);
    }

    #[test]
    fn a_group_whose_limit_is_reached_within_twenty_seconds_is_read_every_second() {
        let seconds = |left: &dyn Fn(u64) -> u64| {
            let glances = taken(|second| Glance {
                left_in_groups: vec![
                    (Name::from("/calm"), 1 << 20),
                    (Name::from("/app"), left(second)),
                ],
                ..glance(0, 0)
            });
            glances.into_iter().map(|(second, _)| second).collect::<Vec<u64>>()
        };
        let falling = seconds(&|second| (700 - 50 * second.clamp(3, 13)) << 20);
        assert_eq!(falling[..4], [0, 4, 5, 6]);
        let level: Vec<u64> = calm().iter().map(|(second, _)| *second).collect();
        assert_eq!(seconds(&|second| ((second % 2) << 30) + (30 << 30)), level);
    }

    /// The page cache of a group is not counted as used.
    #[test]
    fn what_is_left_below_a_limit_excludes_page_cache() {
        let file = |path: &str, text: &str| (path.to_owned(), Entry::File(text.into()));
        let host = HostRoot::memory([
            file("sys/fs/cgroup/app/memory.current", "83886080\n"),
            file(
                "sys/fs/cgroup/app/memory.stat",
                "anon 1048576\ninactive_file 41943040\nactive_file 20971520\n",
            ),
        ]);
        let group = |path: &str, max: Limit, current: u64| Cgroup {
            path: Name::from(path),
            max: Reading::found(max, Source::default()),
            current: Reading::found(Bytes::new(current << 20), Source::default()),
            ..Cgroup::default()
        };
        let limit = Limit::Bytes(Bytes::new(100 << 20));
        let groups =
            vec![group("/", Limit::Max, 500), group("/app", limit, 80), group("/gone", limit, 1)];
        let mut limited = LimitedGroups::new(Some(("/sys/fs/cgroup".to_owned(), true)));
        limited.choose(&Cgroups { groups, ..Cgroups::default() });
        assert_eq!(limited.left(&host), [(Name::from("/app"), 80 << 20)]);
    }

    #[test]
    fn counters_that_begin_anew_are_no_trouble() {
        assert_eq!(taken(|second| glance(9000 - second * 90, 100 - second)), calm());
    }
}
