// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How bad memory pressure is, by the averages of PSI.
//!
//! *some* is time in which at least one task waited for memory, *full* time in which nobody got
//! on. For comparison: systemd-oomd kills at 60 % full by default, far past what a user feels.

use pagewise_model::{Level, Percent, Pressure, Psi, Reading, Severity};

/// A tenth of ten seconds: a burst that somebody noticed.
const SOME_10: f64 = 10.0;
/// One second of every twenty over a whole minute: no burst any more.
const SOME_60: f64 = 5.0;
/// A fifth of ten seconds in which the whole machine stood still.
const FULL_10: f64 = 20.0;
/// A tenth of a minute in which the whole machine stood still: work is lost for good.
const FULL_60: f64 = 10.0;

/// How severe the pressure is; `None` where it is below every threshold or PSI says nothing.
pub(crate) fn level(psi: &Psi) -> Option<Severity> {
    level_of(&psi.memory)
}

/// The same for one group or resource.
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

/// How short of memory that much waiting is.
pub(crate) fn shortage(memory: &Pressure) -> Option<Level> {
    level_of(memory).map(|severity| match severity {
        Severity::Critical => Level::Critical,
        Severity::Warning | Severity::Info => Level::Short,
    })
}
