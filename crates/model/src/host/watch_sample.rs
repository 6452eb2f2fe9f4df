// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Samples of a program that is watched while its memory is collapsed, in order of time, and their
//! summary.

use serde::Serialize;

use crate::{Bytes, Coverage};

/// A sample of one process, or of several together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct WatchSample {
    /// Seconds since watching began.
    pub seconds: f64,
    /// Its memory by type, in base pages and in huge pages.
    pub coverage: Coverage,
    /// Proportional size (PSS), if the kernel reports it.
    pub memory: Option<Bytes>,
    /// Dirty memory that other processes map too: of a living fork, or shmem.
    pub shared: Option<Bytes>,
    /// CPU time so far, in seconds.
    pub cpu_seconds: Option<f64>,
    /// Number of requests so far, from the counter that the user named.
    pub requests: Option<u64>,
    /// Blocks that Pagewise has collapsed so far.
    pub collapsed: u64,
}

/// Summary of the samples of a watched program. Times are seconds since watching began.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WatchCourse {
    /// The phases in order, without gaps.
    pub phases: Vec<WatchPhase>,
    /// Time, and anonymous memory in huge pages in percent of all anonymous memory.
    pub covered: Vec<(f64, f64)>,
    /// Time, and CPU seconds per request, or per second if requests are not counted.
    pub used: Vec<(f64, f64)>,
    /// Start and end of each time in which a fork shared the memory.
    pub forks: Vec<[f64; 2]>,
    /// Whether requests were counted.
    pub counts_requests: bool,
}

/// Consecutive samples with the same state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WatchPhase {
    /// Time of its first and last sample.
    pub seconds: [f64; 2],
    /// Whether another process, such as a fork, maps a large part of the memory.
    pub shared: bool,
    /// Blocks that were collapsed since the previous phase.
    pub collapsed: u64,
    /// Anonymous memory in huge pages, in percent, at the end of the phase.
    pub covered: Option<f64>,
    /// The largest proportional size (PSS).
    pub most: Option<Bytes>,
    /// As in [`WatchCourse::used`]; if blocks were collapsed in the phase, after that.
    pub used: Option<f64>,
}
