// SPDX-License-Identifier: Apache-2.0 OR MIT
//! zram: every number with its unit, its meaning, and its name in zramctl. zmerge: the same without
//! zramctl, and what merging does.
//!
//! zramctl's MEM-USED is the peak, its TOTAL the memory in use now; a MEM-LIMIT of 0B means no
//! limit. The slot table is in none of its columns.

use pagewise_model::{Bytes, Driver, Merging, Pages, Ratio, Reading, SizeBand, Snapshot, Zram};

use super::kit::{Page, Role};
use super::table::{Cell, Column, Table};
use super::words::{
    cell, cell_with, count, describe_lack, format_ratio, format_reading, join_words, plural, share,
};

pub(super) fn print(page: &mut Page, snapshot: &Snapshot) {
    print_section(page, Driver::Zram, &snapshot.zram, snapshot.page_size());
    print_section(page, Driver::Zmerge, &snapshot.zmerge, snapshot.page_size());
}

fn print_section(page: &mut Page, driver: Driver, devices: &[Zram], page_size: Bytes) {
    let (ready, empty): (Vec<&Zram>, Vec<&Zram>) =
        devices.iter().partition(|zram| zram.initialised.get() != Some(false));
    if devices.is_empty() {
        return;
    }
    page.heading(driver.name(), &describe_driver(driver, ready.is_empty()));
    let together = if page.width() < 80 { 1 } else { 3 };
    let (known, unknown): (Vec<&Zram>, Vec<&Zram>) =
        ready.into_iter().partition(|zram| zram.mm_stat.original.value().is_some());
    known.chunks(together).for_each(|devices| table(devices, page_size).print(page));
    devices.iter().for_each(|zram| print_size_classes(page, zram, page_size));
    unknown.iter().for_each(|zram| page.prose(4, Role::Quiet, &glance(zram)));
    if !empty.is_empty() {
        let names: Vec<String> = empty.iter().map(|zram| zram.name()).collect();
        let text = format!("{}: no size set yet, so nothing can be stored", join_words(&names));
        page.prose(4, Role::Quiet, &text);
    }
}

/// A short explanation of the driver, which follows its name.
fn describe_driver(driver: Driver, nothing_set_up: bool) -> String {
    match driver {
        Driver::Zram if nothing_set_up => "compressed RAM as a block device".to_owned(),
        Driver::Zram => {
            "compressed RAM as a block device; in brackets what zramctl calls it".to_owned()
        }
        Driver::Zmerge => {
            "compressed RAM as a block device that stores each distinct page once".to_owned()
        }
    }
}

fn table(devices: &[&Zram], page_size: Bytes) -> Table {
    let mut columns = vec![Column::left("")];
    columns.extend(devices.iter().map(|zram| Column::right(zram.name())));
    columns.push(Column::words(""));
    let mut table = Table::new(4, columns);
    let zramctl = devices.iter().any(|zram| zram.driver == Driver::Zram);
    for (name, meaning, value) in table_columns() {
        let cells: Vec<Cell> = devices.iter().map(|zram| value(zram, page_size)).collect();
        if cells.iter().any(Cell::has_content) {
            let mut row = vec![Cell::from(*name)];
            row.extend(cells);
            let plain = meaning.split_once(" (").map_or(*meaning, |(plain, _)| plain);
            row.push(Cell::new(Role::Quiet, if zramctl { *meaning } else { plain }));
            table.row(row);
        }
    }
    table
}

/// Prints the stored pages by size class; nothing if the kernel does not show that.
fn print_size_classes(page: &mut Page, zram: &Zram, page_size: Bytes) {
    let Some(classes) = zram.size_classes.value().filter(|all| !all.classes().is_empty()) else {
        return;
    };
    page.gap();
    let title = format!("{} by size of the stored objects (size classes of zsmalloc)", zram.name());
    page.prose(4, Role::Plain, &title);
    let columns = ["object size", "objects", "RAM", "of it unused"].map(Column::right);
    let mut table = Table::new(4, columns.to_vec());
    for band in classes.bands(page_size) {
        table.row(band_row(format!("up to {}", band.up_to), &band));
    }
    table.row(band_row("all".to_owned(), &classes.sum(page_size)));
    table.print(page);
    page.prose(4, Role::Quiet, ABOUT_BANDS);
}

const ABOUT_BANDS: &str = "Unused: slots that hold no object. The largest objects are incompressible pages; \
    same-filled pages are no objects.";

fn band_row(size: String, band: &SizeBand) -> Vec<Cell> {
    let share = share(band.unused.get(), band.memory.get()).unwrap_or_default();
    let unused = format!("{} ({share})", band.unused);
    vec![size.into(), count(band.objects).into(), band.memory.to_string().into(), unused.into()]
}

/// A function that makes the table's cell with one value of a device.
type Measure = fn(&Zram, Bytes) -> Cell;

