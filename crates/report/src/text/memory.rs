// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How memory is used: a bar, and the meaning of each part.
//!
//! The parts are sums of lines of `/proc/meminfo` and need not add up: the remainder is shown as
//! "the rest" (drivers, firmware, and what else the kernel does not count). Page cache is shown without shmem, which the
//! kernel's "Cached" includes although it can only be swapped. Most kernels have no line for
//! compressed memory; its size is read from the devices of zram and zmerge and from zswap.

use pagewise_model::{Bytes, Memory, Reading, Snapshot};

use super::bars;
use super::block::{Block, MemoryPart};
use super::kit::{Line, Page, Role};
use super::table::{Cell, Column, Table};
use super::words::{part_of, share};

impl MemoryPart {
    /// The part of memory as the legend of the bar shows it.
    pub(super) fn glance(&self) -> String {
        format!("{} {} {}", self.glyph, self.name, self.bytes)
    }
}

pub(super) fn print(page: &mut Page, snapshot: &Snapshot) {
    let Some(total) = snapshot.memory.total.get() else { return };
    page.heading("Where memory is", &format!("{total} in all"));
    let parts = parts(snapshot, total);
    if page.keeps_blocks() {
        page.keep(Block::Memory { parts, total });
    } else {
        print_bar(page, Line::indent(4), &parts, total);
        print_legend(page, &parts, total);
    }
    print_totals(page, &snapshot.memory);
    print_in_tmpfs(page, snapshot, total);
}

/// Prints the bar of memory uses after `start`, without the meaning of each part.
pub(super) fn print_bar(page: &mut Page, start: Line, parts: &[MemoryPart], total: Bytes) {
    let cells = page.width().saturating_sub(start.width() + 4).min(80);
    let sizes: Vec<u64> = parts.iter().map(|part| part.bytes.get()).collect();
    let mut line = start;
    for (part, width) in parts.iter().zip(bars::split_cells(&sizes, total.get(), cells)) {
        line = line.span(part.role, part.glyph.repeat(width));
    }
    page.line(&line);
}

fn print_legend(page: &mut Page, parts: &[MemoryPart], total: Bytes) {
    let columns = ["", ""].map(Column::left).into_iter();
    let numbers = ["", ""].map(Column::right);
    let mut table = Table::new(4, columns.chain(numbers).chain([Column::words("")]).collect());
    for part in parts {
        table.row(vec![
            Cell::new(part.role, part.glyph),
            part.name.into(),
            part.bytes.to_string().into(),
            share(part.bytes.get(), total.get()).unwrap_or_default().into(),
            Cell::new(Role::Quiet, part.meaning.clone()),
        ]);
    }
    table.print(page);
}

fn print_totals(page: &mut Page, memory: &Memory) {
    let mut items = Vec::new();
    items.extend(memory.available.get().map(|size| format!("{size} available without swapping")));
    let of_zfs = memory.zfs_cache.reclaimable().filter(|size| size.get() > 0);
    items.extend(of_zfs.map(|size| format!("{size} more from ZFS's cache")));
    items.extend(
        memory.mlocked.get().filter(|size| size.get() > 0).map(|size| format!("{size} locked")),
    );
    items.extend(memory.committed.get().map(|size| format!("{size} committed (Committed_AS)")));
    if !items.is_empty() {
        page.items(4, &items);
    }
}

/// Minimum share of RAM that a tmpfs mount must hold to be shown, in percent.
const SHOWN_PERCENT: f64 = 1.0;
/// Maximum number of mounts shown, the fullest first.
const SHOWN_MOUNTS: usize = 3;

fn print_in_tmpfs(page: &mut Page, snapshot: &Snapshot, total: Bytes) {
    let mounts = snapshot.memory_files.mounts.iter().take(SHOWN_MOUNTS);
    let shown = mounts.filter_map(|mount| {
        let used = mount.used.get()?;
        let limit = mount.limit.get().map_or_else(String::new, |limit| format!(" of {limit}"));
        let is_much = used.percent_of(total)?.get() >= SHOWN_PERCENT;
        is_much.then(|| format!("{used}{limit} in the tmpfs {}", mount.point))
    });
    let items: Vec<String> = shown.collect();
    if !items.is_empty() {
        page.items(4, &items);
    }
}

