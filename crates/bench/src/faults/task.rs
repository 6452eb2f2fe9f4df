// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The task that a worker receives, and the answer that it gives: one line of JSON each.

use std::path::PathBuf;

use pagewise_model::{Access, SwappedKind};
use serde::{Deserialize, Serialize};

use crate::stand_in::StandIn;

/// The environment variable that makes this program a worker and holds its task.
pub(super) const TASK: &str = "PAGEWISE_FAULTS";

/// One measurement for a worker. The pages to fill memory with are on its standard input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Task {
    /// Pid of the process that started the worker; when it ends, the kernel kills the worker.
    pub(super) parent: u32,
    /// The folder of the cgroup to join.
    pub(super) group: PathBuf,
    /// Number of pages of memory to fill.
    pub(super) pages: usize,
    /// Seed of the random order of touches.
    pub(super) seed: u64,
    /// What the worker does.
    pub(super) what: TaskKind,
}

/// What the worker measures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TaskKind {
    /// Swap memory out to this store, and touch it again.
    Swap { memory: SwappedKind, access: Access, pool: Pool },
    /// Swap memory out to zswap's pool, and make the kernel write it back from the pool to the swap
    /// area behind zswap.
    Writeback,
    /// Write a file of these pages in this folder, map it, drop it from memory, and touch it in
    /// random order.
    File { folder: PathBuf, pages: StandIn },
}

/// The store whose memory use is read at the moment when everything is swapped out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Pool {
    /// The zram device with this number.
    Zram(u32),
    /// The compressed pool of zswap.
    Zswap,
}

/// What a worker answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TaskAnswer {
    /// What was measured.
    Measured(Round),
    /// Why the worker failed.
    Failed(String),
}

/// The figures of one measurement. Counts of pages are those of the whole host, except faults;
/// `None` if this kernel does not have a counter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Round {
    /// Number of pages of the filled memory that left RAM.
    pub(super) gone: u64,
    /// Number of pages that were swapped out to any store; for a file, number of pages that were
    /// dropped.
    pub(super) out: u64,
    /// Traffic of the swap area behind zswap's pool; only for zswap.
    pub(super) backing: Option<PastPool>,
    /// Bytes of RAM that the store uses for each page in it, read before pages are touched; `None`
    /// if the kernel does not report it.
    pub(super) pool_bytes_per_page: Option<f64>,
    /// CPU time of swapping out, in nanoseconds.
    pub(super) out_cpu_ns: u64,
    pub(super) touches: u64,
    /// CPU time of all touches, in nanoseconds.
    pub(super) in_cpu_ns: u64,
    pub(super) times: Times,
    /// Time of all touches in nanoseconds, without waiting for a CPU.
    pub(super) own_ns: u64,
    pub(super) major_faults: u64,
    pub(super) minor_faults: u64,
    /// Number of pages that were swapped in from any store.
    pub(super) swapped_in: u64,
    pub(super) read_ahead: Option<u64>,
    pub(super) read_ahead_hits: Option<u64>,
    /// Number of touched pages whose contents are wrong.
    pub(super) wrong: u64,
    /// Number of pages of zswap's pool that were written back on request.
    pub(super) written_back: u64,
    /// CPU time of writing back, in nanoseconds.
    pub(super) writeback_cpu_ns: u64,
}

/// Numbers of pages that were written to and read from the swap area behind zswap's pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PastPool {
    pub(super) written: u64,
    /// How many of these pages the pool refused; `None` if the kernel does not count writeback from
    /// the pool.
    pub(super) refused: Option<u64>,
    pub(super) read: u64,
}

/// Distribution of the times of the touches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Times {
    pub(super) mean_ns: f64,
    pub(super) p50_ns: f64,
    pub(super) p99_ns: f64,
    pub(super) p999_ns: f64,
}

impl Times {
    /// Computes the distribution from the times of single touches, which are sorted here. A
    /// percentile is a measured time: the smallest that the given share of touches did not exceed.
    pub(super) fn from_touches(mut touches: Vec<u32>) -> Self {
        touches.sort_unstable();
        let sum: f64 = touches.iter().copied().map(f64::from).sum();
        let at = |thousandths: usize| {
            let place = (touches.len() * thousandths).div_ceil(1000).saturating_sub(1);
            touches.get(place).copied().map_or(0.0, f64::from)
        };
        let count = u32::try_from(touches.len().max(1)).map_or(f64::INFINITY, f64::from);
        Self { mean_ns: sum / count, p50_ns: at(500), p99_ns: at(990), p999_ns: at(999) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The naive way: for each measured time, count how many touches took at most that long.
        #[test]
        fn a_percentile_is_the_least_time_that_enough_touches_keep_within(
            touches in prop::collection::vec(any::<u32>(), 1..400),
        ) {
            let times = Times::from_touches(touches.clone());
            for (found, share) in [(times.p50_ns, 500), (times.p99_ns, 990), (times.p999_ns, 999)] {
                let within = |limit: u32| touches.iter().filter(|&&touch| touch <= limit).count();
                let enough = |limit: &&u32| within(**limit) * 1000 >= touches.len() * share;
                let least = touches.iter().filter(enough).min().unwrap();
                prop_assert_eq!(found, f64::from(*least));
            }
            let ends = [*touches.iter().min().unwrap(), *touches.iter().max().unwrap()].map(f64::from);
            prop_assert!(ends[0] <= times.mean_ns && times.mean_ns <= ends[1]);
        }
    }

    #[test]
    fn a_task_is_read_back() {
        let (memory, access) = (SwappedKind::Forked, Access::Random);
        let what = TaskKind::Swap { memory, access, pool: Pool::Zram(3) };
        let task = Task { parent: 1, group: "/g".into(), pages: 3, seed: u64::MAX, what };
        let text = serde_json::to_string(&task).unwrap();
        assert_eq!(serde_json::from_str::<Task>(&text).unwrap(), task);
    }
}
