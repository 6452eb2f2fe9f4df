// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a worker is told, and what it answers: one line of JSON each.

use std::path::PathBuf;

use pagewise_model::{Access, SwappedKind};
use serde::{Deserialize, Serialize};

use crate::stand_in::StandIn;

/// The variable of the environment that makes this program a worker and holds its task.
pub(super) const TASK: &str = "PAGEWISE_FAULTS";

/// One measurement. The pages to fill memory with are its standard input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Task {
    /// Who started it: with that process it ends.
    pub(super) parent: u32,
    /// The folder of the cgroup to join.
    pub(super) group: PathBuf,
    /// How much memory.
    pub(super) pages: usize,
    /// Decides the random order.
    pub(super) seed: u64,
    /// What to do.
    pub(super) what: TaskKind,
}

/// What is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TaskKind {
    /// Memory that is swapped out to this store, and touched again.
    Swap { memory: SwappedKind, access: Access, pool: Pool },
    /// Memory that is swapped out to zswap's pool, which the kernel then writes back to the swap area behind it.
    Writeback,
    /// A mapped file of these pages in this folder that is dropped from memory, and touched again in random order.
    File { folder: PathBuf, pages: StandIn },
}

/// Whose memory use is read while all is swapped out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Pool {
    /// A zram device, by its number.
    Zram(u32),
    /// zswap's.
    Zswap,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TaskAnswer {
    /// It was measured.
    Measured(Round),
    /// It could not be, and why.
    Failed(String),
}

/// One measurement's figures. Counts of pages are the whole host's, but for faults: a counter that
/// this kernel does not have is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Round {
    /// Pages of the region that left memory.
    pub(super) gone: u64,
    /// Pages that were swapped out, wherever they went; of a file, those that were dropped.
    pub(super) out: u64,
    /// Of zswap, what went past its pool.
    pub(super) backing: Option<PastPool>,
    /// RAM that the store takes for each page in it, before pages are touched; `None` if the kernel does not
    /// tell.
    pub(super) pool_bytes_per_page: Option<f64>,
    /// Processor time of it.
    pub(super) out_cpu_ns: u64,
    pub(super) touches: u64,
    /// Processor time of all touches.
    pub(super) in_cpu_ns: u64,
    pub(super) times: Times,
    /// Time of all touches, without that in which others had the processor.
    pub(super) own_ns: u64,
    pub(super) major_faults: u64,
    pub(super) minor_faults: u64,
    /// Pages that were swapped in, wherever they were.
    pub(super) swapped_in: u64,
    pub(super) read_ahead: Option<u64>,
    pub(super) read_ahead_hits: Option<u64>,
    /// Touched pages that are not what they were.
    pub(super) wrong: u64,
    /// Pages of zswap's pool that were written back on request.
    pub(super) written_back: u64,
    /// CPU time of that.
    pub(super) writeback_cpu_ns: u64,
}

/// Pages that went to the swap area behind zswap's pool and came from it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PastPool {
    pub(super) written: u64,
    /// Of them those that the pool did not take; `None` if the kernel does not count those that left it.
    pub(super) refused: Option<u64>,
    pub(super) read: u64,
}

/// How long touches took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Times {
    pub(super) mean_ns: f64,
    pub(super) p50_ns: f64,
    pub(super) p99_ns: f64,
    pub(super) p999_ns: f64,
}

impl Times {
    /// Of single touches, which are sorted here. A percentile is a time that was measured: the least
    /// one that so many touches did not exceed.
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
        /// The naive way: count, for each time that was measured, how many touches took at most so long.
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
