// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise bench`.

use std::path::PathBuf;

use clap::Args;
use pagewise_lab::contents::Mix;
use pagewise_model::{Bytes, Compressor};

use super::{Format, Sources};

pub(super) const BENCH: &str = "Find the best zram algorithm for the memory in use: measure each one on temporary zram \
    devices and in real swap, and name the best for latency, throughput, IOPS and compression ratio.\n\n\
    For each algorithm that the kernel offers, bench creates a zram device and fills all devices with the same \
    pages: a sample of memory, a dump, the contents of a swap device, or synthetic pages. Bench measures \
    requests of 4 to 32 KiB to the devices in rounds that interleave the algorithms. Then bench swaps its own \
    memory out and faults it in again, in a separate cgroup, with vm.page-cluster from 0 to 3. When bench \
    ends, even by Ctrl-C, bench removes its devices and restores every setting that bench changed. If bench is \
    killed, the next run or `pagewise undo` removes the devices and restores the settings. Without root or \
    without zram, bench measures the algorithms in user-space libraries, and the output says that libraries \
    were measured.\n\n\
    Swap readahead of 8 pages (vm.page-cluster = 3) is not the same as one request of 32 KiB, so bench \
    measures both.";

#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(flatten)]
    pub(crate) source: Sources,
    /// Measure synthetic pages, with these percentages of zero, repeated, text and random pages, and of duplicates
    #[arg(long, value_name = "KIND:N,...", group = "sources")]
    pub(crate) mix: Option<Mix>,
    /// Read page contents of other users' processes, not only of your own processes; needs root
    #[arg(long)]
    pub(crate) measure: bool,
    /// Maximum size of the sample of pages with which each device is filled [default: 256M, with --quick 64M]
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<Bytes>,
    /// A compression algorithm of the kernel to measure, such as lz4 or zstd:7; may be given several times [default:
    /// all]
    #[arg(long, value_name = "NAME[:LEVEL]")]
    pub(crate) algorithm: Vec<Compressor>,
    /// Finish in about 15 seconds and measure only requests of 4 and 32 KiB; only larger differences between
    /// algorithms can then be detected
    #[arg(long, conflicts_with = "full")]
    pub(crate) quick: bool,
    /// Measure swap for every algorithm, which takes about 10 minutes
    #[arg(long)]
    pub(crate) full: bool,
    /// Measure the disk that swap would use instead of zram, in addition to zram. If PATH is a device or a file, bench
    /// only reads it; if PATH is a folder, bench writes up to 512 MiB of synthetic pages into the folder
    #[arg(long, value_name = "PATH")]
    pub(crate) disk: Option<PathBuf>,
    /// Measure only requests to the block devices, not swap
    #[arg(long)]
    pub(crate) no_swap: bool,
    /// Measure swap even if this host already uses other swap; pages of other programs may then be swapped to the
    /// device of bench
    #[arg(long)]
    pub(crate) allow_shared_swap: bool,
    /// Measure the algorithms in user-space libraries even if zram is available
    #[arg(long, conflicts_with_all = ["disk", "allow_shared_swap"])]
    pub(crate) codecs: bool,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text", conflicts_with = "json")]
    pub(crate) format: Format,
    /// Write the result, the measurements of every round, the table and the chart to this folder, which must be empty
    /// or new
    #[arg(long, value_name = "DIR")]
    pub(crate) evidence: Option<PathBuf>,
    /// Write the host name, the boot ID and complete command lines to the folder of --evidence; without this option,
    /// names are hashed and arguments are left out
    #[arg(long, requires = "evidence")]
    pub(crate) keep_names: bool,
    /// Seed of the random selection of pages: if memory did not change, two runs with equal seeds select the same
    /// pages
    #[arg(long, default_value_t = 1, hide_short_help = true)]
    pub(crate) seed: u64,
}
