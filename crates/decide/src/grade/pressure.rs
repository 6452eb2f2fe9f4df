// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Grades memory pressure by the averages of PSI.
//!
//! *some* is the time in which at least one task was stalled on memory, *full* the time in which
//! all non-idle tasks were stalled. For comparison: systemd-oomd kills at 60 % full by default,
//! when users have noticed the stalls long before.

use pagewise_facts::{groups, stalls};
use pagewise_model::{Interval, Level, Percent, Pressure, Reading, Severity, Snapshot, Stall};

/// Threshold for the share of the last 10 seconds in which some task was stalled, in percent: 1 of
/// 10 seconds is a burst that a user notices.
const SOME_10: f64 = 10.0;
/// Threshold for the share of the last minute in which some task was stalled, in percent: 3 of 60
/// seconds are more than a single burst.
const SOME_60: f64 = 5.0;
/// Threshold for the share of the last 10 seconds in which no task made progress, in percent: 2 of
/// 10 seconds.
const FULL_10: f64 = 20.0;
/// Threshold for the share of the last minute in which no task made progress, in percent: 6 of 60
/// seconds are a considerable loss of work.
const FULL_60: f64 = 10.0;

/// Memory pressure of the host that is above a threshold, with its grades.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GradedPressure {
    /// The severity of the pressure; if the pressure has ended, one level less than its averages
    /// imply.
    pub(crate) severity: Severity,
    /// How short of memory the host is because of the pressure; if the pressure has ended, one
    /// level less.
    pub(crate) shortage: Level,
    /// How many seconds ago the pressure ended; `None` if tasks still wait.
    pub(crate) ended: Option<f64>,
}

/// Grades the memory pressure of the host; `None` if it is below every threshold or if PSI is
/// unknown.
pub(crate) fn grade(interval: &Interval) -> Option<GradedPressure> {
    let memory = &interval.end.psi.memory;
    let (severity, shortage) = (level_of(memory)?, shortage(memory)?);
    if is_own(&interval.end) {
        return None;
    }
    let ended = stalls::ended_seconds_ago(interval);
    if ended.is_none() {
        return Some(GradedPressure { severity, shortage, ended });
    }
    let severity = match severity {
        Severity::Critical => Severity::Warning,
        Severity::Warning | Severity::Info => Severity::Info,
    };
    let shortage = if shortage == Level::Critical { Level::Short } else { Level::Tight };
    Some(GradedPressure { severity, shortage, ended })
}

/// Whether nearly all of the host's pressure is caused by a run of Pagewise, in a cgroup of its
/// own.
fn is_own(host: &Snapshot) -> bool {
    let average = |stall: &Stall| stall.avg10.get().zip(stall.avg60.get());
    let Some((ten, sixty)) = average(&host.psi.memory.some) else { return false };
    let mut own = host.cgroups.groups.iter().filter(|group| groups::is_own(&group.path));
    own.any(|group| {
        average(&group.pressure.some).is_some_and(|(own_ten, own_sixty)| {
            own_ten.get() >= 0.9 * ten.get() && own_sixty.get() >= 0.9 * sixty.get()
        })
    })
}

/// Returns the severity of the host's pressure now; `None` if it is below every threshold, if PSI
/// is unknown, or if the pressure has ended.
pub(crate) fn present_severity(interval: &Interval) -> Option<Severity> {
    grade(interval).filter(|graded| graded.ended.is_none()).map(|graded| graded.severity)
}

/// Returns the severity of the pressure on one cgroup or resource; `None` if it is below every
/// threshold.
pub(crate) fn level_of(memory: &Pressure) -> Option<Severity> {
    let (some, full) = (&memory.some, &memory.full);
    if does_reach(&full.avg10, FULL_10) || does_reach(&full.avg60, FULL_60) {
        Some(Severity::Critical)
    } else if does_reach(&some.avg10, SOME_10) || does_reach(&some.avg60, SOME_60) {
        Some(Severity::Warning)
    } else {
        None
    }
}

fn does_reach(average: &Reading<Percent>, threshold: f64) -> bool {
    average.get().is_some_and(|percent| percent.get() >= threshold)
}

/// Returns how short of memory a host or cgroup with this pressure is.
pub(crate) fn shortage(memory: &Pressure) -> Option<Level> {
    level_of(memory).map(|severity| match severity {
        Severity::Critical => Level::Critical,
        Severity::Warning | Severity::Info => Level::Short,
    })
}
