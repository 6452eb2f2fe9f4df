// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explains why an allocation could not be met although the machine had free memory: which zones
//! the request could use, what was free there, and what kept it from the request.
//!
//! The kernel takes a page from the highest zone that the request's flags allow or from a lower one
//! (`gfp_zone` in `include/linux/gfp.h`), if the zone's free memory stays above its `min` watermark
//! and above what is kept for requests that cannot use a higher zone (`lowmem_reserve`). Free pages
//! of the contiguous memory allocator (CMA) serve movable pages only (`__zone_watermark_ok` in
//! `mm/page_alloc.c`).

use pagewise_facts::settings;
use pagewise_model::{Bytes, OomConstraint, OomInvoker, OomKill, OomZone, Snapshot};

/// Free memory of zones that the request could not use matters from this size on.
const WORTH: Bytes = Bytes::new(16 << 20);

/// A request for memory, as the kernel prints it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    /// Flags: a hexadecimal number, with newer kernels followed by names in parentheses.
    pub(super) gfp_mask: &'a str,
    pub(super) order: i64,
}

impl<'a> Request<'a> {
    pub(super) fn of_invoker(invoker: &'a OomInvoker) -> Self {
        Self { gfp_mask: invoker.gfp_mask.as_str(), order: invoker.order }
    }

    /// The flags. The lowest four name a zone, with every kernel (`___GFP_DMA` and the following).
    fn flags(self) -> Option<u64> {
        let number = self.gfp_mask.split('(').next()?.strip_prefix("0x")?;
        u64::from_str_radix(number, 16).ok()
    }

    /// The name of the highest zone that the request can use.
    fn highest_zone(self) -> Option<&'static str> {
        const DMA: u64 = 1;
        const HIGHMEM: u64 = 2;
        const DMA32: u64 = 4;
        let flags = self.flags()?;
        Some(match flags & (DMA | HIGHMEM | DMA32 | MOVABLE) {
            both if both & (HIGHMEM | MOVABLE) == HIGHMEM | MOVABLE => "Movable",
            high if high & HIGHMEM != 0 => "HighMem",
            dma if dma & DMA != 0 => "DMA",
            dma32 if dma32 & DMA32 != 0 => "DMA32",
            _ => "Normal",
        })
    }

    fn is_movable(self) -> bool {
        self.flags().is_some_and(|flags| flags & MOVABLE != 0)
    }

    /// Whether the request may not wait for reclaim, as the names of its flags say; unknown if the
    /// kernel prints no names.
    fn is_atomic(self) -> Option<bool> {
        let names = self.gfp_mask.split_once('(')?.1;
        Some(names.contains("GFP_ATOMIC") || names.contains("GFP_NOWAIT"))
    }
}

const MOVABLE: u64 = 8;

/// Zones from the lowest to the highest.
const ORDER: [&str; 6] = ["DMA", "DMA32", "Normal", "HighMem", "Movable", "Device"];

fn rank(name: &str) -> usize {
    ORDER.iter().position(|known| *known == name).unwrap_or(ORDER.len())
}

/// What a zone had for a request.
struct ZoneRoom<'a> {
    zone: &'a OomZone,
    free: Bytes,
    /// The part of it that only movable pages may use, if the request is for another page.
    barred: Bytes,
    /// The `min` watermark and what is kept from this request.
    kept: Bytes,
}

impl ZoneRoom<'_> {
    fn is_lacking(&self) -> bool {
        self.free.saturating_sub(self.barred) <= self.kept
    }
}

/// The room in the zones that a request can use, and those that it cannot; `None` if the report
/// does not show enough.
fn rooms<'a>(
    request: Request<'_>,
    zones: &'a [OomZone],
) -> Option<(Vec<ZoneRoom<'a>>, Vec<&'a OomZone>)> {
    let highest = rank(request.highest_zone()?);
    let (usable, others): (Vec<&OomZone>, Vec<&OomZone>) =
        zones.iter().partition(|zone| rank(zone.name.as_str()) <= highest);
    let index = reserve_index(request.highest_zone()?, zones);
    let room = |zone: &&'a OomZone| {
        // a kernel without CMA prints none
        let barred = zone.free_cma.filter(|_| !request.is_movable()).unwrap_or_default();
        let reserve = index.and_then(|index| zone.reserve.get(index)).copied().unwrap_or_default();
        let kept = zone.min?.saturating_add(reserve);
        Some(ZoneRoom { zone, free: zone.free?, barred, kept })
    };
    let rooms: Option<Vec<ZoneRoom<'a>>> = usable.iter().map(room).collect();
    rooms.filter(|rooms| !rooms.is_empty()).map(|rooms| (rooms, others))
}

