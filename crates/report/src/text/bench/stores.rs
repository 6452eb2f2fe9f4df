// SPDX-License-Identifier: Apache-2.0 OR MIT
//! zswap compared with zram: the cost, and the pages that did not fit into zswap's pool.

use pagewise_model::{
    Access, BackingTraffic, Benchmark, ClusterEffect, CostVerdict, FaultRow, RelativeCost,
    StoreComparison, StoreKind, SwapStore, SwappedKind, WritebackCost, group_digits,
};

use super::super::kit::{Page, Role};
use super::super::table::{Cell, Column, Table};
use super::super::words::plural;
use super::format_time;
use crate::phrases::{change_and_interval, effect};

/// The name of the kind of swap store, as in the table.
pub(super) fn name(kind: StoreKind) -> &'static str {
    match kind {
        StoreKind::Zram => "zram",
        StoreKind::Zswap => "zswap",
    }
}

/// The names of the stores, each once: `zram lz4, zswap lzo`.
pub(super) fn names(effects: &[ClusterEffect]) -> String {
    let mut names: Vec<String> = Vec::new();
    for SwapStore { kind, compressor } in effects.iter().map(|effect| &effect.store) {
        let name = format!("{} {compressor}", name(*kind));
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(", ")
}

pub(super) fn print(page: &mut Page, benchmark: &Benchmark) {
    for out in benchmark.swap_out.iter().filter(|out| out.store.kind == StoreKind::Zswap) {
        let rows = benchmark.faults.iter().filter(|row| row.store == out.store);
        print_past_pool(page, &out.store, &rows.collect::<Vec<_>>());
    }
    print_comparisons(page, benchmark);
    print_writebacks(page, &benchmark.writebacks);
}

/// Prints what writeback costs: `zswap lz4: a page that is written back to the swap file takes 12.3
/// µs of CPU time (11.0 µs to 13.4 µs).`
fn print_writebacks(page: &mut Page, all: &[WritebackCost]) {
    if !all.is_empty() {
        page.gap();
    }
    for cost in all {
        let [least, largest] = cost.cpu_spread.map(format_time);
        let text = format!(
            "zswap {}: a page that is written back to the swap file takes {} of CPU time ({least} to {largest}), \
             without the time of the disk; {} in {}.",
            cost.compressor,
            format_time(cost.cpu_ns_per_page),
            plural(cost.written_pages, "page"),
            plural(u64::from(cost.rounds), "round"),
        );
        page.prose(2, Role::Plain, &text);
    }
}

/// Prints how many pages zswap did not keep: `zswap lz4: 30 of 2,048 pages went to the swap area
/// behind the pool; the pool refused 30; 28 came back from there.`
fn print_past_pool(page: &mut Page, store: &SwapStore, rows: &[&FaultRow]) {
    let past: Vec<&BackingTraffic> = rows.iter().filter_map(|row| row.backing.as_ref()).collect();
    let written: u64 = past.iter().map(|past| past.written_pages).sum();
    if written == 0 {
        return;
    }
    let out: u64 = rows.iter().map(|row| row.swapped_out_pages).sum();
    let read: u64 = past.iter().map(|past| past.read_pages).sum();
    let refused: Option<u64> = past.iter().map(|past| past.refused_pages.get()).sum();
    let refused = refused
        .map_or(String::new(), |refused| format!("; the pool refused {}", group_digits(refused)));
    let text = format!(
        "zswap {}: {} of {} went to the swap area behind the pool{refused}; {} came back from there.",
        store.compressor,
        group_digits(written),
        plural(out, "page"),
        group_digits(read),
    );
    page.prose(2, Role::Warning, &text);
}

/// Prints comparisons for private memory in random order only; --json has the others.
fn print_comparisons(page: &mut Page, benchmark: &Benchmark) {
    let is_shown =
        |one: &&StoreComparison| (one.memory, one.access) == (SwappedKind::Private, Access::Random);
    let mut table = Table::new(
        2,
        ["algorithm", "cost of a page", "zswap against zram", ""].map(Column::left).into(),
    );
    let mut seen: Vec<&StoreComparison> = Vec::new();
    for one in benchmark.store_comparisons.iter().filter(is_shown) {
        // the second measurement, with less memory, contains the best algorithm again
        if seen.iter().any(|other| other.compressor == one.compressor) {
            continue;
        }
        seen.push(one);
        rows(one).into_iter().for_each(|row| table.row(row));
    }
    let Some(first) = seen.first() else { return };
    page.gap();
    let behind = if is_on_zram(benchmark) {
        "a zram device, because no swap file was possible: swapping in from a disk takes another way"
    } else {
        "a swap file"
    };
    let text = format!(
        "zswap against zram, private memory touched at random, vm.page-cluster {}; behind zswap: {behind}.",
        first.page_cluster
    );
    page.prose(2, Role::Plain, &text);
    table.print(page);
}

fn is_on_zram(benchmark: &Benchmark) -> bool {
    benchmark.faults.iter().filter_map(|row| row.backing.as_ref()).any(|past| past.is_zram)
}

fn rows(one: &StoreComparison) -> Vec<Vec<Cell>> {
    let costs = [
        ("CPU, swapping out", Some(one.out_cpu)),
        ("CPU, swapping in", Some(one.in_cpu)),
        ("time of a fault", Some(one.touch)),
        ("RAM in the pool", one.pool),
    ];
    let costs = costs.into_iter().filter_map(|(what, cost)| Some((what, cost?)));
    costs.enumerate().map(|(at, (what, cost))| row(one, at == 0, what, cost)).collect()
}

fn row(one: &StoreComparison, is_first: bool, what: &str, cost: RelativeCost) -> Vec<Cell> {
    let name = if is_first { one.compressor.to_string() } else { String::new() };
    let verdict = match cost.verdict {
        CostVerdict::Less => "less".to_owned(),
        CostVerdict::More => "more".to_owned(),
        CostVerdict::NoDifferenceShown => "no difference shown".to_owned(),
        CostVerdict::NotJudged => {
            format!("not judged: {} were not in the pool", effect(one.backing_share))
        }
    };
    let [change, interval] = change_and_interval(Some(cost.zswap_per_zram), Some(cost.spread));
    let ratio = format!("{change} ({interval})");
    vec![Cell::new(Role::Strong, name), what.into(), ratio.into(), verdict.into()]
}
