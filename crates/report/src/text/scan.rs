// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise scan`: the estimated size of memory after compression, a row per algorithm, and the
//! error of the estimate.

use std::fmt::Display;

use pagewise_model::{AlgorithmEstimate, Bytes, Effective, Ends, Estimate, Outcome};

use super::duplicates;
use super::kit::{Line, Page, Role};
use super::table::{Cell, Column, Table};
use super::words::{part_of, plural, share};
use crate::ScanReport;

/// Maximum number of parts shown next to the whole, the largest first.
const PARTS: usize = 10;

pub(super) fn print(page: &mut Page, scanned: &ScanReport<'_>) {
    let Some((whole, parts)) = scanned.estimates.split_first() else { return };
    print_heading(page, whole, scanned);
    if whole.sampled_pages == 0 {
        page.gap();
        page.prose(2, Role::Strong, &describe_nothing_to_read(whole));
    } else {
        print_algorithms(page, whole);
        print_kinds(page, whole);
        print_meaning(page, whole);
        print_effective(page, whole, scanned.effective);
    }
    print_parts(page, parts);
    print_notes(page, whole, scanned);
}

/// Prints a few words for each algorithm, for the report.
pub(super) fn print_gain(page: &mut Page, whole: &Estimate, processes: usize) {
    let of = match processes {
        0 => "the one process".to_owned(),
        some => format!("the {some} largest processes"),
    };
    let size = bytes(whole, whole.pages);
    let mut items = vec![format!("{size} of {of} that may be read would take, swapped to zram")];
    items.extend(whole.algorithms.iter().map(describe_in_short));
    items.push(format!(
        "{} pages sampled: pagewise scan says more",
        format_grouped(whole.sampled_pages)
    ));
    page.fact_items("Compressible", &items);
}

/// Describes an algorithm's estimate in short: `zstd 21.2 MiB (ratio 4.44, 4.38 to 4.51)`.
fn describe_in_short(algorithm: &AlgorithmEstimate) -> String {
    let used = algorithm.memory_in_pool_bytes.saturating_add(algorithm.slot_table_bytes);
    let interval = algorithm.original_per_compressed_interval.filter(|[low, high]| low < high);
    let between = interval.map(|ends| format!(", {}", format_range(ends.map(format_ratio))));
    let ratio = algorithm.original_per_compressed.map(format_ratio);
    let ratio = ratio.map(|ratio| format!(" (ratio {ratio}{})", between.unwrap_or_default()));
    format!("{} {used}{}", algorithm.name, ratio.unwrap_or_default())
}

fn print_heading(page: &mut Page, whole: &Estimate, scanned: &ScanReport<'_>) {
    let source = &whole.source;
    let pid = source.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
    let size = bytes(whole, whole.pages);
    let seen = match whole.sampled_pages == whole.mapped_pages {
        true if whole.sized_pages < whole.mapped_pages => format!(
            "all {} read, {} compressed",
            plural(whole.mapped_pages, "page"),
            format_grouped(whole.sized_pages)
        ),
        true => format!("all {} read", plural(whole.mapped_pages, "page")),
        false => {
            let what = if whole.mapped_pages == whole.pages { "page" } else { "mapped page" };
            let all = plural(whole.mapped_pages, what);
            format!("{} of {all} sampled", format_grouped(whole.sampled_pages))
        }
    };
    let [low, high] = whole.pages_interval.map(|pages| bytes(whole, pages));
    let size = if low < high { format!("{size} ({low} to {high})") } else { size.to_string() };
    let mut items = vec![size, seen];
    items.extend(describe_error(whole));
    items.push(format!("{:.2} s CPU", scanned.cost.cpu_seconds));
    let start = Line::default().span(Role::Strong, format!("scan of {}{pid}", source.name));
    page.hang_items(start, 2, &items);
    if let Some(why) = &whole.partial {
        page.prose(2, Role::Warning, &format!("partial: {why}"));
    }
}

fn format_grouped(number: u64) -> String {
    pagewise_model::group_digits(number)
}

fn describe_nothing_to_read(whole: &Estimate) -> String {
    match whole.swapped_pages {
        0 => "Nothing to read: there is no memory here that swap would take.".to_owned(),
        swapped => format!("Nothing to read: {} are in swap already.", plural(swapped, "page")),
    }
}

