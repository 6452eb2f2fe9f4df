// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory zones: their watermarks and lists, and how fragmented free memory is.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Name, Pages, Reading, Snapshot};

/// One zone of one node, from `/proc/zoneinfo`. All sizes are in base pages.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "each field is the kernel's word for it")]
pub struct Zone {
    pub node: u32,
    pub name: Name,
    pub free_pages: Reading<Pages>,
    pub min_pages: Reading<Pages>,
    pub low_pages: Reading<Pages>,
    pub high_pages: Reading<Pages>,
    /// Temporary increase of the watermarks, after fragmentation or a burst of allocations.
    pub boost_pages: Reading<Pages>,
    pub managed_pages: Reading<Pages>,
    pub present_pages: Reading<Pages>,
    pub spanned_pages: Reading<Pages>,
    /// Pages that an allocation must leave free here if it could also use a higher zone, by the
    /// index of that higher zone.
    pub lowmem_reserve_pages: Reading<Vec<Pages>>,
    pub inactive_anon_pages: Reading<Pages>,
    pub active_anon_pages: Reading<Pages>,
    pub inactive_file_pages: Reading<Pages>,
    pub active_file_pages: Reading<Pages>,
}

/// How the free memory of a zone compares with the zone's watermarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ZonePressure {
    /// More memory is free than the high watermark: kswapd sleeps.
    Idle,
    /// Free memory is between the low and high watermarks: kswapd continues if it is awake, but it
    /// is not woken.
    Balanced,
    /// Free memory is between the min and low watermarks: kswapd reclaims in the background.
    Background,
    /// Less memory is free than the min watermark: allocating tasks have to reclaim memory
    /// themselves (direct reclaim).
    Direct,
}

impl Zone {
    /// How the zone's free memory compares with its watermarks; `None` if a watermark is not known
    /// or the zone is empty.
    ///
    /// Source: the watermark comments of the kernel's page allocator (`zone_watermark_ok`,
    /// `wakeup_kswapd`). The lowmem reserve is left out, because it depends on the allocation.
    pub fn pressure(&self) -> Option<ZonePressure> {
        let free = self.free_pages.get()?;
        if self.managed_pages.get()? == Pages::new(0) {
            return None;
        }
        Some(match free {
            free if free < self.min_pages.get()? => ZonePressure::Direct,
            free if free < self.low_pages.get()? => ZonePressure::Background,
            free if free < self.high_pages.get()? => ZonePressure::Balanced,
            _ => ZonePressure::Idle,
        })
    }
}

impl Snapshot {
    /// The zone with the least free memory relative to its high watermark. Zones without memory, or
    /// without one of the two values, are not considered; `None` if no zone remains.
    pub fn tightest_zone(&self) -> Option<&Zone> {
        let part = |zone: &Zone| {
            let (free, high) = (zone.free_pages.get()?.get(), zone.high_pages.get()?.get());
            let has_memory = zone.managed_pages.get() != Some(Pages::new(0));
            (has_memory && high > 0).then(|| free as f64 / high as f64)
        };
        let known = self.zones.iter().filter_map(|zone| Some((part(zone)?, zone)));
        known.min_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, zone)| zone)
    }
}

/// Free blocks of one zone by order, from `/proc/buddyinfo`.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct FreeBlocks {
    /// Number of the zone's NUMA node.
    pub node: u32,
    /// Name of the zone, such as `Normal`.
    pub zone: Name,
    /// Number of free blocks of 2^order pages, for each order from 0.
    pub blocks: Reading<Vec<u64>>,
    /// [`FreeBlocks::unusable_free_index`] for each order; `null` if no memory is free.
    pub unusable_free_index: Vec<Option<f64>>,
    /// [`FreeBlocks::fragmentation_index`] for each order; `null` if a block of this order is free.
    pub fragmentation_index: Vec<Option<f64>>,
}

impl FreeBlocks {
    /// Creates the free blocks of one zone and computes both indices.
    pub fn new(node: u32, zone: Name, blocks: Reading<Vec<u64>>) -> Self {
        let free = Self { node, zone, blocks, ..Self::default() };
        let orders = free.blocks.value().map_or(0, Vec::len);
        Self {
            unusable_free_index: (0..orders).map(|order| free.unusable_free_index(order)).collect(),
            fragmentation_index: (0..orders).map(|order| free.fragmentation_index(order)).collect(),
            ..free
        }
    }

