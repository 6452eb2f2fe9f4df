// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explains why an allocation failed although the machine had free memory: which zones the request
//! could use, how much memory was free there, and why the request could not use it.
//!
//! The kernel takes a page from the highest zone that the request's flags allow or from a lower one
//! (`gfp_zone` in `include/linux/gfp.h`). After that, the zone's free memory must be above its
//! `min` watermark and above the reserve for requests that cannot use a higher zone
//! (`lowmem_reserve`). Free pages of the contiguous memory allocator (CMA) are only for movable
//! pages (`__zone_watermark_ok` in `mm/page_alloc.c`).

use super::limit_of_kill::limit;
use pagewise_facts::settings;
use pagewise_model::{Bytes, OomConstraint, OomInvoker, OomKill, OomZone, Snapshot};

/// Free memory in zones that the request could not use is mentioned if it is at least this size.
const WORTH: Bytes = Bytes::new(16 << 20);

/// A request for memory, as the kernel prints it in a report.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    /// Flags of the request: a hexadecimal number, which newer kernels print with names in
    /// parentheses.
    pub(super) gfp_mask: &'a str,
    pub(super) order: i64,
}

impl<'a> Request<'a> {
    pub(super) fn of_invoker(invoker: &'a OomInvoker) -> Self {
        Self { gfp_mask: invoker.gfp_mask.as_str(), order: invoker.order }
    }

    /// Returns the flags as a number. In every kernel, the lowest four flags name a zone
    /// (`___GFP_DMA` and the next three).
    fn flags(self) -> Option<u64> {
        let number = self.gfp_mask.split('(').next()?.strip_prefix("0x")?;
        u64::from_str_radix(number, 16).ok()
    }

    /// Returns the name of the highest zone that the request can use.
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

    /// Whether the request must not wait for reclaim, according to the names of its flags; `None`
    /// if the kernel prints no names.
    fn is_atomic(self) -> Option<bool> {
        let names = self.gfp_mask.split_once('(')?.1;
        Some(names.contains("GFP_ATOMIC") || names.contains("GFP_NOWAIT"))
    }
}

const MOVABLE: u64 = 8;

/// Names of all zones, from the lowest to the highest.
const ORDER: [&str; 6] = ["DMA", "DMA32", "Normal", "HighMem", "Movable", "Device"];

fn rank(name: &str) -> usize {
    ORDER.iter().position(|known| *known == name).unwrap_or(ORDER.len())
}

/// The free memory of a zone, and the parts of it that a request cannot use.
struct ZoneRoom<'a> {
    zone: &'a OomZone,
    free: Bytes,
    /// The part of the free memory that only movable pages may use; 0 if the request is for such a
    /// page.
    barred: Bytes,
    /// The part that must stay free: the `min` watermark and the reserve that applies to this
    /// request.
    kept: Bytes,
}

impl ZoneRoom<'_> {
    fn is_lacking(&self) -> bool {
        self.free.saturating_sub(self.barred) <= self.kept
    }
}

/// Returns the free memory of the zones that a request can use, and the zones that it cannot use;
/// `None` if the report does not contain enough.
fn rooms_of_zones<'a>(
    request: Request<'_>,
    zones: &'a [OomZone],
) -> Option<(Vec<ZoneRoom<'a>>, Vec<&'a OomZone>)> {
    let highest = rank(request.highest_zone()?);
    let (usable, others): (Vec<&OomZone>, Vec<&OomZone>) =
        zones.iter().partition(|zone| rank(zone.name.as_str()) <= highest);
    let index = reserve_index(request.highest_zone()?, zones);
    let room = |zone: &&'a OomZone| {
        // a kernel without CMA does not print this value
        let barred = zone.free_cma.filter(|_| !request.is_movable()).unwrap_or_default();
        let reserve = index.and_then(|index| zone.reserve.get(index)).copied().unwrap_or_default();
        let kept = zone.min?.saturating_add(reserve);
        Some(ZoneRoom { zone, free: zone.free?, barred, kept })
    };
    let rooms: Option<Vec<ZoneRoom<'a>>> = usable.iter().map(room).collect();
    rooms.filter(|rooms| !rooms.is_empty()).map(|rooms| (rooms, others))
}

