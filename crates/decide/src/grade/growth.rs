// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Grades how soon growth fills the memory of a host or the limit of a cgroup.

use pagewise_facts::growth::{Forecast, Growth};
use pagewise_model::{Level, Severity};

/// If growing memory fills all that is available sooner than this, in seconds, nobody has time to
/// act.
const SOON_SECONDS: f64 = 120.0;
/// If growing memory fills all that is available sooner than this, in seconds, the host is tight.
const TIGHT_SECONDS: f64 = 900.0;

/// How short of memory growth makes a host or group; `None` if memory lasts long enough, or the
/// forecast is tentative.
pub(crate) fn level(growth: &Growth<'_>) -> Option<Level> {
    match growth.lasts_seconds {
        _ if growth.forecast == Forecast::Tentative => None,
        seconds if seconds < SOON_SECONDS => Some(Level::Short),
        seconds if seconds < TIGHT_SECONDS => Some(Level::Tight),
        _ => None,
    }
}

/// How severe a finding about this growth is.
pub(crate) fn severity(growth: &Growth<'_>) -> Severity {
    match (growth.forecast, level(growth)) {
        (Forecast::Tentative, _) => Severity::Info,
        (Forecast::Sustained, level) if level >= Some(Level::Short) => Severity::Critical,
        (Forecast::Sustained, _) => Severity::Warning,
    }
}
