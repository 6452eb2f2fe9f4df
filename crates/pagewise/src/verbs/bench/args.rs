// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise bench`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pagewise_model::{Bytes, Compressor};
use pagewise_workload::contents::Mix;

use super::Sources;

pub(super) const BENCH: &str = "Measure the speed and the compression ratio of each zram compression \
    algorithm on a sample of the memory in use. Bench stores the sample on temporary zram devices, and \
    measures them as block devices and as swap. The output names the best algorithm for each of five goals: \
    latency, throughput, IOPS, compression ratio, and a balance of read time, write time and memory used.\n\n\
    Bench creates a zram device for each algorithm that the kernel offers, and fills all devices with the \
    same pages: a sample of the memory in use, a memory dump, the contents of a swap device, or synthetic \
    pages. Bench measures read and write requests of 4 to 32 KiB in rounds; each round measures all \
    algorithms, so that changes of the machine's load affect all algorithms alike. Then bench uses the \
    devices as swap: a process in a separate cgroup swaps its own memory out and in again. For the \
    algorithm that is best for the goal `balanced`, bench repeats this measurement with each combination of \
    memory (private, shared after a fork, shmem) and vm.page-cluster (0 to 3). When bench ends, even \
    after Ctrl-C, it removes its devices and restores every setting that it changed. If bench is killed, \
    the next pagewise command that changes the machine, or `pagewise undo`, removes the devices and \
    restores the settings. Without root or without zram, bench measures compression libraries in user \
    space instead of the kernel's zram, and the output says so.\n\n\
    Swap readahead of 8 pages (vm.page-cluster = 3) does not cost the same as one request of 32 KiB, so \
    bench measures both.";

#[derive(Debug, Args)]
pub(crate) struct Bench {
    #[command(flatten)]
    pub(crate) source: Sources,
    /// Measure synthetic pages instead of memory in use. The percentages N of the kinds zero, repeated (a record of
    /// 64 bytes over and over), text and random must add up to 100, as in zero:10,text:60,random:30; duplicates:N
    /// makes N % of these pages copies of earlier pages
    #[arg(long, value_name = "KIND:N,...", group = "sources")]
    pub(crate) mix: Option<Mix>,
    /// Also read the page contents of other users' processes; needs root
    #[arg(long)]
    pub(crate) measure: bool,
    /// Maximum size of the sample of pages that bench writes to each device [default: 256M, with --quick 64M]
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<Bytes>,
    /// Measure only this compression algorithm of the kernel, such as lz4 or zstd:7; may be given several times
    /// [default: all algorithms]
    #[arg(long, value_name = "NAME[:LEVEL]")]
    pub(crate) algorithm: Vec<Compressor>,
    /// Finish in about 15 seconds: measure fewer rounds, and only requests of 4 and 32 KiB; small differences between
    /// algorithms then remain undetected
    #[arg(long, conflicts_with = "full")]
    pub(crate) quick: bool,
    /// Measure more rounds and more compression levels; for every algorithm, also measure swap with shared memory and
    /// with vm.page-cluster from 0 to 3; takes about 10 minutes
    #[arg(long)]
    pub(crate) full: bool,
    /// Measure a disk in addition to zram, to compare zram with swap on this disk. If PATH is a device or a file,
    /// bench only reads it; if PATH is a folder, bench writes up to 512 MiB of synthetic pages into the folder
    #[arg(long, value_name = "PATH")]
    pub(crate) disk: Option<PathBuf>,
    /// Measure the zram devices only as block devices, not as swap
    #[arg(long)]
    pub(crate) no_swap: bool,
    /// Also measure zswap with each of these algorithms that it supports, and compare it with zram. While it is
    /// measured, zswap is enabled in front of a temporary swap file; on a host that uses other swap, it is not measured
    #[arg(long, conflicts_with = "no_swap")]
    pub(crate) zswap: bool,
    /// Measure swap even if this host already uses other swap areas; the kernel may then swap pages of other
    /// programs to the zram devices of bench
    #[arg(long)]
    pub(crate) allow_shared_swap: bool,
    /// Measure compression libraries in user space instead of zram; this is the default without root or without zram
    #[arg(long, conflicts_with_all = ["disk", "allow_shared_swap", "zswap"])]
    pub(crate) codecs: bool,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text", conflicts_with = "json")]
    pub(crate) format: Format,
    /// Write the result to this file as a web page, which needs no other file, no script and no network, instead of
    /// printing it. pagewise never overwrites a file
    #[arg(long, value_name = "FILE", conflicts_with = "format")]
    pub(crate) html: Option<PathBuf>,
    /// Write the result, the measurements of every round, a table and a chart to this folder, which must be empty or
    /// new
    #[arg(long, value_name = "DIR")]
    pub(crate) evidence: Option<PathBuf>,
    /// Keep the host name, the boot ID and complete command lines in the files of --evidence; without this
    /// option, pagewise hashes the host name and the boot ID, and leaves out the arguments of command lines
    #[arg(long, requires = "evidence")]
    pub(crate) keep_names: bool,
    /// Seed of the random selection of pages: if memory did not change, two runs with equal seeds select the same
    /// pages
    #[arg(long, default_value_t = 1, hide_short_help = true)]
    pub(crate) seed: u64,
}

/// The output format of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table in plain text
    Text,
    /// Comma-separated values, with one row for each algorithm, request size, direction (read or write) and number of
    /// threads
    Csv,
}
