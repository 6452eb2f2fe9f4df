// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Samples of a program that is watched while its memory is collapsed, in order of time, and their
//! summary.

use serde::Serialize;

use crate::{Bytes, Coverage};

/// The state of one watched process, or of several together, at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct WatchSample {
    /// Time of the sample, in seconds since watching began.
    pub seconds: f64,
    /// Memory of the program by type, in base pages and in huge pages.
    pub coverage: Coverage,
    /// Proportional size (PSS) of the program, if the kernel reports it.
    pub memory: Option<Bytes>,
    /// Dirty memory of the program that another process maps too: a forked child that is still
    /// running, or a process that shares shmem.
    pub shared: Option<Bytes>,
    /// CPU time of the program so far, in seconds.
    pub cpu_seconds: Option<f64>,
    /// Number of requests that the program has served so far, from the counter that the user named.
    pub requests: Option<u64>,
    /// Number of blocks that Pagewise has collapsed so far.
    pub collapsed: u64,
}

/// Summary of the samples of a watched program. Times are seconds since watching began.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WatchCourse {
    /// Phases of the program in order, without gaps.
    pub phases: Vec<WatchPhase>,
    /// Pairs of a time and the anonymous memory in huge pages at that time, in percent of all
    /// anonymous memory.
    pub covered: Vec<(f64, f64)>,
    /// Pairs of a time and the CPU seconds per request at that time; CPU seconds per second if
    /// requests are not counted.
    pub used: Vec<(f64, f64)>,
    /// Start and end of each period in which a fork shared the memory.
    pub forks: Vec<[f64; 2]>,
    /// Whether the requests of the program were counted.
    pub counts_requests: bool,
}

/// A phase of a watched program: consecutive samples between two changes of its memory. A change is
/// the start or the end of a fork that shares the memory, or the collapse of a considerable part of
/// it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WatchPhase {
    /// Times of the phase's first and last sample.
    pub seconds: [f64; 2],
    /// Whether another process, such as a fork, maps a large part of the memory.
    pub shared: bool,
    /// Number of blocks that were collapsed since the previous phase.
    pub collapsed: u64,
    /// Anonymous memory in huge pages at the end of the phase, in percent of all anonymous memory.
    pub covered: Option<f64>,
    /// The largest proportional size (PSS) in the phase.
    pub most: Option<Bytes>,
    /// CPU seconds per request or per second, as in [`WatchCourse::used`]. If blocks were collapsed
    /// in the phase, only the time after that counts.
    pub used: Option<f64>,
}
