// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Swap itself: the cost of a fault, whether `vm.page-cluster` matters, and the swappiness that
//! follows from it.

use pagewise_model::{
    Access, Benchmark, BreakEven, ClusterChoice, ClusterEffect, ClusterVerdict, CostRatio,
    FaultRow, StoreKind, SwappedKind,
};

use super::super::kit::{Page, Role};
use super::super::table::{Cell, Column, Table};
use super::{format_time, percentile, stores};

pub(super) fn print(page: &mut Page, benchmark: &Benchmark) {
    if benchmark.faults.is_empty() {
        return;
    }
    page.heading("In swap", "a cgroup and devices of our own; each page touched once");
    print_faults(page, benchmark);
    stores::print(page, benchmark);
    print_effects(page, &benchmark.cluster_effects);
    benchmark.cluster_choices.iter().for_each(|choice| print_cluster(page, choice));
    match best_of(benchmark) {
        None => page.prose(2, Role::Quiet, NO_DISK),
        Some(ratio) => print_against_disk(page, benchmark, ratio),
    }
}

/// The cost ratio of the balanced pick; --json has those of all algorithms.
fn best_of(benchmark: &Benchmark) -> Option<&CostRatio> {
    let best = benchmark.picks.balanced.as_ref().map(|pick| &pick.winner);
    let is_best = |ratio: &&CostRatio| best == Some(&ratio.compressor);
    let ratios = &benchmark.cost_ratios;
    ratios.iter().find(is_best).or(ratios.first())
}

fn print_against_disk(page: &mut Page, benchmark: &Benchmark, ratio: &CostRatio) {
    print_swappiness(page, ratio);
    print_mixes(page, benchmark);
    let is_its = |one: &&BreakEven| one.contender == ratio.compressor;
    benchmark.break_even.iter().filter(is_its).for_each(|one| print_break_even(page, one));
}

const NO_DISK: &str = "vm.swappiness weighs swap against files: --disk FOLDER measures a file on that disk \
    too, and says which value follows.";

/// Prints the costs of faults on private memory in random order without readahead: a row per store.
/// The kind of store is named only if there are two.
fn print_faults(page: &mut Page, benchmark: &Benchmark) {
    let columns = vec![
        Column::left("algorithm"),
        Column::left("store"),
        Column::right("swap out, CPU"),
        Column::right("fault, mean"),
        Column::right("p50").spare(1),
        Column::right("p99"),
        Column::right("p99.9").spare(4),
        Column::right("CPU").spare(3),
        Column::right("RAM/page").spare(2),
    ];
    let mut table = Table::new(2, columns);
    let mut kinds = benchmark.swap_out.iter().map(|out| out.store.kind);
    let has_zswap = kinds.any(|kind| kind == StoreKind::Zswap);
    for out in &benchmark.swap_out {
        let is_its = |row: &&FaultRow| row.store == out.store;
        let Some(row) = benchmark.faults.iter().find(is_its) else { continue };
        let exact = |ns| Cell::from(format_time(ns));
        let of_one = |ns| Cell::from(percentile(ns, &benchmark.noise));
        let store = if has_zswap { stores::name(out.store.kind) } else { "" };
        let name = Cell::new(Role::Strong, out.store.compressor.to_string());
        let mut cells = vec![name, store.into()];
        cells.extend([out.cpu_ns_per_page, row.mean_ns].map(exact));
        cells.extend([row.p50_ns, row.p99_ns, row.p999_ns].map(of_one));
        cells.push(exact(row.in_cpu_ns_per_page));
        let pool = row.pool_bytes_per_page.map(|bytes| format!("{bytes:.0} B"));
        cells.push(pool.unwrap_or_default().into());
        table.row(cells);
    }
    table.print(page);
}

