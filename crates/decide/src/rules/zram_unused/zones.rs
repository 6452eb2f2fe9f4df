// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The distance of each zone from its low watermark, as evidence.

use pagewise_model::{Bytes, Evidence, Snapshot, Zone, ZonePressure};

/// Returns evidence with one line per zone: its free memory, and how far this is above or below the
/// low watermark.
pub(super) fn distances(host: &Snapshot) -> Vec<Evidence> {
    host.zones.iter().filter_map(|zone| distance(zone, host.page_size())).collect()
}

fn distance(zone: &Zone, page_size: Bytes) -> Option<Evidence> {
    let state = word(zone.pressure()?);
    let (free, low) = (zone.free_pages.get()?, zone.low_pages.get()?);
    let (side, pages) = if free >= low {
        ("above", free.saturating_sub(low))
    } else {
        ("below", low.saturating_sub(free))
    };
    let (free, gap) = (free.to_bytes(page_size), pages.to_bytes(page_size));
    let value = format!("node {} {}: free {free}, {gap} {side} low: {state}", zone.node, zone.name);
    Some(Evidence::new(&zone.free_pages.source, value))
}

fn word(state: ZonePressure) -> &'static str {
    match state {
        ZonePressure::Idle => "idle",
        ZonePressure::Balanced => "balanced",
        ZonePressure::Background => "background reclaim",
        ZonePressure::Direct => "direct reclaim",
    }
}
