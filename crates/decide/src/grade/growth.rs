// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How short of memory a host or a cgroup is by what fills it.

use pagewise_facts::growth::Growth;
use pagewise_model::Level;

/// Memory that lasts no longer than this leaves no time to act.
const SOON_SECONDS: f64 = 120.0;
/// Memory that lasts no longer than this is tight.
const TIGHT_SECONDS: f64 = 900.0;

/// How short of memory what it fills is by that; `None` if it lasts long enough.
pub(crate) fn level(growth: &Growth<'_>) -> Option<Level> {
    match growth.lasts_seconds {
        seconds if seconds < SOON_SECONDS => Some(Level::Short),
        seconds if seconds < TIGHT_SECONDS => Some(Level::Tight),
        _ => None,
    }
}