/// Returns the index in `lowmem_reserve` that belongs to a zone. The array has an entry for each
/// zone that the kernel is configured with, but empty zones are not printed. `None` if the index is
/// unknown.
fn reserve_index(highest: &str, zones: &[OomZone]) -> Option<usize> {
    let has = |name: &str| zones.iter().any(|zone| zone.name.as_str() == name);
    let configured: &[&str] = if has("DMA32") {
        &["DMA", "DMA32", "Normal", "Movable", "Device"]
    } else if has("HighMem") {
        &["DMA", "Normal", "HighMem", "Movable"]
    } else {
        return None;
    };
    // if this kernel does not have the zone, the next lower one takes its place
    configured.iter().rposition(|name| rank(name) <= rank(highest))
}

/// Explains why the zones could not serve the request, as a sentence without a full stop. `None` if
/// the report does not show it, or if all memory was simply used up.
pub(super) fn explain_by_zones(request: Request<'_>, zones: &[OomZone]) -> Option<String> {
    let useless = {
        let (rooms, others) = rooms_of_zones(request, zones)?;
        useless_memory(&rooms, &others)
    };
    describe_zones(request, zones).filter(|_| useless >= WORTH || request.order > 0)
}

/// Describes the free memory of the zones for a request that failed, whatever the reason was.
pub(super) fn describe_zones(request: Request<'_>, zones: &[OomZone]) -> Option<String> {
    let (rooms, others) = rooms_of_zones(request, zones)?;
    if rooms.iter().all(ZoneRoom::is_lacking) {
        Some(describe(request, &rooms, &others))
    } else {
        explain_missing_block(request, &rooms)
    }
}

/// Adds up the free memory that could not be used for the request.
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