/// The parts of memory that are known, in the order of the bar.
pub(super) fn parts(snapshot: &Snapshot, total: Bytes) -> Vec<MemoryPart> {
    let memory = &snapshot.memory;
    let known = [
        part(
            "anon",
            "█",
            Role::Anon,
            memory.anon_pages.get(),
            "heaps and stacks: can only be swapped",
        ),
        part(
            "shmem",
            "▓",
            Role::Shmem,
            memory.shmem.get(),
            "tmpfs and shared memory: looks like cache, can only be swapped",
        ),
        part("file", "▒", Role::File, file(memory), file_meaning(memory)),
        part("kernel", "≡", Role::Kernel, kernel(memory), kernel_meaning(memory)),
        part(
            "compressed",
            "▞",
            Role::Compressed,
            compressed_bytes(snapshot),
            compressed_meaning(snapshot),
        ),
        part(
            "huge pages",
            "#",
            Role::Kernel,
            memory.hugetlb.get(),
            "hugetlb pools: kept apart, used or not",
        ),
        part(
            "ZFS",
            "≈",
            Role::File,
            memory.zfs_cache.size.get(),
            "cache of ZFS (ARC): mostly given back when memory is short",
        ),
        part(
            "balloon",
            "○",
            Role::Quiet,
            snapshot.balloon().and_then(|balloon| balloon.size_in_total()),
            "given back to the hypervisor by the balloon driver",
        ),
    ];
    let shown = |part: &MemoryPart| part.bytes.get() > 0;
    let mut parts: Vec<MemoryPart> = known.into_iter().flatten().filter(shown).collect();
    if let (Some(free), Some(_)) = (memory.free.get(), memory.anon_pages.get()) {
        let sum: Bytes = parts.iter().map(|part| part.bytes).sum();
        let rest = total.saturating_sub(sum.saturating_add(free));
        // pages of it that programs have mapped are a part of `anon`, too
        let cache = memory.swap_cached.get().map(|cached| cached.min(rest));
        let is_much = |cached: &Bytes| cached.percent_of(total).is_some_and(|it| it.get() >= 1.0);
        let cache = cache.filter(is_much);
        let meaning = "in RAM and in swap: on their way out or in, or kept in both";
        parts.extend(part("swap cache", "▚", Role::Anon, cache, meaning));
        let rest = rest.saturating_sub(cache.unwrap_or_default());
        let rest = part("the rest", "~", Role::Quiet, Some(rest), "drivers, firmware and others");
        parts.extend(rest.filter(shown));
    }
    parts.extend(part("free", "░", Role::Quiet, memory.free.get(), "not used for anything"));
    parts
}

fn part(
    name: &'static str,
    glyph: &'static str,
    role: Role,
    bytes: Option<Bytes>,
    meaning: impl Into<String>,
) -> Option<MemoryPart> {
    bytes.map(|bytes| MemoryPart { name, bytes, glyph, role, meaning: meaning.into() })
}

/// Page cache without shmem.
fn file(memory: &Memory) -> Option<Bytes> {
    let cache = memory.cached.get()?.saturating_add(memory.buffers.get()?);
    Some(cache.saturating_sub(memory.shmem.get()?))
}

fn file_meaning(memory: &Memory) -> String {
    let meaning = match cannot_be_dropped(memory) {
        Some(kept) => format!("page cache and code; {kept} of it cannot be dropped"),
        None => "page cache and code: dropped and read again".to_owned(),
    };
    match memory.dirty.get().filter(|dirty| dirty.get() > 0) {
        Some(dirty) => format!("{meaning}; {dirty} dirty"),
        None => meaning,
    }
}

/// The part of the page cache that is on no list of reclaim, such as files in a ramfs and locked files; `None`
/// unless it is at least a tenth of the page cache and at least 1 % of RAM.
fn cannot_be_dropped(memory: &Memory) -> Option<Bytes> {
    let all = file(memory)?;
    let lists = memory.active_file.get()?.saturating_add(memory.inactive_file.get()?);
    let kept = all.saturating_sub(lists).min(memory.unevictable.get()?);
    let of_ram = kept.percent_of(memory.total.get()?)?.get();
    (kept.percent_of(all)?.get() >= 10.0 && of_ram >= 1.0).then_some(kept)
}

fn kernel_parts(memory: &Memory) -> Vec<(Bytes, &'static str)> {
    let parts: [(&'static str, &[&Reading<Bytes>]); 4] = [
        ("slab", &[&memory.slab_unreclaimable, &memory.slab_reclaimable]),
        ("page tables", &[&memory.page_tables, &memory.secondary_page_tables]),
        ("per CPU", &[&memory.percpu]),
        ("stacks", &[&memory.kernel_stack]),
    ];
    let sum = |sizes: &[&Reading<Bytes>]| {
        sizes.iter().filter_map(|size| size.get()).reduce(Bytes::saturating_add)
    };
    parts.iter().filter_map(|(name, sizes)| Some((sum(sizes)?, *name))).collect()
}

fn kernel(memory: &Memory) -> Option<Bytes> {
    kernel_parts(memory).into_iter().map(|(size, _)| size).reduce(Bytes::saturating_add)
}

/// Names the largest uses of kernel memory.
fn kernel_meaning(memory: &Memory) -> String {
    let mut parts = kernel_parts(memory);
    parts.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
    let largest = parts.iter().take(3).filter(|(size, _)| size.get() > 0);
    largest.map(|(size, name)| format!("{name} {size}")).collect::<Vec<_>>().join(", ")
}

fn compressed_bytes(snapshot: &Snapshot) -> Option<Bytes> {
    let zram = snapshot.compressed_devices().map(|zram| &zram.mm_stat.memory_used);
    zram.chain([&snapshot.zswap.pool]).filter_map(Reading::get).reduce(Bytes::saturating_add)
}

fn compressed_meaning(snapshot: &Snapshot) -> &'static str {
    if snapshot.zmerge.is_empty() {
        "what zram and zswap hold, after compression"
    } else {
        "what zram, zmerge and zswap hold, after compression"
    }
}

/// Describes how much RAM is in use: `60.1 of 62.8 GiB`; `None` if either size is unknown.
pub(super) fn in_use(memory: &Memory) -> Option<String> {
    let total = memory.total.get()?;
    Some(part_of(total.saturating_sub(memory.free.get()?), total))
}
