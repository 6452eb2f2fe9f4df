// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Grades memory pressure by the averages of PSI.
//!
//! *some* is the time in which at least one task was stalled on memory, *full* the time in which
//! all non-idle tasks were. For comparison: systemd-oomd kills at 60 % full by default, which is
//! far more than a user notices.

use pagewise_facts::{groups, stalls};
use pagewise_model::{Interval, Level, Percent, Pressure, Reading, Severity, Snapshot, Stall};

/// Threshold for the share of the last 10 seconds in which some task was stalled: 1 of 10 seconds
/// is a burst that a user notices.
const SOME_10: f64 = 10.0;
/// Threshold for the share of the last minute in which some task was stalled: 1 of 20 seconds is
/// longer than a burst.
const SOME_60: f64 = 5.0;
/// Threshold for the share of the last 10 seconds in which no task made progress: 2 of 10 seconds.
const FULL_10: f64 = 20.0;
/// Threshold for the share of the last minute in which no task made progress: 6 of 60 seconds are a
/// considerable loss of work.
const FULL_60: f64 = 10.0;

/// Memory pressure of the host that is above a threshold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GradedPressure {
    /// How severe it is; if it has ended, one level less than by its averages.
    pub(crate) severity: Severity,
    /// How short of memory the host is; if it has ended, one level less.
    pub(crate) shortage: Level,
    /// How many seconds ago the pressure ended; `None` if tasks wait now.
    pub(crate) ended: Option<f64>,
}

/// The pressure of the host; `None` if it is below every threshold or PSI is unknown.
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

/// Whether a run of Pagewise causes nearly all of the host's pressure, in a cgroup of its own.
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

/// How severe the pressure of the host is now; `None` if it is below every threshold, PSI is
/// unknown, or the pressure has ended.
pub(crate) fn present(interval: &Interval) -> Option<Severity> {
    grade(interval).filter(|graded| graded.ended.is_none()).map(|graded| graded.severity)
}

/// How severe the pressure of one cgroup or resource is; `None` if it is below every threshold.
pub(crate) fn level_of(memory: &Pressure) -> Option<Severity> {
    let (some, full) = (&memory.some, &memory.full);
    if reaches(&full.avg10, FULL_10) || reaches(&full.avg60, FULL_60) {
        Some(Severity::Critical)
    } else if reaches(&some.avg10, SOME_10) || reaches(&some.avg60, SOME_60) {
        Some(Severity::Warning)
    } else {
        None
    }
}

fn reaches(average: &Reading<Percent>, threshold: f64) -> bool {
    average.get().is_some_and(|percent| percent.get() >= threshold)
}

/// How short of memory a host or cgroup with this pressure is.
pub(crate) fn shortage(memory: &Pressure) -> Option<Level> {
    level_of(memory).map(|severity| match severity {
        Severity::Critical => Level::Critical,
        Severity::Warning | Severity::Info => Level::Short,
    })
}
