// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A small diagram of the swap tiers, in the order in which the kernel fills them.

use pagewise_model::{Name, Snapshot, Tier, TierKind, Zram};

use super::kit::{Page, Role};
use super::table::{Cell, Column, Table};
use super::words::{format_reading, part_of, share};

/// Number of cells of a tier's bar: few, so that the text next to it fits into one line.
const BAR: usize = 8;

pub(super) fn print(page: &mut Page, snapshot: &Snapshot) {
    if snapshot.tiers.is_empty() {
        return print_none(page, snapshot);
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

fn print_none(page: &mut Page, snapshot: &Snapshot) {
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
        Cell::new(Role::Strong, short_path(tier)),
        kind(tier, snapshot.host.virtualization.value().is_some()).into(),
        format_reading(&tier.priority).into(),
        fill.map_or_else(|| format_reading(&tier.used), |(used, size)| part_of(used, size)).into(),
        fill.map_or_else(Cell::default, |_| Cell::bar(role, used, size, BAR)),
        fill.and_then(|_| share(used, size)).unwrap_or_default().into(),
        Cell::new(Role::Quiet, note(tier, snapshot)),
    ]
}

/// The path of a swap tier without `/dev/`.
fn short_path(tier: &Tier) -> &str {
    let path = tier.path.as_str();
    path.strip_prefix("/dev/").unwrap_or(path)
}

/// The medium of the tier: `ssd nvme0n1, ext4`. The most important word comes first, because the
/// end may be cut.
fn kind(tier: &Tier, in_guest: bool) -> String {
    if tier.kind.is_ram() {
        return "compressed RAM".to_owned();
    }
    if let Some(file) = describe_loop(tier) {
        return file;
    }
    let medium = medium(tier.disk.rotational.get(), in_guest);
    let disk = tier.disk.name.value().map(Name::as_str);
    let disk = [medium, disk].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let inside = tier.disk.file_system.value().map(Name::as_str);
    let inside = inside.or((tier.kind == TierKind::File).then_some("file"));
    let parts = [disk.as_str(), inside.unwrap_or_default()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

/// For a loop device: that it is one, and what is behind it.
fn describe_loop(tier: &Tier) -> Option<String> {
    let name = tier.disk.name.value().filter(|name| name.as_str().starts_with("loop"))?;
    let behind = match (tier.disk.backing_file_system.value(), tier.disk.backing_file.value()) {
        (Some(file_system), Some(file)) => format!(": {file_system}, {file}"),
        (None, Some(file)) => format!(": {file}"),
        _ => String::new(),
    };
    Some(format!("loop device {name}{behind}"))
}

/// The medium of a disk in a word. A virtual disk is reported as rotational unless the hypervisor
/// says otherwise, so in a guest this is not evidence.
fn medium(rotational: Option<bool>, in_guest: bool) -> Option<&'static str> {
    rotational.map(|spins| match (spins, in_guest) {
        (true, true) => "virtual",
        (true, false) => "hdd",
        (false, _) => "ssd",
    })
}

fn note(tier: &Tier, snapshot: &Snapshot) -> String {
    let mut notes = Vec::new();
    if tier.is_full() == Some(true) {
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

/// The zram or zmerge device of the swap tier.
fn device<'a>(tier: &Tier, snapshot: &'a Snapshot) -> Option<&'a Zram> {
    snapshot.compressed_devices().find(|zram| tier.kind.is_ram() && zram.name() == short_path(tier))
}
