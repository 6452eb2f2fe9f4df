// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Grades how soon growth fills the memory of a host or the limit of a cgroup.

use pagewise_facts::growth::Growth;
use pagewise_model::Level;

/// If growing memory fills all that is available sooner than this, in seconds, nobody has time to
/// act.
const SOON_SECONDS: f64 = 120.0;
/// If growing memory fills all that is available sooner than this, in seconds, the host is tight.
const TIGHT_SECONDS: f64 = 900.0;

/// How severe this growth is; `None` if memory lasts long enough.
pub(crate) fn level(growth: &Growth<'_>) -> Option<Level> {
    match growth.lasts_seconds {
        seconds if seconds < SOON_SECONDS => Some(Level::Short),
        seconds if seconds < TIGHT_SECONDS => Some(Level::Tight),
        _ => None,
    }
}
