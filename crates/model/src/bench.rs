// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What compressed RAM costs on this machine: block by block, and fault by fault.
//!
//! Times are nanoseconds. A figure is the median over rounds; its spread is the least and the
//! largest round. Rounds are interleaved: whatever else the machine does hits all alike.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Ends, Name, Reading};

/// Which way the data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Out of the device: decompressing.
    Read,
    /// Into it: compressing.
    Write,
}

/// What somebody asks for at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct Shape {
    /// Bytes of one request. Guides call 4, 8, 16 and 32 KiB page-cluster 0 to 3.
    pub block_bytes: Bytes,
    /// Threads, each with one request at a time.
    pub jobs: u32,
    /// Which way.
    pub direction: Direction,
}

/// What requests of one shape cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Figures {
    /// Rounds that this is the median of.
    pub rounds: u32,
    /// Requests in all rounds together.
    pub requests: u64,
    /// Requests a second, all jobs together.
    pub iops: f64,
    /// Of the slowest and the fastest round.
    pub iops_spread: Ends<f64>,
    /// Bytes a second, all jobs together.
    pub bytes_per_second: f64,
    /// Mean time of a request.
    pub mean_ns: f64,
    /// Of the fastest and the slowest round.
    pub mean_spread: Ends<f64>,
    /// Half of the requests took at most this.
    pub p50_ns: f64,
    /// Of the fastest and the slowest round.
    pub p50_spread: Ends<f64>,
    /// 99 of 100 took at most this.
    pub p99_ns: f64,
    /// 999 of 1,000 took at most this; of all rounds together, as one round has too few.
    pub p999_ns: f64,
    /// Processor time of a request, in the kernel and outside.
    pub cpu_ns_per_io: f64,
    /// Of it in the kernel; nothing where requests are no system calls.
    pub kernel_ns_per_io: Option<f64>,
    /// Processor time of a page of it.
    pub cpu_ns_per_page: f64,
}

/// One algorithm, one shape.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BenchRow {
    /// The kernel's name for the algorithm.
    pub algorithm: Name,
    /// Its level, where one was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<i32>,
    /// What was asked for.
    #[serde(flatten)]
    pub shape: Shape,
    /// What it cost.
    #[serde(flatten)]
    pub figures: Figures,
    /// Original bytes per compressed byte, same-filled pages left out of both.
    pub original_per_compressed: Option<f64>,
    /// zram's `mem_used_total` with all pages in it.
    pub memory_used_bytes: Option<Bytes>,
}

/// Something that is no algorithm, measured beside them.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Reference {
    /// Its name, as `block path`.
    pub name: Name,
    /// `block` where the requests take the same way as zram's, else what they skip: `file` or `memory`.
    pub layer: Name,
    /// What it is and what it shows.
    pub what: Name,
    /// What was asked for.
    #[serde(flatten)]
    pub shape: Shape,
    /// What it cost.
    #[serde(flatten)]
    pub figures: Figures,
}

/// What else the machine did while it was measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Noise {
    /// How long it was looked at.
    pub seconds: f64,
    /// Of all processors' time, 0 to 1, what others used than this program.
    pub others_share: Option<f64>,
    /// Of all processors' time, 0 to 1, what the host of this virtual machine gave to others.
    pub stolen_share: Option<f64>,
    /// What should take the same time in every round.
    pub calm: Option<Name>,
    /// By how much its slowest round was slower than its fastest, 0 where they were equal: of p50.
    pub calm_p50_spread: Option<f64>,
}

/// What kind of memory was swapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    /// Anonymous, mapped by one process.
    Private,
    /// Anonymous, mapped by a parent and its child.
    Forked,
    /// Shared memory.
    Shmem,
}

/// In which order pages are touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// One after the other.
    Sequential,
    /// In no order.
    Random,
}

/// What really happens in swap, with one setting of `vm.page-cluster`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FaultRow {
    /// The device's algorithm.
    pub algorithm: Name,
    /// What was swapped out and in again.
    pub memory: MemoryKind,
    /// In which order.
    pub access: Access,
    /// `vm.page-cluster`.
    pub page_cluster: u32,
    /// Rounds that the medians are of.
    pub rounds: u32,
    /// Pages that were swapped out, in all rounds together.
    pub swapped_out_pages: u64,
    /// Major faults, in all rounds together.
    pub major_faults: u64,
    /// Pages swapped in, in all rounds together.
    pub swapped_in_pages: u64,
    /// Pages that one major fault brought.
    pub pages_per_fault: Option<f64>,
    /// Pages read ahead (`swap_ra`), in all rounds together.
    pub read_ahead_pages: Reading<u64>,
    /// Of them used (`swap_ra_hit`).
    pub read_ahead_hits: Reading<u64>,
    /// Mean time of touching a page once.
    pub mean_ns: f64,
    /// Of the fastest and the slowest round.
    pub mean_spread: Ends<f64>,
    /// Half of the touches took at most this.
    pub p50_ns: f64,
    /// 99 of 100.
    pub p99_ns: f64,
    /// 999 of 1,000.
    pub p999_ns: f64,
    /// Processor time of bringing a page back.
    pub in_cpu_ns_per_page: f64,
    /// Processor time of swapping a page out.
    pub out_cpu_ns_per_page: f64,
}
