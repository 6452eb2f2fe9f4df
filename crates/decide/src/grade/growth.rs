// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Grades how soon growth fills the memory of a host or the limit of a cgroup.

use pagewise_facts::growth::{Forecast, Growth};
use pagewise_model::{Level, Severity};

/// If memory will be full within this many seconds because of growth, there is no time left to act.
const SOON_SECONDS: f64 = 120.0;
/// If memory will be full within this many seconds because of growth, the host is tight.
const TIGHT_SECONDS: f64 = 900.0;

/// Grades how short of memory this growth makes the host or group; `None` if memory will last long
/// enough, or if the forecast is tentative.
pub(crate) fn level(growth: &Growth<'_>) -> Option<Level> {
    match growth.lasts_seconds {
        _ if growth.forecast == Forecast::Tentative => None,
        seconds if seconds < SOON_SECONDS => Some(Level::Short),
        seconds if seconds < TIGHT_SECONDS => Some(Level::Tight),
        _ => None,
    }
}

/// Grades how severe a finding about this growth is.
pub(crate) fn severity(growth: &Growth<'_>) -> Severity {
    match (growth.forecast, level(growth)) {
        (Forecast::Tentative, _) => Severity::Info,
        (Forecast::Sustained, level) if level >= Some(Level::Short) => Severity::Critical,
        (Forecast::Sustained, _) => Severity::Warning,
    }
}
