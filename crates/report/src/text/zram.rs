// SPDX-License-Identifier: Apache-2.0 OR MIT
//! zram: every number with its unit, its meaning, and the name under which zramctl prints it.
//!
//! zramctl's MEM-USED is the peak and its TOTAL the memory in use now; a MEM-LIMIT of 0B means that
//! there is none. The slot table is in none of its columns.

use pagewise_model::{Bytes, Pages, Ratio, Reading, Snapshot, Zram};

use super::kit::{Page, Role};
use super::table::{Cell, Column, Table};
use super::words::{cell, cell_as, count, lack, listed, share, shown, to_one};

pub(super) fn print(page: &mut Page, snapshot: &Snapshot) {
    let (ready, empty): (Vec<&Zram>, Vec<&Zram>) =
        snapshot.zram.iter().partition(|zram| zram.initialised.get() != Some(false));
    if snapshot.zram.is_empty() {
        return;
    }
    let brackets = if ready.is_empty() { "" } else { "; in brackets what zramctl calls it" };
    page.heading("zram", &format!("compressed RAM as a block device{brackets}"));
    let together = if page.width() < 80 { 1 } else { 3 };
    let (known, unknown): (Vec<&Zram>, Vec<&Zram>) =
        ready.into_iter().partition(|zram| zram.mm_stat.original.value().is_some());
    known.chunks(together).for_each(|devices| table(devices, snapshot.page_size()).print(page));
    unknown.iter().for_each(|zram| page.prose(4, Role::Quiet, &glance(zram)));
    if !empty.is_empty() {
        let names: Vec<String> = empty.iter().map(|zram| zram.name()).collect();
        let text = format!("{}: no size set yet, so nothing can be stored", listed(&names));
        page.prose(4, Role::Quiet, &text);
    }
}

fn table(devices: &[&Zram], page_size: Bytes) -> Table {
    let mut columns = vec![Column::left("")];
    columns.extend(devices.iter().map(|zram| Column::right(zram.name())));
    columns.push(Column::words(""));
    let mut table = Table::new(4, columns);
    for (name, meaning, value) in measures() {
        let cells: Vec<Cell> = devices.iter().map(|zram| value(zram, page_size)).collect();
        if cells.iter().any(Cell::has_content) {
            let mut row = vec![Cell::from(*name)];
            row.extend(cells);
            row.push(Cell::new(Role::Quiet, *meaning));
            table.row(row);
        }
    }
    table
}

/// What to print of a device.
type Measure = fn(&Zram, Bytes) -> Cell;

fn measures() -> &'static [(&'static str, &'static str, Measure)] {
    &[
        ("used as", "", |zram, _| cell(&zram.used_as)),
        ("algorithm", "", |zram, _| cell(&zram.algorithm)),
        ("size", "uncompressed data that fits (DISKSIZE)", |zram, _| cell(&zram.disksize)),
        ("stored", "uncompressed data in it now (DATA)", |zram, _| cell(&zram.mm_stat.original)),
        ("compressed", "the same after compression (COMPR)", |zram, _| {
            cell(&zram.mm_stat.compressed)
        }),
        ("  ratio", "stored to compressed", |zram, _| ratio(zram.original_per_compressed)),
        ("memory used", "RAM taken for it, with the allocator's waste (TOTAL)", |zram, _| {
            cell(&zram.mm_stat.memory_used)
        }),
        ("  ratio", "stored to memory used: the true gain", |zram, _| {
            ratio(zram.original_per_memory_used)
        }),
        ("peak", "most RAM it ever took (MEM-USED)", |zram, _| cell(&zram.mm_stat.memory_used_max)),
        ("limit", "most RAM it may take (MEM-LIMIT)", |zram, _| {
            cell_as(&zram.mm_stat.memory_limit, |limit| limit_in_words(*limit))
        }),
        ("same-filled", "pages of one repeated word: they take no memory", |zram, size| {
            pages(&zram.mm_stat.same_filled_pages, zram, size)
        }),
        ("incompressible", "pages that would not compress: stored as they are", |zram, size| {
            pages(&zram.mm_stat.huge_pages, zram, size)
        }),
        ("slot table", "RAM for the list of slots, used or not; in no number above", |zram, _| {
            cell(&zram.slot_table)
        }),
        ("written to disk", "held by the backing device", |zram, _| backing(zram)),
        ("failed writes", "writes that the device refused", |zram, _| failed(zram)),
    ]
}

fn ratio(ratio: Option<Ratio>) -> Cell {
    ratio.map(to_one).unwrap_or_default().into()
}

fn limit_in_words(limit: Bytes) -> String {
    if limit.get() == 0 { "none".to_owned() } else { limit.to_string() }
}

/// A number of pages and which share of what is stored they are.
fn pages(pages: &Reading<Pages>, zram: &Zram, page_size: Bytes) -> Cell {
    cell_as(pages, |pages| {
        let size = pages.to_bytes(page_size);
        let stored = zram.mm_stat.original.get().and_then(|all| share(size.get(), all.get()));
        match stored {
            Some(share) => format!("{size} ({share})"),
            None => size.to_string(),
        }
    })
}

fn backing(zram: &Zram) -> Cell {
    match zram.backing_device.value() {
        Some(device) if device.as_str() != "none" => {
            format!("{} on {device}", shown(&zram.bd_stat.held)).into()
        }
        _ => Cell::default(),
    }
}

fn failed(zram: &Zram) -> Cell {
    match zram.io_stat.failed_writes.get() {
        Some(0) | None => Cell::default(),
        Some(failed) => Cell::new(Role::Warning, count(failed)),
    }
}

/// One device in one line, for a glance.
pub(super) fn glance(zram: &Zram) -> String {
    let name = zram.name();
    if zram.initialised.get() == Some(false) {
        return format!("{name}: not initialised");
    }
    if let Some(why) = lack(&zram.mm_stat.original) {
        return format!("{name}: {why}");
    }
    if zram.mm_stat.original.get() == Some(Bytes::new(0)) {
        return format!(
            "{name} ({}) is empty, {} fit",
            shown(&zram.algorithm),
            shown(&zram.disksize)
        );
    }
    let held = format!("{} in {}", shown(&zram.mm_stat.original), shown(&zram.mm_stat.memory_used));
    let gain = zram.original_per_memory_used.map(|ratio| format!(", {}", to_one(ratio)));
    format!("{name} ({}) holds {held}{}", shown(&zram.algorithm), gain.unwrap_or_default())
}
