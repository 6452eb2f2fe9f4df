// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The block layer: a row per algorithm and block size, with the details of each.

use pagewise_model::{BenchRow, Benchmark, Direction, Figures, Reference, Shape};

use super::super::kit::{Page, Role};
use super::super::table::{Cell, Column, Table};
use super::{format_time, percentile};

pub(super) fn print(page: &mut Page, benchmark: &Benchmark) {
    let rows = &benchmark.rows;
    let Some(jobs) = rows.iter().map(|row| row.shape.jobs).max() else { return };
    page.heading("Block by block", "one request at a time, random blocks, past the page cache");
    let columns = vec![
        Column::left("algorithm"),
        Column::right("ratio"),
        Column::right("memory used").spare(9),
        Column::right("block size"),
        Column::right("read MiB/s"),
        Column::right("IOPS").spare(5),
        Column::right(format!("by {jobs}")).spare(2),
        Column::right("mean"),
        Column::right("p99").spare(4),
        Column::right("write mean").spare(3),
        Column::right("CPU/page").spare(1),
    ];
    let mut table = Table::new(2, columns);
    let firsts = rows.iter().filter(|row| has_shape(&row.shape, Direction::Read));
    let mut last = None;
    for row in firsts {
        table.row(cells(row, benchmark, jobs, last != Some(&row.compressor)));
        last = Some(&row.compressor);
    }
    table.print(page);
    print_references(page, benchmark);
}

fn has_shape(shape: &Shape, direction: Direction) -> bool {
    shape.jobs == 1 && shape.direction == direction
}

/// The figures of the same algorithm with another request shape.
fn find_same(rows: &[BenchRow], of: &BenchRow, shape: Shape) -> Option<Figures> {
    let is_same = |row: &&BenchRow| row.compressor == of.compressor && row.shape == shape;
    rows.iter().find(is_same).map(|row| row.figures)
}

fn cells(row: &BenchRow, benchmark: &Benchmark, jobs: u32, is_first: bool) -> Vec<Cell> {
    let rows = &benchmark.rows;
    let write = find_same(rows, row, Shape { direction: Direction::Write, ..row.shape });
    let by_many = find_same(rows, row, Shape { jobs, ..row.shape });
    let once =
        |text: Option<String>| if is_first { text.unwrap_or_default() } else { String::new() };
    vec![
        Cell::new(Role::Strong, once(Some(row.compressor.to_string()))),
        once(row.original_per_compressed.map(|ratio| format!("{ratio:.2}"))).into(),
        once(row.memory_used_bytes.map(|used| used.to_string())).into(),
        row.shape.block_bytes.to_string().into(),
        format!("{:.0}", row.figures.bytes_per_second / f64::from(1 << 20)).into(),
        format!("{:.0}", row.figures.iops).into(),
        by_many.map(|many| format!("{:.0}", many.iops)).unwrap_or_default().into(),
        format_time(row.figures.mean_ns).into(),
        percentile(row.figures.p99_ns, &benchmark.noise).into(),
        write.map(|write| format_time(write.mean_ns)).unwrap_or_default().into(),
        write.map(|write| format_time(write.cpu_ns_per_page)).unwrap_or_default().into(),
    ]
}

fn print_references(page: &mut Page, benchmark: &Benchmark) {
    let references = &benchmark.references;
    let Some(smallest) = references.iter().map(|one| one.shape.block_bytes).min() else { return };
    page.gap();
    let columns = vec![
        Column::left("beside them"),
        Column::left("layer"),
        Column::right(format!("read {smallest}")),
        Column::right("p99"),
        Column::right("write"),
    ];
    let mut table = Table::new(2, columns);
    let reads = references
        .iter()
        .filter(|one| has_shape(&one.shape, Direction::Read) && one.shape.block_bytes == smallest);
    reads.for_each(|one| table.row(reference_row(one, benchmark)));
    table.print(page);
    page.prose(2, Role::Quiet, LAYERS);
}

const LAYERS: &str = "block: the same way as zram's, with data that does not compress, or none at all; file and \
    memory skip that way, and are no goal for a block device.";

fn reference_row(one: &Reference, benchmark: &Benchmark) -> Vec<Cell> {
    let shape = Shape { direction: Direction::Write, ..one.shape };
    let write =
        benchmark.references.iter().find(|other| other.name == one.name && other.shape == shape);
    vec![
        one.name.to_string().into(),
        one.layer.to_string().into(),
        format_time(one.figures.mean_ns).into(),
        percentile(one.figures.p99_ns, &benchmark.noise).into(),
        write.map(|write| format_time(write.figures.mean_ns)).unwrap_or_default().into(),
    ]
}
