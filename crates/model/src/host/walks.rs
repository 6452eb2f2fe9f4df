// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cost of TLB misses of running programs, measured with the CPU's performance counters.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Percent, Reading};

/// Counts of hardware events of some threads, or of all CPUs, over some time.
///
/// A CPU caches address translations in its *TLB*. For a page that is not in it, the CPU reads the
/// page tables: a *page walk*. Counts are absent if the CPU, or the virtual machine, does not offer
/// the counter.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PageWalks {
    /// Time over which events were counted.
    pub seconds: f64,
    /// Number of threads whose events were counted, or of CPUs if it was the whole machine.
    pub counted: u64,
    /// Number of threads or CPUs whose events were not counted, because of the limit on open files.
    pub left_out: u64,
    /// Whether only events in user mode were counted, because Pagewise is not permitted to count
    /// those in the kernel.
    pub user_only: bool,
    /// Share of the time in which the counters were active: a CPU has only a few counters, so they
    /// are multiplexed.
    pub counting: Option<Percent>,
    /// Number of CPU cycles.
    pub cycles: Reading<u64>,
    /// Number of instructions that were executed.
    pub instructions: Reading<u64>,
    /// Number of loads that missed the data TLB.
    pub load_misses: Reading<u64>,
    /// Number of stores that missed the data TLB.
    pub store_misses: Reading<u64>,
    /// Number of instruction fetches that missed the instruction TLB.
    pub fetch_misses: Reading<u64>,
    /// Number of cycles with a page walk for a load, plus cycles with a page walk for a store: if
    /// both happen at once, a cycle counts twice.
    pub walking: Reading<u64>,
}

impl PageWalks {
    /// Number of these events per thousand executed instructions.
    pub fn per_thousand(&self, events: &Reading<u64>) -> Option<f64> {
        let instructions = self.instructions.get().filter(|count| *count > 0)?;
        Some(events.get()? as f64 * 1000.0 / instructions as f64)
    }

    /// Cycles with a page walk in percent of all cycles.
    pub fn walking_share(&self) -> Option<Percent> {
        let cycles = self.cycles.get().filter(|count| *count > 0)?;
        Some(Percent::new(self.walking.get()? as f64 * 100.0 / cycles as f64))
    }

    /// Whether no event at all could be counted.
    pub fn is_blank(&self) -> bool {
        let all = [&self.cycles, &self.load_misses, &self.store_misses, &self.fetch_misses];
        all.iter().all(|count| count.get().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Source;

    #[test]
    fn what_is_absent_has_no_share() {
        let found = |count: u64| Reading::found(count, Source::none());
        let walks = PageWalks {
            seconds: 1.0,
            counted: 1,
            left_out: 0,
            user_only: false,
            counting: None,
            cycles: found(2000),
            instructions: found(1000),
            load_misses: found(5),
            store_misses: Reading::not_read(),
            fetch_misses: Reading::not_read(),
            walking: found(500),
        };
        assert_eq!(walks.per_thousand(&walks.load_misses), Some(5.0));
        assert_eq!(walks.per_thousand(&walks.store_misses), None);
        assert_eq!(walks.walking_share(), Some(Percent::new(25.0)));
        assert!(!walks.is_blank());
        let idle = PageWalks { instructions: found(0), cycles: found(0), ..walks };
        assert_eq!((idle.per_thousand(&idle.load_misses), idle.walking_share()), (None, None));
    }
}
