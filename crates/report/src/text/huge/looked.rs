// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One process, mapping by mapping: what is huge, what could be, and what that would cost.

use pagewise_model::{Blocks, Bytes, MappingCoverage, ProcessCoverage, ScanMethod};

use crate::text::kit::{Line, Page, Role};
use crate::text::table::{Cell, Column, Table};
use crate::text::words::{count, plural, share};

/// Mappings shown.
const MOST: usize = 8;

pub(super) fn print(page: &mut Page, process: &ProcessCoverage) {
    page.gap();
    let title = format!("{} (pid {})", process.name, process.pid);
    let start = Line::default().span(Role::Strong, title);
    page.hang_items(start, 2, &sizes(process));
    page.items(2, &blocks(&process.blocks, process.block));
    mappings(page, &process.largest);
    advice(page, process);
}

fn sizes(process: &ProcessCoverage) -> Vec<String> {
    let coverage = &process.coverage;
    let of = |huge: Bytes, all: Bytes| share(huge.get(), all.get()).unwrap_or_default();
    let mut items = vec![
        format!("anon {}, {} huge", coverage.anon, of(coverage.anon_huge, coverage.anon)),
        plural(process.mappings, "mapping"),
    ];
    if coverage.file > Bytes::new(0) {
        items.push(format!(
            "files and shmem {}, {} huge",
            coverage.file,
            of(coverage.file_huge, coverage.file)
        ));
    }
    if coverage.swapped > Bytes::new(0) {
        items.push(format!("{} in swap", coverage.swapped));
    }
    if coverage.zero > Bytes::new(0) {
        items.push(format!("{} read and never written", coverage.zero));
    }
    let how = match process.method {
        ScanMethod::PagemapScan => "PAGEMAP_SCAN",
        ScanMethod::Pagemap => "smaps and pagemap: this kernel has no PAGEMAP_SCAN",
    };
    items.push(format!("looked at in {:.1} ms by {how}", process.seconds * 1000.0));
    items
}

fn blocks(blocks: &Blocks, size: Bytes) -> Vec<String> {
    let kinds = [
        (blocks.huge, "huge"),
        (blocks.full, "full"),
        (blocks.half, "half full or more"),
        (blocks.eighth, "an eighth full or more"),
        (blocks.sparse, "emptier"),
    ];
    let known = kinds.iter().filter(|(number, _)| *number > 0);
    let mut items: Vec<String> =
        known.map(|(number, what)| format!("{} {what}", count(*number))).collect();
    if let Some(first) = items.first_mut() {
        *first = format!("blocks of {size} in private memory: {first}");
    }
    items
}

fn mappings(page: &mut Page, mappings: &[MappingCoverage]) {
    if mappings.is_empty() {
        return;
    }
    let columns = vec![
        Column::path("mapping"),
        Column::right("anon"),
        Column::right("file"),
        Column::right("huge"),
        Column::right("could be"),
        Column::left("eligible").spare(1),
        Column::left("advised").spare(2),
    ];
    let mut table = Table::new(4, columns);
    mappings.iter().take(MOST).for_each(|mapping| table.row(row(mapping)));
    table.print(page);
}

fn row(mapping: &MappingCoverage) -> Vec<Cell> {
    let coverage = &mapping.coverage;
    let all = coverage.anon.saturating_add(coverage.file);
    let huge = coverage.anon_huge.saturating_add(coverage.file_huge);
    let some = |size: Bytes| match size.get() {
        0 => Cell::default(),
        _ => size.to_string().into(),
    };
    let could = mapping.blocks.full + mapping.blocks.half;
    let name = match mapping.name.as_str() {
        "" => format!("{:x}", mapping.start),
        name => name.to_owned(),
    };
    vec![
        name.into(),
        some(coverage.anon),
        some(coverage.file),
        share(huge.get(), all.get()).unwrap_or_default().into(),
        if could > 0 { plural(could, "block").into() } else { Cell::default() },
        yes_no(mapping.eligible.get()),
        yes_no(mapping.advised.get()),
    ]
}

fn yes_no(answer: Option<bool>) -> Cell {
    answer.map_or_else(Cell::default, |yes| if yes { "yes".into() } else { "no".into() })
}

/// What the next command would do.
fn advice(page: &mut Page, process: &ProcessCoverage) {
    let could = process.blocks.full + process.blocks.half;
    if could == 0 {
        return;
    }
    let told = format!(
        "{} could be collapsed, for {} more memory; all that hold anything, as khugepaged does by \
         default, for {}",
        plural(could, "block"),
        process.blocks.growth_of_half,
        process.blocks.growth_of_all
    );
    page.prose(2, Role::Plain, &told);
    let command = format!("pagewise thp collapse --pid {}", process.pid);
    page.command(Line::indented(4), 4, &command);
}