/// The place of a zone among the numbers of `lowmem_reserve`, one for each zone that the kernel is
/// configured with; empty zones are not printed. `None` if it cannot be told.
fn reserve_index(highest: &str, zones: &[OomZone]) -> Option<usize> {
    let has = |name: &str| zones.iter().any(|zone| zone.name.as_str() == name);
    let configured: &[&str] = if has("DMA32") {
        &["DMA", "DMA32", "Normal", "Movable", "Device"]
    } else if has("HighMem") {
        &["DMA", "Normal", "HighMem", "Movable"]
    } else {
        return None;
    };
    // a zone that this kernel has not stands for the next lower one
    configured.iter().rposition(|name| rank(name) <= rank(highest))
}

/// Why the zones could not meet the request, as a sentence without a full stop; `None` if the
/// report does not show it, or if memory was simply used up.
pub(super) fn of_zones(request: Request<'_>, zones: &[OomZone]) -> Option<String> {
    let useless = {
        let (rooms, others) = rooms(request, zones)?;
        useless_memory(&rooms, &others)
    };
    describe_zones(request, zones).filter(|_| useless >= WORTH || request.order > 0)
}

/// What the zones had for a request that was not met, whatever the reason.
pub(super) fn describe_zones(request: Request<'_>, zones: &[OomZone]) -> Option<String> {
    let (rooms, others) = rooms(request, zones)?;
    match rooms.iter().all(ZoneRoom::is_lacking) {
        true => Some(describe(request, &rooms, &others)),
        false => without_block(request, &rooms),
    }
}

/// Free memory that could not serve the request.
fn useless_memory(rooms: &[ZoneRoom<'_>], others: &[&OomZone]) -> Bytes {
    let barred = rooms.iter().map(|room| room.barred);
    let elsewhere = others.iter().filter_map(|zone| zone.free);
    barred.chain(elsewhere).sum()
}

fn describe(request: Request<'_>, rooms: &[ZoneRoom<'_>], others: &[&OomZone]) -> String {
    let listed = rooms.iter().filter(|room| room.free.get() > 0).map(|room| {
        let barred = match room.barred.get() {
            0 => String::new(),
            _ => format!(", but {} of it are reserved for movable pages (CMA)", room.barred),
        };
        let left = room.free.saturating_sub(room.barred);
        format!(
            "zone {} had {} free{barred}, so {left} were left for it, and the kernel keeps {}",
            room.zone.name, room.free, room.kept
        )
    });
    let listed: Vec<String> = listed.collect();
    let useless: Vec<String> = others
        .iter()
        .filter_map(|zone| zone.free.filter(|free| *free >= WORTH).map(|free| (zone, free)))
        .map(|(zone, free)| format!("{free} of zone {}", zone.name))
        .collect();
    let useless = match useless.len() {
        0 => String::new(),
        _ => format!("; {} were free and cannot be used for such a request", useless.join(" and ")),
    };
    let highest = request.highest_zone().unwrap_or("Normal");
    let below = if rooms.len() > 1 { " or a lower one" } else { "" };
    let name = rooms.last().map_or(highest, |room| room.zone.name.as_str());
    format!("the request had to be met from zone {name}{below}: {}{useless}", listed.join("; "))
}

/// Says that enough was free, but no block was large enough.
fn without_block(request: Request<'_>, rooms: &[ZoneRoom<'_>]) -> Option<String> {
    let order = u32::try_from(request.order).ok().filter(|order| *order > 0)?;
    let with_blocks = rooms.iter().filter(|room| !room.zone.blocks.is_empty());
    let rooms: Vec<&ZoneRoom<'_>> = with_blocks.collect();
    let page = rooms.first()?.zone.blocks.first()?.size;
    let size = Bytes::new(page.get().checked_shl(order)?);
    let has_block = |room: &&ZoneRoom<'_>| {
        room.zone.blocks.iter().any(|blocks| blocks.size >= size && blocks.count > 0)
    };
    if rooms.iter().any(has_block) {
        return None;
    }
    let free: Bytes = rooms.iter().map(|room| room.free).sum();
    Some(format!(
        "the request needed {size} in one piece; {free} were free in the zones that it could use, but in smaller pieces"
    ))
}

