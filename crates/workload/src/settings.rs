// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a workload does, in the field's terms; what is not said has a default.

use std::path::Path;

use pagewise_model::Program;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Size;

/// A workload of ours, or a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Workload {
    /// Code and data slightly above memory.
    Swap(Swap),
    /// Pages of known heat: which ones does the kernel evict?
    Coldpages(ColdPages),
    /// Cold pages that were there first, and hot ones: which of them has the fast swap?
    Tiers(Tiers),
    /// Memory filled for the first time: what huge pages cost and bring.
    Hugepages(HugePages),
    /// A real redis-server under redis-benchmark.
    Redis(Redis),
    /// Anybody's command.
    Command {
        /// The program and its arguments.
        argv: Vec<String>,
    },
}

impl Workload {
    /// What runs it; `own` is this program's own file.
    #[must_use]
    pub fn program(&self, own: &Path) -> Program {
        if let Self::Command { argv } = self {
            return Program::Argv(argv.clone());
        }
        let described = serde_json::to_string(self).unwrap_or_default();
        let own = own.to_string_lossy().into_owned();
        let words = LINE.map(str::to_owned);
        let argv = [own].into_iter().chain(words).chain([described]).collect();
        recognised(argv)
    }

    /// Whether it prints [`STEADY`](super::STEADY).
    #[must_use]
    pub fn is_marked(&self) -> bool {
        matches!(self, Self::Swap(_) | Self::Coldpages(_) | Self::Tiers(_))
    }

    /// The workload that a program is, if it is one and its keys are known to this version.
    #[must_use]
    pub fn of_program(program: &Program) -> Option<Self> {
        let keys = program.workload()?;
        serde_json::from_value(Value::Object(keys.clone())).ok()
    }
}

/// What stands between this program's own file and the description of a workload.
const LINE: [&str; 3] = ["lab", "workload", "--described"];

/// A command line as a program: a workload if it is one that [`Workload::program`] makes. So are read
/// commands that a person typed, and evidence of versions that did not name the keys of workloads.
#[must_use]
pub fn recognised(argv: Vec<String>) -> Program {
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

/// Which pages of a set are touched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Each as likely.
    #[default]
    Uniform,
    /// Few often, many seldom: a zipf distribution with the exponent 1, in no order.
    Zipf,
    /// One after the other.
    Scan,
}

/// What the kernel may read ahead of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Readahead {
    /// Nothing (`MADV_RANDOM`): a fault reads a page.
    #[default]
    None,
    /// What it likes; a host with a large `read_ahead_kb` reads thousands of pages for one fault.
    Kernel,
}

/// Code in a file and data in memory, together slightly more than there is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Swap {
    /// Code: a file that is mapped and read.
    pub code: Size,
    /// Share of code touches that go to the hottest tenth of it; the others go anywhere.
    pub code_hot_share: f64,
    /// Touches of code for each touch of data.
    pub code_per_data: f64,
    /// What the kernel reads ahead of the code.
    pub readahead: Readahead,
    /// Data: anonymous memory.
    pub data: Size,
    /// Shared data (shmem) instead of private.
    pub shared: bool,
    /// The data's pages, as `zero:10,text:60,random:30,duplicates:5`.
    pub contents: String,
    /// Data that an iteration works on, all parts together.
    pub window: Size,
    /// Parts of the window, at equal distances in the data: the published workload has three.
    pub parts: u32,
    /// How far the window moves after an iteration.
    pub step: Size,
    /// Which pages of the window an iteration touches: as many touches as it has pages.
    pub pattern: Pattern,
    /// Share of data touches that write.
    pub write_share: f64,
    /// At most so many iterations.
    pub iterations: u32,
    /// At most so long.
    pub seconds: f64,
    /// Draws contents and touches.
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

/// Anonymous memory with a zipf access pattern, a library, and a file that is streamed through.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ColdPages {
    /// Anonymous memory.
    pub data: Size,
    /// The exponent of the zipf distribution over its pages and over the library's.
    pub exponent: f64,
    /// The anonymous pages, as `zero:10,text:60,random:30,duplicates:5`.
    pub contents: String,
    /// A file that is mapped and read by the same kind of distribution.
    pub library: Size,
    /// Touches of the library for each touch of data.
    pub library_per_data: f64,
    /// A file that is read from its start to its end, again and again.
    pub stream: Size,
    /// Pages of it that are read for each touch of data.
    pub stream_per_data: f64,
    /// Processes that map the same data, of which one touches it; 1 has it for itself. With more there
    /// must be no writes: they would copy the page.
    pub sharers: u32,
    /// Share of data touches that write.
    pub write_share: f64,
    /// Touches of data.
    pub operations: u64,
    /// At most so long.
    pub seconds: f64,
    /// Draws contents and touches.
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
    /// Anonymous memory that is written first; it may have no page.
    pub cold: Size,
    /// Anonymous memory that is written after it, and then accessed.
    pub hot: Size,
    /// Share of the accesses that go to the cold set, to each page of it as likely.
    pub cold_share: f64,
    /// The exponent of the zipf distribution over the hot set's pages; with 0 each is as likely.
    pub exponent: f64,
    /// The pages of both, as `zero:10,text:60,random:30,duplicates:5`.
    pub contents: String,
    /// Share of the accesses that write.
    pub write_share: f64,
    /// Accesses; the first half of them is the settling phase.
    pub operations: u64,
    /// Draws contents and accesses.
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

/// When the kernel is told that huge pages are wanted (`MADV_HUGEPAGE`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Advise {
    /// Before memory is touched: faults make them.
    #[default]
    Before,
    /// Once it is there: khugepaged makes them.
    After,
    /// Never: what the machine's policy does.
    Never,
}

/// Memory that is filled for the first time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HugePages {
    /// Memory to fill.
    pub data: Size,
    /// When the kernel is told that it shall be in huge pages.
    pub advise: Advise,
    /// Every so many-th page of it is written: 8 leaves seven of eight out.
    pub touch_each: u32,
    /// Memory of which every second page is given back before: free memory in single pages.
    pub fragment: Size,
    /// Memory beside it that is never advised.
    pub neighbour: Size,
    /// How long to wait for huge pages after it was filled, at most.
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

/// A redis-server whose data does not fit, and redis-benchmark beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Redis {
    /// Keys that are written before anything is measured.
    pub records: u64,
    /// Bytes of a value.
    pub value_bytes: u32,
    /// Requests of each kind.
    pub requests: u64,
    /// Connections at a time.
    pub clients: u32,
    /// Requests in flight on each.
    pub pipeline: u32,
    /// Huge pages as the machine's policy has them; redis-server refuses them where it is not told.
    pub thp: bool,
    /// At most so long, filling included: where it takes longer there is no answer.
    pub seconds: f64,
    /// Draws values, which are text; and keys where redis-benchmark lets us.
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
