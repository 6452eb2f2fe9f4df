// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Zones: the distance of free memory from the watermarks, and its fragmentation.

use pagewise_model::{Bytes, FreeBlocks, Pages, Reading, Snapshot, Zone, ZonePressure};

use super::kit::{Page, Role};
use super::table::{Cell, Column, Table};
use super::words::{cell_with, format_pages};

/// Order of a huge page of 2 MiB with base pages of 4 KiB.
const HUGE_ORDER: usize = 9;

pub(super) fn print(page: &mut Page, snapshot: &Snapshot) {
    let zones: Vec<&Zone> = snapshot.zones.iter().filter(|zone| has_memory(zone)).collect();
    if !zones.is_empty() {
        page.heading("Zones", "free memory against the marks between which the kernel reclaims");
        table(&zones, snapshot.page_size()).print(page);
    }
    print_fragmentation(page, snapshot);
}

/// Whether a zone has memory; zones without any are left out.
fn has_memory(zone: &Zone) -> bool {
    zone.managed_pages.get() != Some(Pages::new(0))
}

fn table(zones: &[&Zone], page_size: Bytes) -> Table {
    let columns = vec![
        Column::left("zone"),
        Column::right("managed").spare(3),
        Column::right("free"),
        Column::right("min").spare(2),
        Column::right("low"),
        Column::right("high"),
        Column::words("so kswapd"),
    ];
    let mut table = Table::new(4, columns);
    let several = has_several_nodes(zones.iter().copied());
    for zone in zones {
        let mut cells = vec![Cell::from(name(zone.node, zone.name.as_str(), several))];
        let marks = [
            &zone.managed_pages,
            &zone.free_pages,
            &zone.min_pages,
            &zone.low_pages,
            &zone.high_pages,
        ];
        cells.extend(marks.map(|pages| cell_in_bytes(pages, page_size)));
        cells.push(state(zone));
        table.row(cells);
    }
    table
}

fn has_several_nodes<'a>(zones: impl IntoIterator<Item = &'a Zone>) -> bool {
    let mut nodes = zones.into_iter().map(|zone| zone.node);
    let first = nodes.next();
    nodes.any(|node| Some(node) != first)
}

fn name(node: u32, zone: &str, several_nodes: bool) -> String {
    if several_nodes { format!("node {node} {zone}") } else { zone.to_owned() }
}

fn cell_in_bytes(pages: &Reading<Pages>, page_size: Bytes) -> Cell {
    cell_with(pages, |pages| format_pages(*pages, page_size))
}

fn state(zone: &Zone) -> Cell {
    match zone.pressure() {
        None => Cell::default(),
        Some(state) => Cell::new(role(state), describe_state(state)),
    }
}

fn role(state: ZonePressure) -> Role {
    match state {
        ZonePressure::Idle | ZonePressure::Balanced => Role::Quiet,
        ZonePressure::Background => Role::Warning,
        ZonePressure::Direct => Role::Critical,
    }
}

/// The four states in plain words: what kswapd, the kernel's reclaim thread, does.
pub(super) fn describe_state(state: ZonePressure) -> &'static str {
    match state {
        ZonePressure::Idle => "sleeps (above high)",
        ZonePressure::Balanced => "finishes if awake (below high)",
        ZonePressure::Background => "reclaims (below low)",
        ZonePressure::Direct => "lags: programs wait (below min)",
    }
}

/// The names of the zones in each state, the worst state first.
pub(super) fn group_by_state(zones: &[Zone]) -> Vec<(ZonePressure, Vec<String>)> {
    let several = has_several_nodes(zones);
    let all = [
        ZonePressure::Direct,
        ZonePressure::Background,
        ZonePressure::Balanced,
        ZonePressure::Idle,
    ];
    let states = all.map(|state| {
        let inside = zones.iter().filter(|zone| zone.pressure() == Some(state));
        (state, inside.map(|zone| name(zone.node, zone.name.as_str(), several)).collect::<Vec<_>>())
    });
    states.into_iter().filter(|(_, names)| !names.is_empty()).collect()
}

fn print_fragmentation(page: &mut Page, snapshot: &Snapshot) {
    let several = snapshot.free_blocks.iter().any(|blocks| blocks.node > 0);
    let shares: Vec<String> = snapshot
        .free_blocks
        .iter()
        .filter_map(|blocks| describe_unusable(blocks, several))
        .collect();
    if shares.is_empty() {
        return;
    }
    let block = Pages::new(1 << HUGE_ORDER).to_bytes(snapshot.page_size());
    page.gap();
    page.fact(
        "Fragmentation",
        &format!(
            "of the free memory, this share lies in pieces too small for a block of {block} (order {HUGE_ORDER}): {}",
            shares.join(", ")
        ),
    );
}

fn describe_unusable(blocks: &FreeBlocks, several: bool) -> Option<String> {
    let share = blocks.unusable_free_index.get(HUGE_ORDER).copied().flatten()?;
    Some(format!("{} {:.0} %", name(blocks.node, blocks.zone.as_str(), several), share * 100.0))
}
