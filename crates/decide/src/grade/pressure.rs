// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Grades memory pressure by the averages of PSI.
//!
//! *some* is the time in which at least one task was stalled on memory, *full* the time in which
//! all non-idle tasks were. For comparison: systemd-oomd kills at 60 % full by default, which is
//! far more than a user notices.

use pagewise_model::{Level, Percent, Pressure, Psi, Reading, Severity};

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

/// How severe the pressure is; `None` if it is below every threshold or PSI is unknown.
pub(crate) fn level(psi: &Psi) -> Option<Severity> {
    level_of(&psi.memory)
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