fn table_columns() -> &'static [(&'static str, &'static str, Measure)] {
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
            cell_with(&zram.mm_stat.memory_limit, |limit| limit_in_words(*limit))
        }),
        ("same-filled", "pages of one repeated word: they take no memory", |zram, size| {
            pages(&zram.mm_stat.same_filled_pages, zram, size)
        }),
        ("incompressible", "pages that would not compress: stored as they are", |zram, size| {
            pages(&zram.mm_stat.huge_pages, zram, size)
        }),
        ("merging", "when identical pages are searched", |zram, _| mode(zram)),
        ("  pass limit", "the most RAM that a merge pass may use", |zram, _| {
            merging_cell(zram, pass)
        }),
        ("merged", "pages that share a stored one", |zram, size| {
            merging_cell(zram, |merging| pages(&merging.merged_pages, zram, size))
        }),
        ("  saved", "what those would take", |zram, _| {
            merging_cell(zram, |merging| cell(&merging.merged_bytes))
        }),
        ("found", "share of the pages searched when written that had a copy", |zram, _| {
            merging_cell(zram, found_cell)
        }),
        ("index", "RAM for finding and counting copies; in no number above", |zram, _| {
            merging_cell(zram, |merging| cell(&merging.index_bytes))
        }),
        ("slot table", "RAM for the list of slots, used or not; in no number above", |zram, _| {
            cell(&zram.slot_table)
        }),
        ("written to disk", "held by the backing device", |zram, _| backing(zram)),
        ("failed writes", "writes that the device refused", |zram, _| failed_cell(zram)),
    ]
}

fn ratio(ratio: Option<Ratio>) -> Cell {
    ratio.map(format_ratio).unwrap_or_default().into()
}

fn limit_in_words(limit: Bytes) -> String {
    if limit.get() == 0 { "none".to_owned() } else { limit.to_string() }
}

/// A table's cell with a number of pages, and its share of all stored pages.
fn pages(pages: &Reading<Pages>, zram: &Zram, page_size: Bytes) -> Cell {
    cell_with(pages, |pages| {
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
            format!("{} on {device}", format_reading(&zram.bd_stat.held)).into()
        }
        _ => Cell::default(),
    }
}

fn failed_cell(zram: &Zram) -> Cell {
    match zram.io_stat.failed_writes.get() {
        Some(0) | None => Cell::default(),
        Some(failed) => Cell::new(Role::Warning, count(failed)),
    }
}

fn merging_cell(zram: &Zram, cell: impl FnOnce(&Merging) -> Cell) -> Cell {
    zram.merging.as_ref().map(cell).unwrap_or_default()
}

/// A table's cell about merging: the mode (such as `request`), whether merging is limited to
/// cgroups, and the progress of a running pass.
fn mode(zram: &Zram) -> Cell {
    merging_cell(zram, |merging| {
        let domain = if merging.is_within_cgroups() { ", within cgroups" } else { "" };
        match merging.slots_left.get().filter(|&left| left > 0) {
            Some(left) => {
                format!("{}{domain}, {} slots to go", format_reading(&merging.mode), count(left))
                    .into()
            }
            None if domain.is_empty() => cell(&merging.mode),
            None => format!("{}{domain}", format_reading(&merging.mode)).into(),
        }
    })
}

/// A table's cell with the limits of a merge pass, its memory budget and its rate: `1.0 MiB, 1,000
/// pages/s`; empty if the module does not report them.
fn pass(merging: &Merging) -> Cell {
    let budget = merging.budget.get().map(|budget| budget.to_string());
    let rate = merging.rate.get().filter(|&rate| rate > 0);
    let rate = rate.map(|rate| format!("{} pages/s", count(rate)));
    budget.into_iter().chain(rate).collect::<Vec<_>>().join(", ").into()
}

/// The share of duplicates among the pages for which inline merging searched one; empty if it
/// searched none.
fn found_cell(merging: &Merging) -> Cell {
    let found = merging.hits.get().zip(merging.count_searches().filter(|&all| all > 0));
    found.and_then(|(hits, all)| share(hits, all)).unwrap_or_default().into()
}

/// Describes one device in one line.
pub(super) fn glance(zram: &Zram) -> String {
    let name = zram.name();
    if zram.initialised.get() == Some(false) {
        return format!("{name}: not initialised");
    }
    if let Some(why) = describe_lack(&zram.mm_stat.original) {
        return format!("{name}: {why}");
    }
    if zram.mm_stat.original.get() == Some(Bytes::new(0)) {
        return format!(
            "{name} ({}) is empty, {} fit",
            format_reading(&zram.algorithm),
            format_reading(&zram.disksize)
        );
    }
    let held = format!(
        "{} in {}",
        format_reading(&zram.mm_stat.original),
        format_reading(&zram.mm_stat.memory_used)
    );
    let gain = zram.original_per_memory_used.map(|ratio| format!(", {}", format_ratio(ratio)));
    let merged = zram.merging.as_ref().and_then(describe_merged).unwrap_or_default();
    format!(
        "{name} ({}) holds {held}{}{merged}",
        format_reading(&zram.algorithm),
        gain.unwrap_or_default()
    )
}

/// Describes merging: `; merging inline, 8,192 pages merged save 10.2 MiB, 24 % of 33,000 found`.
fn describe_merged(merging: &Merging) -> Option<String> {
    let mode = &merging.mode.value()?.active;
    let mut text = match merging.slots_left.get().filter(|&left| left > 0) {
        Some(left) => format!("; merging now, {} slots to go", count(left)),
        None if mode.as_str() == "off" => "; merging off".to_owned(),
        None if mode.as_str() == "request" => "; merging on request".to_owned(),
        None => format!("; merging {mode}"),
    };
    if merging.is_within_cgroups() {
        text += " within cgroups";
    }
    if let Some((pages, bytes)) = merging.merged_pages.get().zip(merging.merged_bytes.get()) {
        text += &match pages.get() {
            0 => ", none merged".to_owned(),
            some => format!(", {} merged save {bytes}", plural(some, "page")),
        };
    }
    if let Some((hits, all)) =
        merging.hits.get().zip(merging.count_searches().filter(|&all| all > 0))
    {
        let share = share(hits, all).unwrap_or_default();
        text += &format!(", {share} of {} searched", plural(all, "page"));
    }
    Some(text)
}
