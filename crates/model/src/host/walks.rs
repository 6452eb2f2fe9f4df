// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What finding pages costs programs while they run, as the processor counts it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Percent, Reading};

/// Events of some threads, or of all processors, over a time.
///
/// A processor keeps where pages are in a *TLB*. A page that is not in it is searched for in the page
/// tables, which is a *page walk*. Counts are absent where the processor, or the machine that it is a part
/// of, shows no such counter.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PageWalks {
    /// Time that was counted over.
    pub seconds: f64,
    /// Threads that were counted, or processors where it was the whole machine.
    pub counted: u64,
    /// Threads or processors that were not: there are limits to how many files may be open.
    pub left_out: u64,
    /// Only while they ran their own code: we may not count the kernel.
    pub user_only: bool,
    /// The part of the time in which the counters counted; the processor has a few, which take turns.
    pub counting: Option<Percent>,
    /// Cycles.
    pub cycles: Reading<u64>,
    /// Instructions that were carried out.
    pub instructions: Reading<u64>,
    /// Loads of which the page was not in the data TLB.
    pub load_misses: Reading<u64>,
    /// Stores of which the page was not in the data TLB.
    pub store_misses: Reading<u64>,
    /// Fetches of instructions of which the page was not in the instruction TLB.
    pub fetch_misses: Reading<u64>,
    /// Cycles in which the processor walked for a load, plus those in which it walked for a store: both at
    /// once count twice.
    pub walking: Reading<u64>,
}

impl PageWalks {
    /// Events for a thousand instructions.
    pub fn per_thousand(&self, events: &Reading<u64>) -> Option<f64> {
        let instructions = self.instructions.get().filter(|count| *count > 0)?;
        Some(events.get()? as f64 * 1000.0 / instructions as f64)
    }

    /// The part of the cycles in which pages were searched for.
    pub fn walking_share(&self) -> Option<Percent> {
        let cycles = self.cycles.get().filter(|count| *count > 0)?;
        Some(Percent::new(self.walking.get()? as f64 * 100.0 / cycles as f64))
    }

    /// Whether nothing could be counted.
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
