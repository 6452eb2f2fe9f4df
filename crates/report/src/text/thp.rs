// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Huge pages: transparent ones by size, khugepaged, and the preallocated pools.

use pagewise_model::{
    Bytes, Counters, HugePool, Khugepaged, Memory, Reading, Snapshot, Thp, ThpSize,
};

use super::kit::Page;
use super::table::{Cell, Column, Table};
use super::words::{
    cell, cell_with, count, describe_lack, format_reading, is_requested, plural, seconds, share,
};

pub(super) fn print(page: &mut Page, snapshot: &Snapshot) {
    let thp = &snapshot.thp;
    if let Some(why) = describe_lack(&thp.enabled) {
        page.gap();
        page.fact("Huge pages", &why);
    } else if is_requested(&thp.enabled) {
        page.heading("Huge pages", "larger pages that the kernel makes by itself");
        let in_use = in_use(&snapshot.memory);
        if !in_use.is_empty() {
            page.fact("  now in use", &in_use);
        }
        page.fact_items("  policy", &policy(thp));
        page.fact_items("  khugepaged", &khugepaged(&thp.khugepaged));
        print_sizes(page, &thp.sizes);
    }
    print_pools(page, &snapshot.hugetlb);
}

/// Describes how much of each kind of memory is in huge pages.
pub(super) fn in_use(memory: &Memory) -> String {
    let file = match (memory.cached.get(), memory.shmem.get()) {
        (Some(cached), Some(shmem)) => Some(cached.saturating_sub(shmem)),
        _ => None,
    };
    let kinds = [
        ("anon", &memory.anon_huge_pages, memory.anon_pages.get()),
        ("shmem", &memory.shmem_huge_pages, memory.shmem.get()),
        ("file", &memory.file_huge_pages, file),
    ];
    let known = kinds.iter().filter(|(_, huge, _)| huge.value().is_some());
    known.map(|(name, huge, all)| describe_kind(name, huge, *all)).collect::<Vec<_>>().join(", ")
}

fn describe_kind(name: &str, huge: &Reading<Bytes>, all: Option<Bytes>) -> String {
    let part = huge.get().zip(all).filter(|(huge, _)| huge.get() > 0);
    let part = part.and_then(|(huge, all)| share(huge.get(), all.get()));
    let part = part.map(|share| format!(" ({share})")).unwrap_or_default();
    format!("{name} {}{part}", format_reading(huge))
}

fn policy(thp: &Thp) -> Vec<String> {
    let mut items = vec![
        format!("enabled {}", format_reading(&thp.enabled)),
        format!("defrag {}", format_reading(&thp.defrag)),
        format!("shmem {}", format_reading(&thp.shmem_enabled)),
    ];
    let switches = [("zero page", &thp.use_zero_page), ("shrink underused", &thp.shrink_underused)];
    let known = switches.iter().filter(|(_, switch)| switch.value().is_some());
    items.extend(known.map(|(name, switch)| format!("{name} {}", format_reading(switch))));
    items
}

fn khugepaged(thread: &Khugepaged) -> Vec<String> {
    let mut items = Vec::new();
    items.extend(
        thread.pages_collapsed.get().map(|made| format!("{} made", plural(made, "huge page"))),
    );
    items.extend(thread.full_scans.get().map(|scans| plural(scans, "full scan")));
    let nanos =
        |reading: &Reading<pagewise_model::Nanos>| reading.get().map(|ns| ns.get() as f64 / 1e9);
    items.extend(nanos(&thread.cpu_time).map(|used| format!("{} of CPU", seconds(used))));
    items.extend(
        nanos(&thread.run_queue_wait).map(|wait| format!("waited {} for one", seconds(wait))),
    );
    items.extend(describe_pace(thread));
    items.extend(thread.max_ptes_none.get().map(|most| format!("max_ptes_none {most}")));
    items
}

fn describe_pace(thread: &Khugepaged) -> Option<String> {
    let (pages, rest) = thread.pages_to_scan.get().zip(thread.scan_sleep.get())?;
    let rest = seconds(rest.get() as f64 / 1000.0);
    Some(format!("looks at {} pages every {rest}", count(pages)))
}

/// Prints the huge page sizes that are allowed or were used.
fn print_sizes(page: &mut Page, sizes: &[ThpSize]) {
    let counters = ["in use", "made at fault", "fell back", "split"].map(Column::right);
    let mut columns = vec![Column::right("  size"), Column::left("anon"), Column::left("shmem")];
    columns.extend(counters.into_iter().zip(1..).map(|(column, rank)| column.spare(rank)));
    columns.push(Column::right("swapped whole").spare(5));
    let mut table = Table::new(4, columns);
    sizes.iter().filter(|size| is_busy(size)).for_each(|size| table.row(row(size)));
    if !table.is_empty() {
        table.print(page);
    }
}

fn is_busy(size: &ThpSize) -> bool {
    let allowed = [&size.enabled, &size.shmem_enabled]
        .iter()
        .any(|policy| policy.value().is_some_and(|policy| policy.active.as_str() != "never"));
    let used = ["anon_fault_alloc", "nr_anon", "shmem_alloc"];
    allowed || used.iter().any(|name| size.stats.get(name).get().is_some_and(|number| number > 0))
}

fn row(size: &ThpSize) -> Vec<Cell> {
    let stat = |name: &str| number(&size.stats, name);
    vec![
        size.bytes.to_string().into(),
        cell(&size.enabled),
        cell(&size.shmem_enabled),
        stat("nr_anon"),
        stat("anon_fault_alloc"),
        stat("anon_fault_fallback"),
        stat("split"),
        stat("swpout"),
    ]
}

fn number(stats: &Counters, name: &str) -> Cell {
    cell_with(&stats.get(name), |number| count(*number))
}

/// Prints the pools of preallocated huge pages; sizes without pages, or without known values, are
/// left out.
fn print_pools(page: &mut Page, pools: &[HugePool]) {
    let has_pages =
        |pool: &&HugePool| pool.total.get().map_or(pool.total.is_denied(), |pages| pages > 0);
    let used: Vec<&HugePool> = pools.iter().filter(has_pages).collect();
    if used.is_empty() {
        return;
    }
    page.heading("hugetlb pools", "huge pages set aside; nothing else can use them");
    let mut columns = vec![Column::right("page size"), Column::left("node")];
    columns.extend(["pages", "free", "reserved", "surplus"].map(Column::right));
    columns.push(Column::right("takes"));
    let mut table = Table::new(4, columns);
    used.iter().for_each(|pool| table.row(pool_row(pool)));
    table.print(page);
}

fn pool_row(pool: &HugePool) -> Vec<Cell> {
    let pages = |reading: &Reading<u64>| cell_with(reading, |pages| count(*pages));
    let size = |total: &u64| Bytes::new(pool.page_bytes.get().saturating_mul(*total)).to_string();
    vec![
        pool.page_bytes.to_string().into(),
        pool.node.map_or_else(|| "all".to_owned(), |node| node.to_string()).into(),
        pages(&pool.total),
        pages(&pool.free),
        pages(&pool.reserved),
        pages(&pool.surplus),
        cell_with(&pool.total, size),
    ]
}