    /// Share of the free memory, 0 to 1, that an allocation of 2^`order` pages cannot use.
    ///
    /// `(free − Σ_{i ≥ order} blocks[i]·2^i) / free`. Source: M. Gorman and A. Whitcroft, "The
    /// What, The Why and the Where To of Anti-Fragmentation" (Ottawa Linux Symposium 2006), as
    /// the kernel's debugfs file `extfrag/unusable_index` prints it.
    pub fn unusable_free_index(&self, order: usize) -> Option<f64> {
        let blocks = self.blocks.value()?;
        let free = pages_from(blocks, 0);
        let usable = pages_from(blocks, order);
        (free > 0).then(|| (free - usable) as f64 / free as f64)
    }

    /// Why an allocation of 2^`order` pages would fail: near 0 for lack of memory, near 1 because
    /// of fragmentation. `None` if it would not fail.
    ///
    /// The index is `1 − (1 + free/2^order) / blocks`, and 0 if nothing is free. The source is the
    /// same as that of [`Self::unusable_free_index`]. The kernel computes it in
    /// `fragmentation_index()` (mm/vmstat.c), and compacts instead of reclaiming if the index
    /// exceeds `vm.extfrag_threshold` thousandths.
    pub fn fragmentation_index(&self, order: usize) -> Option<f64> {
        let blocks = self.blocks.value()?;
        if pages_from(blocks, order) > 0 {
            return None;
        }
        let count: u128 = blocks.iter().map(|&count| u128::from(count)).sum();
        if count == 0 {
            return Some(0.0);
        }
        let requested = 2f64.powi(i32::try_from(order).ok()?);
        Some(1.0 - (1.0 + pages_from(blocks, 0) as f64 / requested) / count as f64)
    }
}

/// Number of pages in free blocks of 2^`order` pages and larger. The type is u128 so that no
/// numbers in a file can overflow it.
fn pages_from(blocks: &[u64], order: usize) -> u128 {
    let sizes = blocks.iter().enumerate().skip(order);
    sizes.map(|(order, &count)| u128::from(count) << order.min(63)).fold(0, u128::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Source;

    fn free(blocks: &[u64]) -> FreeBlocks {
        let at = Source::line("/proc/buddyinfo", 1);
        FreeBlocks::new(0, Name::from("Normal"), Reading::found(blocks.to_vec(), at))
    }

    #[test]
    fn memory_in_single_pages_is_unusable_for_larger_orders() {
        let zone = free(&[8, 0, 2]);
        assert_eq!(zone.unusable_free_index(0), Some(0.0));
        assert_eq!(zone.unusable_free_index(1), Some(0.5));
        assert_eq!(zone.unusable_free_index(2), Some(0.5));
    }

    #[test]
    fn the_fragmentation_index_speaks_only_where_no_block_is_left() {
        let zone = free(&[1000, 0, 0, 0]);
        assert_eq!(zone.fragmentation_index(0), None);
        let expected = 1.0 - (1.0 + 1000.0 / 8.0) / 1000.0;
        assert_eq!(zone.fragmentation_index(3), Some(expected));
        assert_eq!(free(&[0, 0]).fragmentation_index(1), Some(0.0));
    }

    #[test]
    fn hostile_counts_do_not_overflow() {
        let zone = free(&[u64::MAX; 64]);
        assert!(zone.unusable_free_index(10).is_some());
    }

    #[test]
    fn the_tightest_zone_has_the_least_free_memory_for_its_watermark() {
        let at = |pages| Reading::found(Pages::new(pages), Source::line("/proc/zoneinfo", 1));
        let zone = |name: &str, free, high| Zone {
            name: Name::from(name),
            free_pages: at(free),
            high_pages: at(high),
            ..Zone::default()
        };
        let empty = Zone { managed_pages: at(0), ..zone("Movable", 0, 32) };
        let zones = vec![zone("DMA", 30, 10), zone("Normal", 200, 100), empty];
        let host = Snapshot { zones, ..Snapshot::default() };
        assert_eq!(host.tightest_zone().map(|zone| zone.name.as_str()), Some("Normal"));
        assert!(Snapshot::default().tightest_zone().is_none());
    }

    #[test]
    fn a_zone_is_in_one_of_four_states() {
        let at = |pages| Reading::found(Pages::new(pages), Source::line("/proc/zoneinfo", 1));
        let zone = |free| Zone {
            free_pages: at(free),
            min_pages: at(10),
            low_pages: at(20),
            high_pages: at(30),
            managed_pages: at(1000),
            ..Zone::default()
        };
        assert_eq!(zone(9).pressure(), Some(ZonePressure::Direct));
        assert_eq!(zone(10).pressure(), Some(ZonePressure::Background));
        assert_eq!(zone(20).pressure(), Some(ZonePressure::Balanced));
        assert_eq!(zone(30).pressure(), Some(ZonePressure::Idle));
        assert_eq!(Zone::default().pressure(), None);
    }
}
