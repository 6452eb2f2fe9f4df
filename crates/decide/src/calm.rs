// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides from PSI of the last ten seconds whether a zmerge pass would disturb other tasks now.
//!
//! A pass uses one CPU for a while and hardly any memory. It is therefore postponed while tasks
//! wait for a CPU or for memory. It need not be postponed while tasks wait for a disk.

use pagewise_model::{Percent, Psi, Reading};

/// Maximum share of time, in percent, in which at least one task waits for a CPU. Below this share,
/// there are only occasionally more runnable tasks than CPUs.
const MOST_CPU: f64 = 20.0;
/// Maximum share of time, in percent, in which at least one task waits for memory.
const MOST_MEMORY: f64 = 1.0;

/// Why a merge pass should not run now.
#[derive(Debug, Clone, PartialEq)]
pub enum Unrest {
    /// Tasks are waiting for a resource, as PSI shows.
    Waits {
        /// The resource that tasks wait for.
        resource: &'static str,
        /// Share of the last ten seconds in which a task waited, in percent.
        percent: f64,
        /// The maximum share, in percent, at which a merge pass may run.
        most: f64,
    },
    /// It is not known whether tasks wait, because the pressure cannot be read.
    Unknown {
        /// The PSI file that would show whether tasks wait.
        path: String,
    },
}

/// The reason why a merge pass should not run now; `None` if it may.
#[must_use]
pub fn unrest(psi: &Psi) -> Option<Unrest> {
    let averages =
        [("memory", &psi.memory.some.avg10, MOST_MEMORY), ("a CPU", &psi.cpu.some.avg10, MOST_CPU)];
    averages.into_iter().find_map(|(resource, average, most)| find_waits(resource, average, most))
}

fn find_waits(resource: &'static str, average: &Reading<Percent>, most: f64) -> Option<Unrest> {
    let Some(percent) = average.get() else {
        return Some(Unrest::Unknown { path: average.source.path().to_string() });
    };
    (percent.get() > most).then_some(Unrest::Waits { resource, percent: percent.get(), most })
}
