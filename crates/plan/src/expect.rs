// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Predicts gains with a formula of the kernel. Gains predicted from `scan` are in the module
//! `measured`.
//!
//! What a step itself sets, such as the size of a swap area, is not predicted, because `verify`
//! compares it in any case. Nothing is predicted if the formula does not give the current values on
//! this kernel.

use pagewise_model::plan::{Expected, HIGH_WATERMARKS};
use pagewise_model::{Pages, Reading, Snapshot, Zone};

const MIN_FREE: &str = "vm.min_free_kbytes";
const SCALE: &str = "vm.watermark_scale_factor";

/// Predicts the sum of the high watermarks of all zones for these values of the two settings;
/// `None` means that a setting is not changed.
pub(crate) fn expect_watermarks(
    host: &Snapshot,
    min_free: Option<&str>,
    scale: Option<&str>,
) -> Option<Expected> {
    let number = |knob: &str| host.knob(knob)?.active_word()?.parse::<u64>().ok();
    let now = Settings { min_free_kib: number(MIN_FREE)?, scale: number(SCALE)? };
    let value = |to: Option<&str>, now: u64| to.map_or(Some(now), |to| to.parse().ok());
    let planned = Settings {
        min_free_kib: value(min_free, now.min_free_kib)?,
        scale: value(scale, now.scale)?,
    };
    if !do_watermarks_follow_formula(host, now)? {
        return None;
    }
    let (before, after) = (measured_high_watermarks(&host.zones)?, high_watermarks(host, planned)?);
    let bytes = |pages: Pages| pages.to_bytes(host.page_size()).get() as f64;
    let source = "the kernel's formula, which also gives the present watermarks".to_owned();
    Some(Expected::exact(HIGH_WATERMARKS, bytes(after), Some(bytes(before)), source))
}

#[derive(Debug, Clone, Copy)]
struct Settings {
    min_free_kib: u64,
    scale: u64,
}

impl Settings {
    /// The sum of the min watermarks of all zones, in pages.
    fn min_free_pages(self, host: &Snapshot) -> u128 {
        u128::from(self.min_free_kib / (host.page_size().get() >> 10).max(1))
    }

    /// Returns the distance from the min to the low watermark of a zone, which equals the distance
    /// from the low to the high watermark.
    fn watermark_distance(self, min: u128, managed: u128) -> u128 {
        (min / 4).max(managed * u128::from(self.scale) / 10_000)
    }
}

/// Computes the sum of the high watermarks of all zones in the same way as
/// `__setup_per_zone_wmarks` of the kernel. Zones without memory are left out, because the settings
/// do not change their watermarks.
fn high_watermarks(host: &Snapshot, settings: Settings) -> Option<Pages> {
    let zones = ordinary_zones(&host.zones)?;
    let all: u128 = zones.iter().map(|(_, managed)| managed).sum();
    let mut sum = 0;
    for (_, managed) in &zones {
        let min = (settings.min_free_pages(host) * managed).checked_div(all)?;
        sum += min + 2 * settings.watermark_distance(min, *managed);
    }
    let empty = host.zones.iter().filter(|zone| zone.managed_pages.get() == Some(Pages::new(0)));
    let empty: Option<Pages> = empty.map(|zone| zone.high_pages.get()).sum();
    Some(Pages::new(u64::try_from(sum).ok()?).saturating_add(empty?))
}

/// Whether the present watermarks agree with the formula. They need not: the kernel computes them
/// when a setting is written, and the managed pages of a zone may have changed since, for example
/// after the boot of a guest. Only the sum of the min watermarks is compared, because it does not
/// depend on the managed pages.
fn do_watermarks_follow_formula(host: &Snapshot, now: Settings) -> Option<bool> {
    let zones = ordinary_zones(&host.zones)?;
    let mut sum = 0;
    for (zone, managed) in &zones {
        let pages = |reading: &Reading<Pages>| reading.get().map(|it| u128::from(it.get()));
        let boost = pages(&zone.boost_pages).unwrap_or_default();
        let (low, high) = (pages(&zone.low_pages)?, pages(&zone.high_pages)?);
        let with_boost = pages(&zone.min_pages)?;
        let min = with_boost.checked_sub(boost)?;
        let gaps = [low.checked_sub(with_boost)?, high.checked_sub(low)?];
        if gaps != [now.watermark_distance(min, *managed); 2] {
            return Some(false);
        }
        sum += min;
    }
    let reserve = now.min_free_pages(host);
    // the kernel rounds each zone down
    Some(sum <= reserve && reserve - sum <= zones.len() as u128)
}

/// Returns the zones with memory, and the number of pages that each manages. `None` if a highmem or
/// movable zone has memory, because kernels differ in how they treat these.
fn ordinary_zones(zones: &[Zone]) -> Option<Vec<(&Zone, u128)>> {
    let mut ordinary = Vec::new();
    for zone in zones {
        let managed = u128::from(zone.managed_pages.get()?.get());
        match zone.name.as_str() {
            _ if managed == 0 => {}
            "HighMem" | "Movable" => return None,
            _ => ordinary.push((zone, managed)),
        }
    }
    Some(ordinary)
}

/// Returns the sum of the high watermarks that the kernel reports, without a temporary boost.
pub(crate) fn measured_high_watermarks(zones: &[Zone]) -> Option<Pages> {
    let boost = |zone: &Zone| zone.boost_pages.get().unwrap_or_default();
    let high = |zone: &Zone| Some(zone.high_pages.get()?.saturating_sub(boost(zone)));
    (!zones.is_empty()).then(|| zones.iter().map(high).sum())?
}

#[cfg(test)]
mod tests {
    use pagewise_testkit::scene::{Scene, slugs};

    use super::*;

    /// Without a change, the formula gives the values of the recorded kernels: exactly, or within a
    /// few pages if the kernel computed its watermarks before the zones reached their present size.
    #[test]
    fn watermarks_of_all_recordings_follow_the_formula() {
        let (mut exact, mut near) = (0, 0);
        for slug in slugs() {
            let host = &Scene::load(&slug).replay().end;
            let Some(expected) = expect_watermarks(host, None, None) else {
                let has_settings = host.knob(MIN_FREE).is_some_and(|it| it.active_word().is_some());
                assert!(!has_settings || ordinary_zones(&host.zones).is_none(), "{slug}");
                continue;
            };
            let pages = (expected.value - expected.before.unwrap()).abs() / 4096.0;
            assert!(pages <= 2.0, "{slug}: {expected:?}");
            if pages == 0.0 { exact += 1 } else { near += 1 }
        }
        assert!(exact >= 28 && near <= 9, "{exact} exact, {near} within two pages");
    }
}
