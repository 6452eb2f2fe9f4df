// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program on each node: reads the node with `pagewise`, publishes a `NodeMemoryState`, and carries
//! out the change that the controller asks for.
//!
//! It reads no kernel file and changes no setting itself. Everything that concerns the machine is done by
//! the program `pagewise`, whose command lines are all in [`pagewise`].

pub mod advice;
pub mod change;
pub mod pagewise;
pub mod publish;
pub mod report;
pub mod run;

/// Seconds since boot, also while the machine was suspended. They go on when this program is restarted,
/// and do not jump if the clock is set.
#[must_use]
pub fn seconds_since_boot() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
