// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Swap tiers as a small picture, in the order in which the kernel fills them.

use pagewise_model::{Name, Snapshot, Tier, TierKind, Zram};

use super::bars;
use super::kit::{Page, Role};
use super::table::{Cell, Column, Table};
use super::words::{part_of, share, shown};

const BAR: usize = 12;

pub(super) fn print(page: &mut Page, snapshot: &Snapshot) {
    if snapshot.tiers.is_empty() {
        return none(page, snapshot);
    }
    page.heading("Swap tiers", "filled from the top; equal priorities take turns");
    let columns = vec![
        Column::right(""),
        Column::path(""),
        Column::name("").spare(2),
        Column::right("prio"),
        Column::right("used"),
        Column::left("").spare(1),
        Column::right(""),
        Column::words(""),
    ];
    let mut table = Table::new(4, columns);
    for (order, tier) in (1..).zip(&snapshot.tiers) {
        table.row(row(order, tier, snapshot));
    }
    table.print(page);
}

fn none(page: &mut Page, snapshot: &Snapshot) {
    if snapshot.memory.swap_total.get().is_some_and(|total| total.get() == 0) {
        page.gap();
        page.fact("Swap tiers", "none: anonymous memory has nowhere to go");
    }
}

fn row(order: u64, tier: &Tier, snapshot: &Snapshot) -> Vec<Cell> {
    let fill = tier.used.get().zip(tier.size.get());
    let (used, size) = fill.map_or((0, 0), |(used, size)| (used.get(), size.get()));
    let role = if fill.is_some() && used >= size { Role::Warning } else { Role::Plain };
    vec![
        Cell::new(Role::Quiet, order.to_string()),
        Cell::new(Role::Strong, short(tier)),
        kind(tier).into(),
        shown(&tier.priority).into(),
        fill.map_or_else(|| shown(&tier.used), |(used, size)| part_of(used, size)).into(),
        Cell::new(role, if fill.is_some() { bars::fill(used, size, BAR) } else { String::new() }),
        fill.and_then(|_| share(used, size)).unwrap_or_default().into(),
        Cell::new(Role::Quiet, note(tier, snapshot)),
    ]
}

/// Devices without their folder.
fn short(tier: &Tier) -> &str {
    let path = tier.path.as_str();
    path.strip_prefix("/dev/").unwrap_or(path)
}

/// What stands behind the tier: `ext4 on nvme0n1`.
fn kind(tier: &Tier) -> String {
    let on = |disk: &Name| format!(" on {disk}");
    let disk = tier.disk.name.value().map(on).unwrap_or_default();
    let spins = match tier.disk.rotational.get() {
        Some(true) => ", spinning",
        Some(false) | None => "",
    };
    match (tier.kind, tier.disk.file_system.value()) {
        (TierKind::Zram, _) => "compressed RAM".to_owned(),
        (TierKind::Partition, _) => format!("disk space{disk}{spins}"),
        (TierKind::File, Some(system)) => format!("{system}{disk}{spins}"),
        (TierKind::File, None) => format!("file{disk}{spins}"),
    }
}

fn note(tier: &Tier, snapshot: &Snapshot) -> String {
    let mut notes = Vec::new();
    if tier.used.get().is_some_and(|used| tier.size.get().is_some_and(|size| used >= size)) {
        notes.push("full".to_owned());
    }
    if tier.zswap_in_front.get() == Some(true) {
        notes.push("zswap in front".to_owned());
    }
    if let Some(table) = device(tier, snapshot).and_then(|zram| zram.slot_table.get()) {
        notes.push(format!("costs {table} empty"));
    }
    notes.join(", ")
}

/// The zram device behind the tier.
fn device<'a>(tier: &Tier, snapshot: &'a Snapshot) -> Option<&'a Zram> {
    snapshot.zram.iter().find(|zram| tier.kind == TierKind::Zram && zram.name() == short(tier))
}
