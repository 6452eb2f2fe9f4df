// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parameters of each workload, with their defaults.

use std::path::Path;

use pagewise_model::Program;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Size;

/// A workload of Pagewise, or a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Workload {
    /// `swap`: code and data that are together slightly larger than memory.
    Swap(Swap),
    /// `coldpages`: pages with known access frequencies, to see which ones the kernel evicts.
    Coldpages(ColdPages),
    /// `tiers`: cold pages that were written first, and hot ones, to see which of them occupy the
    /// fast swap area.
    Tiers(Tiers),
    /// `hugepages`: memory that is filled for the first time, to see costs and benefits of huge
    /// pages.
    Hugepages(HugePages),
    /// `redis`: a real redis-server under redis-benchmark.
    Redis(Redis),
    /// A command of the user.
    Command {
        /// The program and its arguments.
        argv: Vec<String>,
    },
}

impl Workload {
    /// The program that runs the workload; `own` is the path of this program.
    #[must_use]
    pub fn program(&self, own: &Path) -> Program {
        if let Self::Command { argv } = self {
            return Program::Argv(argv.clone());
        }
        let described = serde_json::to_string(self).unwrap_or_default();
        let own = own.to_string_lossy().into_owned();
        let words = LINE.map(str::to_owned);
        let argv = [own].into_iter().chain(words).chain([described]).collect();
        recognise(argv)
    }

    /// Whether the workload prints [`STEADY`](super::STEADY).
    #[must_use]
    pub fn is_marked(&self) -> bool {
        matches!(self, Self::Swap(_) | Self::Coldpages(_) | Self::Tiers(_))
    }

    /// The workload that a program runs; `None` if the program is not a workload of Pagewise, or
    /// has parameters unknown to this version.
    #[must_use]
    pub fn of_program(program: &Program) -> Option<Self> {
        let keys = program.workload()?;
        serde_json::from_value(Value::Object(keys.clone())).ok()
    }
}

/// The arguments between this program's path and the description of a workload.
const LINE: [&str; 3] = ["lab", "workload", "--described"];

/// Converts a command line to a program: a workload if it has the form that [`Workload::program`]
/// makes. Used for commands that a user typed, and for evidence of versions that did not record the
/// parameters of workloads.
#[must_use]
pub fn recognise(argv: Vec<String>) -> Program {
    let keys = match argv.as_slice() {
        [_, lab, workload, option, text] if [lab, workload, option] == LINE => {
            serde_json::from_str(text).ok()
        }
        _ => None,
    };
    match keys {
        Some(keys) => Program::Workload { argv, keys },
        None => Program::Argv(argv),
    }
}

/// Order in which the pages of a set are touched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Random pages, each with the same probability.
    #[default]
    Uniform,
    /// A Zipf distribution with exponent 1; the ranks of pages are shuffled.
    Zipf,
    /// The pages one after the other.
    Scan,
}

/// Readahead of a mapped file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Readahead {
    /// No readahead (`MADV_RANDOM`): a fault reads one page.
    #[default]
    None,
    /// Readahead as the kernel does it by default; a host with a large `read_ahead_kb` reads
    /// thousands of pages for one fault.
    Kernel,
}

/// Code in a file and data in memory, together slightly larger than the available memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Swap {
    /// Size of the code: a file that is mapped and read.
    pub code: Size,
    /// Share of code touches that go to the hottest tenth of the code; the others go to any page.
    pub code_hot_share: f64,
    /// Number of touches of code per touch of data.
    pub code_per_data: f64,
    /// Readahead of the file with the code.
    pub readahead: Readahead,
    /// Size of the data: anonymous memory.
    pub data: Size,
    /// Whether the data is shared memory (shmem) instead of private.
    pub shared: bool,
    /// Mix of page contents in percent, as `zero:10,text:60,random:30`; with `duplicates:5`, 5 % of
    /// the pages are copies of others.
    pub contents: String,
    /// Size of the data that an iteration works on, all parts together.
    pub window: Size,
    /// Number of parts of the window, at equal distances in the data: the published workload has
    /// three.
    pub parts: u32,
    /// Distance by which the window moves after each iteration.
    pub step: Size,
    /// Which pages of the window an iteration touches; it makes as many touches as the window has
    /// pages.
    pub pattern: Pattern,
    /// Share of data touches that are writes.
    pub write_share: f64,
    /// Maximum number of iterations.
    pub iterations: u32,
    /// Time limit of the workload in seconds.
    pub seconds: f64,
    /// Seed of contents and touches.
    pub seed: u64,
}

impl Default for Swap {
    fn default() -> Self {
        Self {
            code: Size::mib(48),
            code_hot_share: 0.0,
            code_per_data: 1.0,
            readahead: Readahead::None,
            data: Size::mib(224),
            shared: false,
            contents: "zero:5,repeated:15,text:60,random:20".to_owned(),
            window: Size::mib(16),
            parts: 1,
            step: Size::kib(64),
            pattern: Pattern::Uniform,
            write_share: 0.2,
            iterations: 100_000,
            seconds: 8.0,
            seed: 1,
        }
    }
}