fn print_effects(page: &mut Page, effects: &[ClusterEffect]) {
    let Some(first) = effects.first() else { return };
    page.gap();
    let [low, high] = first.page_clusters;
    let has_zswap = effects.iter().any(|effect| effect.store.kind == StoreKind::Zswap);
    let columns = [
        "store".to_owned(),
        "memory".to_owned(),
        "touched".to_owned(),
        format!("pages per fault {low} → {high}"),
        format!("a touch {low} → {high}"),
        format!("with {high}"),
    ];
    let of_stores =
        if has_zswap { format!(" ({})", stores::names(effects)) } else { String::new() };
    let text = format!(
        "vm.page-cluster from {low} to {high}, by kind of memory and order of access{of_stores}:"
    );
    page.prose(2, Role::Plain, &text);
    let mut table = Table::new(2, columns.map(Column::left).into());
    effects.iter().for_each(|effect| table.row(effect_row(effect, has_zswap)));
    table.print(page);
}

fn effect_row(effect: &ClusterEffect, has_zswap: bool) -> Vec<Cell> {
    let ([few, many], [short, long]) = (effect.pages_per_fault, effect.undisturbed_ns);
    let verdict = match effect.verdict {
        ClusterVerdict::Faster => "faster",
        ClusterVerdict::Slower => "slower",
        ClusterVerdict::NoDifferenceShown => "no difference shown",
    };
    let store = if has_zswap { stores::name(effect.store.kind) } else { "" };
    vec![
        store.into(),
        memory(effect.memory).into(),
        access(effect.access).into(),
        format!("{few:.2} → {many:.2}").into(),
        format!("{} → {}", format_time(short), format_time(long)).into(),
        verdict.into(),
    ]
}

fn memory(kind: SwappedKind) -> &'static str {
    match kind {
        SwappedKind::Private => "private",
        SwappedKind::Forked => "shared after fork",
        SwappedKind::Shmem => "shmem",
    }
}

fn access(access: Access) -> &'static str {
    match access {
        Access::Sequential => "in order",
        Access::Random => "at random",
    }
}

fn print_cluster(page: &mut Page, choice: &ClusterChoice) {
    let text = match choice.implied {
        _ if choice.memory.is_empty() => {
            "vm.page-cluster does nothing for zram here: this kernel reads nothing ahead from it."
                .to_owned()
        }
        Some(value) => format!(
            "vm.page-cluster: with zram, {value} took the least time over what the kernel reads ahead for, in both orders."
        ),
        None => {
            "vm.page-cluster: with zram, no value was shown to be faster on this kernel.".to_owned()
        }
    };
    page.gap();
    page.prose(2, Role::Plain, &text);
}

fn print_swappiness(page: &mut Page, ratio: &CostRatio) {
    let name = &ratio.compressor;
    let [low, high] = ratio.file_per_swap_spread;
    let [least, most] = ratio.swappiness_spread;
    let text = format!(
        "vm.swappiness: with {name} a page is swapped in within {}, one of a file is read from the disk within {}: {:.1} times \
         ({low:.1} to {high:.1}) as long. By the kernel's rule that is a swappiness of {} ({least} to {most}).",
        format_time(ratio.swap_ns_per_page),
        format_time(ratio.file_ns_per_page),
        ratio.file_per_swap,
        ratio.swappiness,
    );
    page.prose(2, Role::Plain, &text);
}

fn print_mixes(page: &mut Page, benchmark: &Benchmark) {
    let parts: Vec<String> = benchmark
        .tier_mixes
        .iter()
        .skip(1)
        .map(|mix| {
            let share = mix.zram_share * 100.0;
            format!("{share:.0} % from zram: {} ({})", mix.swappiness, format_time(mix.fault_ns))
        })
        .collect();
    if !parts.is_empty() {
        let text = format!(
            "Swappiness is one for all tiers. Where that disk is the tier below zram: {}.",
            parts.join(", ")
        );
        page.prose(2, Role::Quiet, &text);
    }
}

fn print_break_even(page: &mut Page, one: &BreakEven) {
    let (out, fault, other) =
        (format_time(one.out_ns), format_time(one.fault_ns), format_time(one.other_fault_ns));
    let pays = match one.faults_per_page {
        Some(faults) => format!("it pays from {faults:.2} faults per page on"),
        None => "it never pays in time".to_owned(),
    };
    let name = &one.contender;
    let text = format!("{name} costs {out} once, each fault {fault} against {other}: {pays}.");
    page.prose(2, Role::Quiet, &text);
}
