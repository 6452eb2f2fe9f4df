// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `pagewise scan`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use pagewise_model::typed::parse_duration;
use pagewise_pages::codec::Algorithm;
use pagewise_pages::kernel::{KERNELS, Kernel};

use super::parse_percent;

pub(super) const SCAN: &str = "Estimate how small the memory in use would become if it were compressed with \
    each algorithm that this kernel offers, and how much RAM zram would use to store this memory. The \
    estimate counts same-filled pages (pages that repeat one machine word) as zero bytes, because zram \
    allocates no memory for their contents.\n\n\
    The scan reads anonymous memory and shmem, because the kernel can swap only these two kinds of memory. \
    By default, the scan reads random pages until the compressed size is known within 2 % (95 % confidence) \
    for every algorithm. With --exact, the scan reads and compresses every page; with --duplicates, it reads \
    every page but compresses only a sample. Reading a page marks the page as accessed, so the kernel may \
    keep the page in RAM longer than without the scan. The scan does not read pages that are in swap. The \
    scan reads shared pages in such a way that the kernel does not copy them. If a page becomes shared (by a \
    fork or by KSM) just before the scan reads it, the kernel may copy it. The output states how many pages \
    the kernel may have copied, and how many page faults the scan caused. The scan keeps only counts and, to \
    find duplicates, hashes of pages. Only --dump writes page contents to a file.";

#[derive(Debug, Default, Args)]
#[command(mut_group("sources", |group| group.required(true)))]
pub(crate) struct Scan {
    #[command(flatten)]
    pub(crate) source: Sources,
    /// Write the estimate to this file as a web page, which needs no other file, no script and no network, instead of
    /// printing it. pagewise never overwrites a file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Also read file-backed pages (page cache), which the kernel never swaps out: it writes changed pages
    /// back to their file, and drops unchanged pages
    #[arg(long)]
    pub(crate) file_backed: bool,
    /// Also read the page contents of other users' processes; needs root
    #[arg(long)]
    pub(crate) measure: bool,
    /// How many pages to read, as a number such as 20000 or as a share of all pages such as 5%; with --duplicates,
    /// how many pages to compress
    #[arg(long, value_name = "N|P%", conflicts_with = "exact")]
    pub(crate) sample: Option<Amount>,
    /// Read and compress every page and count duplicate pages; this marks every page as accessed
    #[arg(long)]
    pub(crate) exact: bool,
    /// Read every page and count duplicate pages, but compress only a sample; this marks every page as accessed
    #[arg(long, conflicts_with = "exact")]
    pub(crate) duplicates: bool,
    /// Time limit for the scan, such as 5s or 1m; if the limit is reached, the result is labelled partial
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) budget: Option<Duration>,
    /// Limit on the CPU use of this command, in percent of one CPU
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    pub(crate) max_cpu: Option<f64>,
    /// Estimate the compressed size only for this algorithm, such as lz4 or zstd:7; may be given several
    /// times [default: all algorithms that this kernel offers]
    #[arg(long, value_name = "NAME[:LEVEL]")]
    pub(crate) algorithm: Vec<Algorithm>,
    /// Estimate how zram of kernel 6.1, 6.12 or 7.2 would store the pages, instead of zram of the running kernel
    #[arg(long, value_name = "RELEASE", value_parser = parse_kernel)]
    pub(crate) kernel_like: Option<Kernel>,
    /// Seed of the random selection of pages: if memory did not change, two runs with equal seeds select the same
    /// pages
    #[arg(long, default_value_t = 1, hide_short_help = true)]
    pub(crate) seed: u64,
    /// Write the contents of all pages that the scan reads to this new file, for `pagewise bench --file`; the file
    /// may contain secrets
    #[arg(long, value_name = "FILE")]
    pub(crate) dump: Option<PathBuf>,
}

/// The source of the pages: at most one of these.
#[derive(Debug, Default, Args)]
#[group(id = "sources", multiple = false)]
pub(crate) struct Sources {
    /// Read the memory of the process with this ID; may be given several times
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Vec<u32>,
    /// Read the memory of all processes with this name, such as redis-server or postgres*
    #[arg(long, value_name = "GLOB")]
    pub(crate) name: Option<String>,
    /// Read the memory of all processes in this memory cgroup and its descendants
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<String>,
    /// Read the memory of all processes of the user who runs pagewise; with --measure (needs root), read the memory
    /// of the processes of all users
    #[arg(long)]
    pub(crate) host: bool,
    /// Read pages from a file, such as a memory dump
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Read pages from a block device, such as a swap partition or a zram device; the device may be in use
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<PathBuf>,
    /// Read pages from an ELF core file
    #[arg(long, value_name = "FILE")]
    pub(crate) core: Option<PathBuf>,
}

impl Sources {
    /// Whether a source was named.
    pub(crate) fn is_named(&self) -> bool {
        let paths = [&self.file, &self.device, &self.core].into_iter().any(Option::is_some);
        let names = self.name.is_some() || self.cgroup.is_some();
        self.host || !self.pid.is_empty() || names || paths
    }
}

/// The value of `--sample`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Amount {
    Pages(u64),
    Percent(f64),
}

impl std::str::FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("expected a number of pages or of percent, as 20000 or 5%, found {text:?}");
        match text.strip_suffix('%') {
            Some(share) => parse_percent(share).map(Self::Percent).map_err(|_| wrong()),
            None => text.parse().ok().filter(|pages| *pages > 0).map(Self::Pages).ok_or_else(wrong),
        }
    }
}

pub(super) fn parse_kernel(text: &str) -> Result<Kernel, String> {
    let names = KERNELS.map(|kernel| kernel.name).join(", ");
    Kernel::from_name(text).ok_or_else(|| format!("expected one of {names}, found {text:?}"))
}