/// Anonymous memory with a Zipf access pattern, a library, and a streamed file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ColdPages {
    /// Size of the anonymous memory.
    pub data: Size,
    /// Exponent of the Zipf distribution over the pages of the data and over those of the library.
    pub exponent: f64,
    /// Contents of the anonymous pages, as `zero:10,text:60,random:30,duplicates:5`.
    pub contents: String,
    /// Size of a file that is mapped and read with the same kind of distribution.
    pub library: Size,
    /// Number of touches of the library per touch of data.
    pub library_per_data: f64,
    /// Size of a file that is read from start to end, repeatedly.
    pub stream: Size,
    /// Number of pages of the stream that are read per touch of data.
    pub stream_per_data: f64,
    /// Number of processes that map the same data, of which one touches it; 1: not shared. With
    /// more than one, `write_share` must be 0, as writes would copy the pages.
    pub sharers: u32,
    /// Share of data touches that are writes.
    pub write_share: f64,
    /// Number of touches of data.
    pub operations: u64,
    /// Time limit of the workload in seconds.
    pub seconds: f64,
    /// Seed of contents and touches.
    pub seed: u64,
}

impl Default for ColdPages {
    fn default() -> Self {
        Self {
            data: Size::mib(96),
            exponent: 0.9,
            contents: "zero:5,repeated:15,text:60,random:20".to_owned(),
            library: Size::mib(32),
            library_per_data: 0.25,
            stream: Size::mib(64),
            stream_per_data: 0.05,
            sharers: 1,
            write_share: 0.2,
            operations: 400_000,
            seconds: 60.0,
            seed: 1,
        }
    }
}

/// A cold set that is written once, then a hot set that is accessed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tiers {
    /// Size of the anonymous memory that is written first; may be 0.
    pub cold: Size,
    /// Size of the anonymous memory that is written after the cold set and then accessed.
    pub hot: Size,
    /// Share of accesses that go to the cold set, evenly over its pages.
    pub cold_share: f64,
    /// Exponent of the Zipf distribution over the hot set's pages; 0: uniform.
    pub exponent: f64,
    /// Contents of the pages of both sets, as `zero:10,text:60,random:30,duplicates:5`.
    pub contents: String,
    /// Share of accesses that are writes.
    pub write_share: f64,
    /// Number of accesses; the first half is the settling phase.
    pub operations: u64,
    /// Seed of contents and accesses.
    pub seed: u64,
}

impl Default for Tiers {
    fn default() -> Self {
        Self {
            cold: Size::mib(110),
            hot: Size::mib(200),
            cold_share: 0.0,
            exponent: 0.0,
            contents: "text:100".to_owned(),
            write_share: 0.2,
            operations: 100_000,
            seed: 1,
        }
    }
}

/// When the memory is advised with `MADV_HUGEPAGE`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Advise {
    /// Advised before it is touched: page faults allocate huge pages.
    #[default]
    Before,
    /// Advised after it was filled: khugepaged collapses it into huge pages.
    After,
    /// Never advised: the machine's policy applies.
    Never,
}

/// Memory that is filled for the first time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HugePages {
    /// Size of the memory to fill.
    pub data: Size,
    /// When the memory is advised.
    pub advise: Advise,
    /// One of this many pages is written: with 8, seven of eight pages are never touched.
    pub touch_each: u32,
    /// Size of memory of which every second page is freed beforehand, which fragments free memory.
    pub fragment: Size,
    /// Size of a second region that is never advised.
    pub neighbour: Size,
    /// Maximum time in seconds to wait for huge pages after the fill.
    pub seconds: f64,
}

impl Default for HugePages {
    fn default() -> Self {
        Self {
            data: Size::mib(128),
            advise: Advise::Before,
            touch_each: 1,
            fragment: Size::mib(0),
            neighbour: Size::mib(8),
            seconds: 8.0,
        }
    }
}

/// A redis-server whose data does not fit into memory, and redis-benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Redis {
    /// Number of keys that are written before the measurement.
    pub records: u64,
    /// Size of a value in bytes.
    pub value_bytes: u32,
    /// Number of requests of each kind.
    pub requests: u64,
    /// Number of parallel connections.
    pub clients: u32,
    /// Number of requests in flight per connection.
    pub pipeline: u32,
    /// Whether redis-server uses huge pages as the machine's policy says; by default it disables
    /// them.
    pub thp: bool,
    /// Time limit in seconds, including the fill; if it is exceeded there is no result.
    pub seconds: f64,
    /// Seed of the values, which are texts, and of the keys if redis-benchmark supports that.
    pub seed: u64,
}

impl Default for Redis {
    fn default() -> Self {
        Self {
            records: 200_000,
            value_bytes: 1024,
            requests: 100_000,
            clients: 8,
            pipeline: 1,
            thp: false,
            seconds: 600.0,
            seed: 1,
        }
    }
}
