// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Zones and their low watermark, below which kswapd reclaims memory.

use pagewise_model::{Snapshot, Zone, ZonePressure};

/// Whether every memory zone that has pages is at or above its low watermark; `None` if no zone has
/// known values.
pub fn all_above_low(host: &Snapshot) -> Option<bool> {
    let mut states = host.zones.iter().filter_map(Zone::pressure).peekable();
    states.peek()?;
    Some(states.all(|state| state <= ZonePressure::Balanced))
}