/// Describes the error of the least certain compression ratio.
fn describe_error(whole: &Estimate) -> Option<String> {
    let half = |algorithm: &AlgorithmEstimate| {
        let [low, high] = algorithm.original_per_compressed_interval?;
        Some((high - low) / 2.0 / algorithm.original_per_compressed?)
    };
    let worst = whole.algorithms.iter().filter_map(half).fold(0.0, f64::max);
    (worst > 0.0).then(|| format!("± {:.1} %", worst * 100.0))
}

fn print_algorithms(page: &mut Page, whole: &Estimate) {
    page.gap();
    let columns = vec![
        Column::left("algorithm"),
        Column::right("would take"),
        Column::right("memory used"),
        Column::right("ratio"),
        Column::left("95 % interval"),
        Column::right("will not compress"),
    ];
    let mut table = Table::new(2, columns);
    whole.algorithms.iter().for_each(|algorithm| table.row(row(whole, algorithm)));
    table.print(page);
}

fn row(whole: &Estimate, algorithm: &AlgorithmEstimate) -> Vec<Cell> {
    let ratio = algorithm.original_per_compressed.map(format_ratio).unwrap_or_default();
    let interval = algorithm.original_per_compressed_interval.filter(|[low, high]| low < high);
    vec![
        Cell::new(Role::Strong, algorithm.compressor().to_string()),
        algorithm.compressed_bytes.to_string().into(),
        algorithm.memory_used_bytes.to_string().into(),
        ratio.into(),
        interval.map(|ends| format_range(ends.map(format_ratio))).unwrap_or_default().into(),
        share(algorithm.huge_pages, whole.pages).unwrap_or_default().into(),
    ]
}

fn format_ratio(ratio: f64) -> String {
    format!("{ratio:.2}")
}

fn format_range<T: Display>([low, high]: Ends<T>) -> String {
    format!("{low} to {high}")
}

fn print_kinds(page: &mut Page, whole: &Estimate) {
    page.gap();
    let of_all = |pages| share(pages, whole.pages).unwrap_or_else(|| "0 %".to_owned());
    let mut items = vec![format!(
        "same-filled {} (zeros {})",
        of_all(whole.same_filled_pages),
        of_all(whole.zero_pages)
    )];
    items.push(duplicates::describe_in_short(whole));
    if whole.swapped_pages > 0 {
        items.push(format!("{} in swap already, not read", bytes(whole, whole.swapped_pages)));
    }
    items.extend(describe_huge_pages(whole));
    page.items(2, &items);
    duplicates::print(page, whole);
}

/// Describes huge pages, if the kernel shows which pages belong to one.
fn describe_huge_pages(whole: &Estimate) -> Option<String> {
    let mapped = whole.huge.mapped_pages.get()?;
    let part = share(mapped, whole.pages).unwrap_or_else(|| "0 %".to_owned());
    let zeros = whole.huge.zero_pages.get().filter(|zeros| *zeros > 0);
    let bloat = zeros.map(|zeros| format!(", {} of it zeros", bytes(whole, zeros)));
    let ranges = whole.huge.collapsible_ranges.get().filter(|ranges| *ranges > 0);
    let more = ranges.map(|ranges| format!(", {} worth collapsing", plural(ranges, "range")));
    Some(format!("in huge pages {part}{}{}", bloat.unwrap_or_default(), more.unwrap_or_default()))
}

fn print_meaning(page: &mut Page, whole: &Estimate) {
    let Some(first) = whole.algorithms.first() else { return };
    page.gap();
    let size = bytes(whole, whole.pages);
    let used = first.memory_in_pool_bytes.saturating_add(first.slot_table_bytes);
    let freed = size.saturating_sub(used);
    let cold = match &whole.cold.outcome {
        Outcome::Value(pages) => format!("{} were not used for 2 minutes", bytes(whole, *pages)),
        Outcome::Absent(why) | Outcome::Denied(why) => {
            format!("how much is cold is unknown: {why}")
        }
    };
    let text = format!(
        "Swapped to zram with {}, all of it would take {}, {} of slot table included: at most {freed} \
         would be free for other things. That is gained for cold pages only; pages in use come back \
         ({cold}). \
         \"memory used\" is what zram of {} would report after a fresh fill, size classes of zsmalloc \
         included; after many overwrites it is up to {}.",
        first.name,
        part_of(used, size),
        first.slot_table_bytes,
        kernel(first),
        first.memory_used_worn_bytes
    );
    page.prose(2, Role::Quiet, &format!("{text}{}", own_zspages(first)));
}

