// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides from the running guests and their CPU load whether one more guest may start; if not,
//! says which resource is missing.
//!
//! Memory counts in full, because a guest may later touch pages that it has not touched yet. CPUs
//! count by their recent use, so that a sleeping guest does not delay other guests: see
//! [`super::load`].

use std::fmt;

use pagewise_model::Bytes;
use serde::{Deserialize, Serialize};

use super::load::Load;
use super::note::{RunNote, cpus_in_words};

/// Number of CPUs that all guests together may use for timers and for QEMU's own threads without
/// being counted as busy.
const IDLE: f64 = 0.25;

/// Limits for all guests of one user together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Number of processors for all guests together.
    pub cpus: u32,
    /// Memory for all guests together, in bytes.
    pub memory: u64,
}

/// The resource that a guest waits for; memory is in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Shortage {
    /// CPUs are short: the number of busy CPUs, and the number for all guests.
    Cpus { busy: f64, all: u32 },
    /// Memory is short: what the running guests requested, and the limit for all.
    Memory { taken: u64, all: u64 },
    /// Memory of the machine is short: the available memory, minus the memory that the running
    /// guests have not touched yet.
    Available(u64),
}

impl Budget {
    /// The default budget: all processors, and three quarters of memory.
    #[must_use]
    pub fn of_this_machine() -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let system = rustix::system::sysinfo();
        // The type of `totalram` differs between architectures.
        let memory = u64::from(system.mem_unit).saturating_mul(system.totalram as u64);
        Self { cpus: u32::try_from(cpus).unwrap_or(u32::MAX), memory: memory / 4 * 3 }
    }

    /// What is missing for one more guest; `None` if it fits or if no other guest runs.
    pub(super) fn shortage(
        self,
        requested: &RunNote,
        running: &[&RunNote],
        load: Load,
    ) -> Option<Shortage> {
        if running.is_empty() {
            return None;
        }
        let taken = running.iter().fold(0, |sum: u64, one| sum.saturating_add(one.memory));
        // a guest with more CPUs than the budget waits until all CPUs are free
        let needed = f64::from(requested.cpus.min(self.cpus));
        if taken.saturating_add(requested.memory) > self.memory {
            Some(Shortage::Memory { taken, all: self.memory })
        } else if let Some(left) = load.memory_left.filter(|left| *left < requested.memory) {
            Some(Shortage::Available(left))
        } else if load.busy + needed > f64::from(self.cpus) + IDLE {
            Some(Shortage::Cpus { busy: load.busy, all: self.cpus })
        } else {
            None
        }
    }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpus { busy, all } => write!(f, "{busy:.1} of {} are busy", cpus_in_words(*all)),
            Self::Memory { taken, all } => write!(
                f,
                "the running guests have {} of the {} that all guests may have",
                Bytes::new(*taken),
                Bytes::new(*all)
            ),
            Self::Available(left) => write!(
                f,
                "this machine has {} available beside what the running guests may still take",
                Bytes::new(*left)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: Budget = Budget { cpus: 2, memory: 2 << 30 };

    fn note(cpus: u32, mebibytes: u64) -> RunNote {
        RunNote::new(cpus, Bytes::new(mebibytes << 20), "x")
    }

    fn shortage(requested: &RunNote, running: &[&RunNote], busy: f64) -> Option<String> {
        let load = Load { busy, memory_left: None };
        MACHINE.shortage(requested, running, load).map(|it| it.to_string())
    }

    #[test]
    fn one_guest_may_always_run() {
        let load = Load { busy: 9.0, memory_left: Some(0) };
        assert_eq!(MACHINE.shortage(&note(64, 1 << 20), &[], load), None);
    }

    #[test]
    fn cpus_are_counted_as_they_are_used() {
        let (small, wide, running) = (note(1, 256), note(2, 256), note(2, 256));
        assert_eq!(shortage(&small, &[&running], 1.2), None);
        assert_eq!(shortage(&small, &[&running], 1.3).unwrap(), "1.3 of 2 CPUs are busy");
        assert_eq!(shortage(&wide, &[&running], 0.2), None);
        assert!(shortage(&wide, &[&running], 0.3).is_some());
        assert_eq!(shortage(&note(64, 256), &[&running], 0.2), None);
        assert!(shortage(&note(64, 256), &[&running], 0.3).is_some());
    }

    #[test]
    fn memory_is_counted_as_it_was_asked_for_and_as_there_is() {
        let (running, large) = (note(1, 1024), note(1, 1024));
        let text = shortage(&large, &[&running], 0.0).unwrap();
        assert_eq!(text, "the running guests have 1.1 GiB of the 2.0 GiB that all guests may have");
        let small = note(1, 256);
        assert_eq!(shortage(&small, &[&running], 0.0), None);
        let short = |left| {
            let load = Load { busy: 0.0, memory_left: Some(left) };
            MACHINE.shortage(&small, &[&running], load)
        };
        assert_eq!(short(small.memory), None);
        let left = small.memory - 1;
        assert_eq!(short(left), Some(Shortage::Available(left)));
    }
}
