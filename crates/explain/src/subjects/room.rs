// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Free memory: what is available, the watermarks, and the sizes of free blocks.

use pagewise_model::{Bar, Bytes, FreeBlocks, Percent, Snapshot, Zone, ZonePressure};

use crate::page::{Draft, add_bars, bar, counter, setting, size, value};

/// Explains available memory. Source: `si_mem_available` in mm/show_mem.c.
pub(crate) fn explain_available(host: &Snapshot, page: &mut Draft) {
    let memory = &host.memory;
    page.add_text(
        "MemAvailable is the kernel's estimate of how much memory programs can still allocate before the machine has \
         to swap. It counts free memory, and most of the page cache and of the kernel's caches, because the kernel \
         can drop those at once.",
    );
    let known = [
        bar("total", memory.total.get()),
        bar("available", memory.available.get()),
        bar("free", memory.free.get()),
        bar("page cache", memory.cached.get()),
        bar("anonymous", memory.anon_pages.get()),
    ];
    page.add_bars("Memory of this machine", add_bars(known));
    page.add_text(
        "The estimate leaves out what the kernel keeps for itself (the reserves up to the high watermark), and, of each \
         cache, half or the sum of the low watermarks, whichever is smaller. Memory in tmpfs (Shmem) is part of the \
         page cache, but only swap can free it.",
    );
    page.add_values(
        "This machine",
        vec![
            value("MemAvailable", &memory.available),
            value("Shmem", &memory.shmem),
            value("SReclaimable", &memory.slab_reclaimable),
            value("Dirty", &memory.dirty),
        ],
    );
    page.add_correction(
        "little free memory means that the machine is short of memory",
        "A healthy machine has little free memory: the kernel fills it with the page cache. Watch MemAvailable, and \
         whether programs wait (`pagewise explain psi`).",
    );
    page.add_correction(
        "dropping caches (drop_caches) frees memory for programs",
        "The kernel drops the same caches by itself as soon as a program needs the memory. Dropping all of them also \
         drops code and files that are in use, and they are read from the disk again.",
    );
    page.add_command("pagewise report --only memory", "where memory is");
    page.add_command(
        "pagewise doctor --explain memory-low",
        "from which value on it is too little",
    );
}

/// Explains the watermarks of zones. Sources: `__setup_per_zone_wmarks` and `zone_watermark_ok` in
/// mm/page_alloc.c; the kernel's sysctl/vm document.
pub(crate) fn explain_watermarks(host: &Snapshot, page: &mut Draft) {
    page.add_text(
        "Memory is divided into zones, and each zone has three watermarks. If its free memory falls below the low watermark, the \
         kernel wakes kswapd, which reclaims memory in the background until the high watermark is reached. Below min, programs \
         that allocate memory reclaim it themselves and wait (direct reclaim).",
    );
    if let Some(zone) = largest(host) {
        let of = |pages: &pagewise_model::Reading<pagewise_model::Pages>| {
            pages.get().map(|pages| size(host, pages))
        };
        let known = [
            bar("free", of(&zone.free_pages)),
            bar("high", of(&zone.high_pages)),
            bar("low", of(&zone.low_pages)),
            bar("min", of(&zone.min_pages)),
        ];
        let state = match zone.pressure() {
            Some(ZonePressure::Idle) => "kswapd sleeps",
            Some(ZonePressure::Balanced) => "kswapd finishes its work, if it is awake",
            Some(ZonePressure::Background) => "kswapd reclaims",
            Some(ZonePressure::Direct) => "programs reclaim memory themselves",
            None => "it is not known what the kernel does",
        };
        page.add_bars(
            format!("Zone {} of node {}: {state}", zone.name, zone.node),
            add_bars(known),
        );
    }
    page.add_values(
        "This machine",
        vec![
            setting(host, "vm.min_free_kbytes"),
            setting(host, "vm.watermark_scale_factor"),
            setting(host, "vm.watermark_boost_factor"),
            counter(host, "pgscan_kswapd"),
            counter(host, "pgscan_direct"),
        ],
    );
    page.add_text(
        "vm.min_free_kbytes sets min, for all zones together. The distance from min to low, and from low to high, is \
         a quarter of min, or watermark_scale_factor / 10,000 of the zone, whichever is larger. pgscan_direct counts \
         pages that programs had to look at themselves while they waited.",
    );
    page.add_correction(
        "a larger vm.min_free_kbytes prevents waiting",
        "It raises min, below which programs wait, and takes this memory away from them for good. \
         vm.watermark_scale_factor starts kswapd earlier instead. khugepaged raises vm.min_free_kbytes by itself.",
    );
    page.add_command("pagewise report --only zones", "free memory and watermarks of each zone");
    page.add_command("pagewise doctor --explain watermarks-extreme", "which values are a problem");
}