/// Says, for a small amount of memory, that much of what a device of its own would use are zspages
/// that are only partly filled.
fn own_zspages(first: &AlgorithmEstimate) -> String {
    let shared = first.memory_in_pool_bytes;
    let own = first.memory_used_bytes.saturating_sub(shared);
    if own.get() * 10 <= shared.get() {
        return String::new();
    }
    format!(
        " Of it {own} are the ends of zspages, one for each size class: a device that holds more than \
         this fills them."
    )
}

fn print_effective(page: &mut Page, whole: &Estimate, effective: Option<Effective>) {
    let (Some(effective), Some(first)) = (effective, whole.algorithms.first()) else { return };
    let text = format!(
        "For example: a zram of {} (what doctor recommends) full of memory like this takes {} with {}, so that \
         {} of RAM hold {}. It pays from a ratio of {:.3} to memory used on; here it is {:.1}.",
        effective.disksize_bytes,
        effective.takes_bytes,
        first.name,
        effective.ram_bytes,
        effective.holds_bytes,
        effective.break_even_ratio,
        effective.disksize_bytes.get() as f64 / effective.takes_bytes.get().max(1) as f64
    );
    page.prose(2, Role::Quiet, &text);
}

fn kernel(algorithm: &AlgorithmEstimate) -> String {
    match algorithm.kernel.as_str() {
        own @ "this kernel" => own.to_owned(),
        release => format!("kernel {release}"),
    }
}

fn print_parts(page: &mut Page, parts: &[Estimate]) {
    let mut largest: Vec<&Estimate> = parts.iter().filter(|part| part.sampled_pages > 0).collect();
    if largest.len() < 2 {
        return;
    }
    largest.sort_by_key(|part| std::cmp::Reverse(part.pages));
    let note = if largest.len() > PARTS { "the largest; --json has all" } else { "" };
    page.heading("By process", note);
    let columns = vec![
        Column::name("    process"),
        Column::right("pid"),
        Column::right("memory"),
        Column::right("read").spare(2),
        Column::right("would take"),
        Column::right("ratio"),
        Column::left("95 % interval").spare(1),
        Column::right("same-filled").spare(3),
    ];
    let mut table = Table::new(4, columns);
    largest.iter().take(PARTS).for_each(|part| table.row(part_row(part)));
    table.print(page);
}

fn part_row(part: &Estimate) -> Vec<Cell> {
    let first = part.algorithms.first();
    let ratio = first.and_then(|first| first.original_per_compressed);
    let interval = first.and_then(|first| first.original_per_compressed_interval);
    vec![
        part.source.name.to_string().into(),
        part.source.pid.map(|pid| pid.to_string()).unwrap_or_default().into(),
        bytes(part, part.pages).to_string().into(),
        format_grouped(part.sampled_pages).into(),
        first.map(|first| first.compressed_bytes.to_string()).unwrap_or_default().into(),
        ratio.map(format_ratio).unwrap_or_default().into(),
        interval.map(|ends| format_range(ends.map(format_ratio))).unwrap_or_default().into(),
        share(part.same_filled_pages, part.pages).unwrap_or_default().into(),
    ]
}

fn print_notes(page: &mut Page, whole: &Estimate, scanned: &ScanReport<'_>) {
    page.gap();
    let disturbed = &whole.disturbed;
    let text = format!(
        "Looking marked {} as used, unshared at most {} and caused {}.",
        plural(disturbed.referenced_pages, "page"),
        format_grouped(disturbed.unshared_pages),
        plural(disturbed.faults, "fault")
    );
    page.prose(2, Role::Quiet, &text);
    scanned.notes.iter().for_each(|note| page.prose(2, Role::Quiet, note));
}

fn bytes(estimate: &Estimate, pages: u64) -> Bytes {
    Bytes::new(pages.saturating_mul(estimate.page_bytes.get()))
}
