// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PSI of the last ten seconds → whether a pass of zmerge would disturb anybody now.
//!
//! A pass takes a CPU for a while and hardly any memory. So it is put off while tasks wait for a CPU or for memory;
//! what waits for a disk does not matter.

use pagewise_model::{Percent, Psi, Reading};

/// Some task waits for a CPU for more than so many percent of the time: on average the CPUs are wanted by more
/// tasks than there are CPUs only now and then.
const MOST_CPU: f64 = 20.0;
/// Some task waits for memory for more than so many percent of the time.
const MOST_MEMORY: f64 = 1.0;

/// What keeps a moment from being calm.
#[derive(Debug, Clone, PartialEq)]
pub enum Unrest {
    /// Tasks wait.
    Waits {
        /// For what.
        resource: &'static str,
        /// Percent of the last ten seconds.
        percent: f64,
        /// The most that counts as calm.
        most: f64,
    },
    /// The kernel does not tell.
    Unknown {
        /// The file that would.
        path: String,
    },
}

/// Why this is not a calm moment; `None` if it is one.
#[must_use]
pub fn unrest(psi: &Psi) -> Option<Unrest> {
    let averages =
        [("memory", &psi.memory.some.avg10, MOST_MEMORY), ("a CPU", &psi.cpu.some.avg10, MOST_CPU)];
    averages.into_iter().find_map(|(resource, average, most)| waits(resource, average, most))
}

fn waits(resource: &'static str, average: &Reading<Percent>, most: f64) -> Option<Unrest> {
    let Some(percent) = average.get() else {
        return Some(Unrest::Unknown { path: average.source.path().to_string() });
    };
    (percent.get() > most).then_some(Unrest::Waits { resource, percent: percent.get(), most })
}
