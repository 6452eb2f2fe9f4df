// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints a benchmark as CSV for other programs: first the columns that guides about zram print,
//! under the names that the guides use, then columns of Pagewise's own.
//!
//! The guides call the size of a request `page-cluster`: 4 KiB is 0, 32 KiB is 3. This is unrelated
//! to `vm.page-cluster`, the readahead of swap.

use std::fmt::Write;

use pagewise_model::{BenchRow, Benchmark, Direction};

const HEAD: &str = "algo,page-cluster,MiB/s,IOPS,Mean Latency (ns),99% Latency (ns),comp_ratio,\
    block_bytes,jobs,direction,50% Latency (ns),99.9% Latency (ns),cpu_ns_per_io,cpu_ns_per_page,\
    memory_used_bytes,rounds";

/// The results of `bench` as CSV: one row for each algorithm and request shape.
pub fn bench(benchmark: &Benchmark) -> String {
    let mut table = format!("{HEAD}\n");
    benchmark.rows.iter().for_each(|row| line(&mut table, row));
    table
}

fn line(table: &mut String, row: &BenchRow) {
    let (shape, figures) = (row.shape, row.figures);
    let cluster = shape.block_bytes.get().checked_div(4096).and_then(u64::checked_ilog2);
    let cluster = cluster.map(|cluster| cluster.to_string()).unwrap_or_default();
    let direction = match shape.direction {
        Direction::Read => "read",
        Direction::Write => "write",
    };
    let ratio = row.original_per_compressed.map(|ratio| format!("{ratio:.3}")).unwrap_or_default();
    let used = row.memory_used_bytes.map(|used| used.get().to_string()).unwrap_or_default();
    // writing into a String cannot fail
    let _ = writeln!(
        table,
        "{},{cluster},{:.1},{:.0},{:.0},{:.0},{ratio},{},{},{direction},{:.0},{:.0},{:.0},{:.0},{used},{}",
        row.compressor,
        figures.bytes_per_second / f64::from(1 << 20),
        figures.iops,
        figures.mean_ns,
        figures.p99_ns,
        shape.block_bytes.get(),
        shape.jobs,
        figures.p50_ns,
        figures.p999_ns,
        figures.cpu_ns_per_io,
        figures.cpu_ns_per_page,
        figures.rounds,
    );
}