/// Returns the zone with the most memory.
fn largest(host: &Snapshot) -> Option<&Zone> {
    host.zones.iter().max_by_key(|zone| zone.managed_pages.get())
}

/// Explains fragmentation of free memory. Sources: `fragmentation_index` in mm/vmstat.c,
/// `compaction_suit_allocation_order` and `__compact_finished` in mm/compaction.c; the kernel's
/// sysctl/vm document.
pub(crate) fn explain_fragmentation(host: &Snapshot, page: &mut Draft) {
    let huge = order_of_a_huge_page(host);
    page.add_text(format!(
        "The kernel keeps free memory in blocks of 1, 2, 4 … pages: a block of order N has 2^N pages (the buddy \
         allocator). A huge page needs a free block of order {huge}. If free memory is only in smaller blocks, it is \
         fragmented, and the kernel has to move pages together (compaction) before it can make a large block.",
    ));
    if let Some(free) = largest_free(host) {
        let title = format!("Free memory in zone {} of node {}, by order", free.zone, free.node);
        page.add_bars(title, blocks(host, free));
        if let Some(index) = free.unusable_free_index(huge) {
            let share = Percent::new(index * 100.0);
            page.add_text(format!(
                "In this zone, {:.0} % of free memory is in blocks too small for a huge page (unusable free index).",
                share.get()
            ));
        }
    }
    page.add_values(
        "This machine",
        vec![
            setting(host, "vm.extfrag_threshold"),
            setting(host, "vm.compaction_proactiveness"),
            counter(host, "compact_stall"),
            counter(host, "compact_success"),
            counter(host, "compact_fail"),
        ],
    );
    page.add_correction(
        "vm.extfrag_threshold 0 switches compaction off",
        "It is the eager end. If an allocation of a large block fails, the kernel compacts only if the fragmentation \
         index (0 to 1,000: lack of memory to fragmentation) is above this value, and reclaims pages otherwise.",
    );
    page.add_correction(
        "writing 1 to compact_memory once solves fragmentation",
        "It compacts at this moment; allocations fragment memory again. `compact_stall` counts how often programs had \
         to wait for compaction.",
    );
    page.add_command("pagewise report --only zones", "free blocks of every zone");
    page.add_command("pagewise doctor --explain fragmentation", "when fragmentation is a problem");
}

/// Returns the order of a PMD-sized huge page. It is 9 for huge pages of 2 MiB with base pages of 4
/// KiB, and also if the size is unknown.
fn order_of_a_huge_page(host: &Snapshot) -> usize {
    let size = host.thp.pmd_size.get().map_or(2 << 20, Bytes::get);
    (size / host.page_size().get().max(1)).checked_ilog2().unwrap_or(9) as usize
}

fn largest_free(host: &Snapshot) -> Option<&FreeBlocks> {
    let zone = largest(host)?;
    host.free_blocks.iter().find(|free| free.node == zone.node && free.zone == zone.name)
}

fn blocks(host: &Snapshot, free: &FreeBlocks) -> Vec<Bar> {
    let counts = free.blocks.value().map_or(&[][..], Vec::as_slice);
    let bars = counts.iter().enumerate().map(|(order, &count)| {
        let pages = u64::try_from(u128::from(count) << order.min(63)).unwrap_or(u64::MAX);
        let bytes = Bytes::new(pages.saturating_mul(host.page_size().get()));
        Bar::new(format!("order {order}"), bytes.to_string(), bytes.get())
    });
    bars.collect()
}