/// Says that enough memory was free, but that no free block was large enough.
fn explain_missing_block(request: Request<'_>, rooms: &[ZoneRoom<'_>]) -> Option<String> {
    let order = u32::try_from(request.order).ok().filter(|order| *order > 0)?;
    let has_room = |room: &&ZoneRoom<'_>| !room.is_lacking() && !room.zone.blocks.is_empty();
    let with_blocks = rooms.iter().filter(has_room);
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

/// Returns the zone that lacked memory while other memory was free, if this is why the process was
/// killed.
pub(super) fn lacking_zone(kill: &OomKill) -> Option<&str> {
    let request = Request::of_invoker(kill.invoker.as_ref()?);
    let (rooms, others) = rooms_of_zones(request, &kill.zones)?;
    let is_so = rooms.iter().all(ZoneRoom::is_lacking) && useless_memory(&rooms, &others) >= WORTH;
    is_so.then(|| rooms.last().map(|room| room.zone.name.as_str())).flatten()
}

/// Returns the free memory that the request could not use on a 32-bit kernel whose report has no
/// zones. Most of the free memory must have been HighMem, because the machine has less other memory
/// than was free.
pub(super) fn unusable_high_memory(kill: &OomKill) -> Option<Bytes> {
    let request = Request::of_invoker(kill.invoker.as_ref()?);
    let host = kill.host.as_ref().filter(|_| kill.zones.is_empty())?;
    let (high, total, free) = (host.high_memory?, host.total?, host.free?);
    let is_low = rank(request.highest_zone()?) < rank("HighMem");
    let low = total.saturating_sub(high);
    (is_low && high.get() > 0 && free.saturating_sub(low) >= WORTH)
        .then(|| free.saturating_sub(low))
}

/// Says that only HighMem was free.
pub(super) fn explain_by_low_memory(kill: &OomKill) -> Option<String> {
    let useless = unusable_high_memory(kill)?;
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

/// Describes what held the memory, if most of it did not belong to processes: then no kill can free
/// it.
pub(super) fn explain_by_main_holder(kill: &OomKill) -> Option<String> {
    const MUCH_PERCENT: u64 = 30;
    let shmem = "shared memory (files of a tmpfs, /dev/shm and SysV stay when a process ends)";
    let locked = "memory that cannot be reclaimed (mlock, ramfs)";
    let (whole, anon, parts) = if kill.constraint == Some(OomConstraint::Cgroup) {
        let group = kill.group_memory.as_ref()?;
        let parts = [
            (shmem, group.shmem),
            (
                "the kernel for the group (slab, page tables, stacks, buffers of sockets)",
                group.kernel,
            ),
            (locked, group.unevictable),
        ];
        (limit(kill)?, group.anon?, parts.to_vec())
    } else {
        let host = kill.host.as_ref()?;
        let parts = [
            (shmem, host.shmem),
            ("slab caches of the kernel that cannot be reclaimed", host.slab_unreclaimable),
            ("page tables", host.page_tables),
            (locked, host.unevictable),
            (
                "what no number of the report covers (pools of huge pages, drivers, the pool of zram, a balloon)",
                host.other(),
            ),
        ];
        (host.total?, host.anon?, parts.to_vec())
    };
    let known = parts.into_iter().filter_map(|(what, size)| Some((what, size?)));
    let (what, size) = known.max_by_key(|(_, size)| *size)?;
    let is_much = size.get() >= whole.get() / 100 * MUCH_PERCENT && size > anon;
    is_much.then(|| {
        format!(
            "{what} held {size} of {whole}, more than the {anon} of anonymous memory of processes"
        )
    })
}

/// Whether kswapd called the OOM killer. kswapd does this only because of multi-gen LRU's
/// `min_ttl_ms` (`lru_gen_age_node` in `mm/vmscan.c`, since Linux 6.1).
pub(super) fn is_by_min_ttl(kill: &OomKill) -> bool {
    let is_kswapd = |invoker: &OomInvoker| {
        let node = invoker.name.as_str().strip_prefix("kswapd");
        node.is_some_and(|node| !node.is_empty() && node.bytes().all(|byte| byte.is_ascii_digit()))
    };
    kill.constraint == Some(OomConstraint::Host) && kill.invoker.as_ref().is_some_and(is_kswapd)
}

/// Whether a person asked the kernel to kill a process (SysRq f). In this case memory need not have
/// been short.
pub(super) fn is_by_hand(kill: &OomKill) -> bool {
    kill.invoker.as_ref().is_some_and(|invoker| invoker.order == -1)
}

/// The file of multi-gen LRU's setting `min_ttl_ms`.
pub(super) const MIN_TTL: &str = "/sys/kernel/mm/lru_gen/min_ttl_ms";

/// Explains why a kernel thread called the OOM killer.
pub(super) fn explain_kernel_thread(host: &Snapshot, kill: &OomKill) -> Option<String> {
    if let Some(panic) =
        kill.panic.as_ref().filter(|panic| !panic.as_str().contains("panic_on_oom"))
    {
        return Some(format!(
            "the kernel found no process that it may kill, and panicked: \"{panic}\""
        ));
    }
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

/// Says whether a failed allocation does harm.
pub(super) fn describe_harm_of_failure(request: Request<'_>) -> &'static str {
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

#[cfg(test)]
mod tests {
    use pagewise_model::{Name, OomBlocks, OomHost};

    use super::*;

    fn mib(size: u64) -> Option<Bytes> {
        Some(Bytes::new(size << 20))
    }

    fn zone(name: &str, free: u64, cma: u64, min: u64) -> OomZone {
        let (free, free_cma, min) = (mib(free), mib(cma), mib(min));
        OomZone { name: Name::from(name), free, free_cma, min, ..OomZone::default() }
    }

    fn kill(gfp_mask: &str, order: i64, zones: Vec<OomZone>) -> OomKill {
        let (name, gfp_mask) = (Name::from("sh"), Name::from(gfp_mask));
        OomKill {
            constraint: Some(OomConstraint::Host),
            invoker: Some(OomInvoker { name, gfp_mask, order, oom_score_adj: 0 }),
            zones,
            ..OomKill::default()
        }
    }

    fn why(kill: &OomKill) -> Option<String> {
        explain_by_zones(Request::of_invoker(kill.invoker.as_ref()?), &kill.zones)
    }

    /// The flags of requests, as printed by kernels from 3.10 to 7.2.
    #[test]
    fn the_highest_zone_is_that_of_the_flags() {
        for (gfp_mask, zone) in [
            ("0xcc0(GFP_KERNEL)", "Normal"),
            ("0x24000c0", "Normal"),
            ("0x201da", "Movable"),
            ("0x200d2", "HighMem"),
            ("0x1100cca(GFP_HIGHUSER_MOVABLE)", "Movable"),
            ("0x14(GFP_DMA32)", "DMA32"),
            ("0xcc1(GFP_KERNEL|GFP_DMA)", "DMA"),
        ] {
            assert_eq!(Request { gfp_mask, order: 0 }.highest_zone(), Some(zone), "{gfp_mask}");
        }
        assert_eq!(Request { gfp_mask: "GFP_KERNEL", order: 0 }.highest_zone(), None);
    }

    #[test]
    fn free_memory_that_the_request_cannot_use_is_the_reason() {
        let zones = vec![zone("Normal", 300, 290, 12), zone("HighMem", 2000, 0, 1)];
        let kernel = kill("0xcc0(GFP_KERNEL)", 0, zones.clone());
        let why_kernel = why(&kernel).unwrap_or_default();
        let normal = "zone Normal had 300.0 MiB free, but 290.0 MiB of it";
        assert!(why_kernel.contains(normal), "{why_kernel}");
        let useless = "2.0 GiB of zone HighMem were free and cannot be used for such a request";
        assert!(why_kernel.ends_with(useless), "{why_kernel}");
        assert_eq!(lacking_zone(&kernel), Some("Normal"));
        // a movable request could have used memory in both zones
        let user = kill("0x1100cca(GFP_HIGHUSER_MOVABLE)", 0, zones);
        assert_eq!((why(&user), lacking_zone(&user)), (None, None));
        // memory that is simply used up needs no further reason
        let used_up = vec![zone("DMA32", 1, 0, 4), zone("Normal", 5, 0, 12)];
        let full = kill("0xcc0(GFP_KERNEL)", 0, used_up);
        assert_eq!((why(&full), lacking_zone(&full)), (None, None));
    }

    #[test]
    fn what_is_kept_from_requests_for_higher_zones_counts() {
        let mut low = zone("DMA32", 900, 0, 4);
        let kept = Bytes::new(950 << 20);
        low.reserve = vec![Bytes::default(), Bytes::default(), kept, Bytes::default(), kept];
        let zones = vec![low, zone("Normal", 10, 0, 12), zone("Movable", 600, 0, 1)];
        let kernel = kill("0xcc0(GFP_KERNEL)", 0, zones);
        assert_eq!(lacking_zone(&kernel), Some("Normal"));
        let dma32 = Request { gfp_mask: "0x4", order: 0 };
        assert_eq!(explain_by_zones(dma32, &kernel.zones), None, "nothing is kept from this one");
    }

    #[test]
    fn pieces_that_are_too_small_are_the_reason_of_a_large_request() {
        let mut normal = zone("Normal", 500, 0, 12);
        normal.blocks = vec![
            OomBlocks { size: Bytes::new(4096), count: 100_000 },
            OomBlocks { size: Bytes::new(8192), count: 9 },
            OomBlocks { size: Bytes::new(16_384), count: 0 },
        ];
        let large = why(&kill("0xcc0(GFP_KERNEL)", 2, vec![normal.clone()])).unwrap_or_default();
        let start = "the request needed 16.0 KiB in one piece; 500.0 MiB";
        assert!(large.starts_with(start), "{large}");
        assert_eq!(why(&kill("0xcc0(GFP_KERNEL)", 1, vec![normal])), None);
    }

    #[test]
    fn only_kswapd_kills_for_min_ttl() {
        let mut by = kill("0xcc0(GFP_KERNEL)", 0, Vec::new());
        let names = [("kswapd0", true), ("kswapd12", true), ("kswapd", false), ("kswapdX", false)];
        for (name, is_so) in names {
            if let Some(invoker) = &mut by.invoker {
                invoker.name = Name::from(name);
            }
            assert_eq!(is_by_min_ttl(&by), is_so, "{name}");
        }
    }

    #[test]
    fn a_32_bit_kernel_without_zones_in_the_report_had_only_high_memory_free() {
        let mut by = kill("0x6000c0(GFP_KERNEL)", 0, Vec::new());
        let (total, high_memory) = (mib(4000), mib(3200));
        by.host = Some(OomHost { total, high_memory, free: mib(2900), ..OomHost::default() });
        assert_eq!(unusable_high_memory(&by), mib(2100));
        let reason = explain_by_low_memory(&by).unwrap_or_default();
        assert!(reason.contains("from the lowest 800.0 MiB"), "{reason}");
        by.host = Some(OomHost { total, high_memory, free: mib(700), ..OomHost::default() });
        assert_eq!(unusable_high_memory(&by), None);
    }
}