/// The zone that lacked memory while other memory was free, if that is why the process was killed.
pub(super) fn lacking_zone(kill: &OomKill) -> Option<&str> {
    let request = Request::of_invoker(kill.invoker.as_ref()?);
    let (rooms, others) = rooms(request, &kill.zones)?;
    let is_so = rooms.iter().all(ZoneRoom::is_lacking) && useless_memory(&rooms, &others) >= WORTH;
    is_so.then(|| rooms.last().map(|room| room.zone.name.as_str())).flatten()
}

/// Free memory of a 32-bit kernel that the request could not use, if the report has no zones: most
/// of what was free must have been HighMem, because there is less other memory than that.
pub(super) fn lacks_low_memory(kill: &OomKill) -> Option<Bytes> {
    let request = Request::of_invoker(kill.invoker.as_ref()?);
    let host = kill.host.as_ref().filter(|_| kill.zones.is_empty())?;
    let (high, total, free) = (host.high_memory?, host.total?, host.free?);
    let is_low = rank(request.highest_zone()?) < rank("HighMem");
    let low = total.saturating_sub(high);
    (is_low && high.get() > 0 && free.saturating_sub(low) >= WORTH)
        .then(|| free.saturating_sub(low))
}

/// Says that only HighMem was free.
pub(super) fn of_low_memory(kill: &OomKill) -> Option<String> {
    let useless = lacks_low_memory(kill)?;
    let host = kill.host.as_ref()?;
    let low = host.total?.saturating_sub(host.high_memory?);
    let cma = host.free_cma.filter(|cma| cma.get() > 0);
    let cma = cma.map_or_else(String::new, |cma| {
        format!("; another {cma} were reserved for movable pages (CMA)")
    });
    Some(format!(
        "the request had to be met from the lowest {low} (this 32-bit kernel reaches no more of RAM directly); at least {useless} of what was free was HighMem and cannot be used for such a request{cma}"
    ))
}

/// Whether kswapd called the OOM killer, which only multi-gen LRU's `min_ttl_ms` makes it do
/// (`lru_gen_age_node` in `mm/vmscan.c`, since Linux 6.1).
pub(super) fn is_by_min_ttl(kill: &OomKill) -> bool {
    let is_kswapd = |invoker: &OomInvoker| {
        let node = invoker.name.as_str().strip_prefix("kswapd");
        node.is_some_and(|node| !node.is_empty() && node.bytes().all(|byte| byte.is_ascii_digit()))
    };
    kill.constraint == Some(OomConstraint::Host) && kill.invoker.as_ref().is_some_and(is_kswapd)
}

/// The file of `min_ttl_ms`.
pub(super) const MIN_TTL: &str = "/sys/kernel/mm/lru_gen/min_ttl_ms";

/// Why the kernel's own thread called the OOM killer.
pub(super) fn of_kernel_thread(host: &Snapshot, kill: &OomKill) -> Option<String> {
    if let Some(panic) = &kill.panic {
        let setting = settings::number(host, "vm.panic_on_oom");
        let now = setting
            .map_or_else(String::new, |set| format!(" (vm.panic_on_oom is {} now)", set.value));
        return Some(format!(
            "the kernel was told to panic when memory runs out, instead of killing a process: \"{panic}\"{now}"
        ));
    }
    is_by_min_ttl(kill).then(|| {
        let now = host.mglru.min_ttl.get();
        let now = now.map_or_else(String::new, |ttl| format!(" ({} ms now)", ttl.get()));
        format!(
            "kswapd, the kernel's reclaim thread, called the OOM killer, which it does only for min_ttl_ms of \
             multi-gen LRU{now}: rather than evict pages that were used that recently, it kills a process, also \
             when swap has room"
        )
    })
}

/// Whether a failed allocation does harm.
pub(super) fn harm_of_failure(request: Request<'_>) -> &'static str {
    match (request.is_atomic(), request.order) {
        (Some(true), _) => {
            "mostly not: a request that may not wait fails when the free memory of the moment is used up; the code \
             that asked has to be able to go on without (a network driver drops a packet and gets it again)"
        }
        (Some(false), 0) => {
            "yes: a single page could not be had although the request could wait, so the operation that asked for \
             it failed"
        }
        (_, order) if order > 0 => {
            "it depends: a request for several pages in one piece often has a fallback to single pages; if it has \
             none, the operation that asked for it failed"
        }
        _ => "not known: the kernel does not print the names of the flags",
    }
}
