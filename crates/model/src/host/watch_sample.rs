// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program that is watched while its memory is collapsed: samples in order of time, and what they show together.

use serde::Serialize;

use crate::{Bytes, Coverage};

/// One process, or several together, at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct WatchSample {
    /// Since watching began.
    pub seconds: f64,
    /// Its memory, by size of pages.
    pub coverage: Coverage,
    /// Proportional size, where the kernel told it.
    pub memory: Option<Bytes>,
    /// Memory that was written to and that others map too: a fork that lives, or shmem.
    pub shared: Option<Bytes>,
    /// Processor time so far, in seconds.
    pub cpu_seconds: Option<f64>,
    /// What its user's counter said: requests so far.
    pub requests: Option<u64>,
    /// Blocks that we have collapsed so far.
    pub collapsed: u64,
}

/// What samples of a watched program show together. Times are seconds since watching began.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WatchCourse {
    /// In order, without gaps.
    pub phases: Vec<WatchPhase>,
    /// When, and the share of anonymous memory in huge pages in percent.
    pub covered: Vec<(f64, f64)>,
    /// When, and the CPU seconds for each request, or for each second if nobody counts requests.
    pub used: Vec<(f64, f64)>,
    /// From when to when a fork shared the memory.
    pub forks: Vec<[f64; 2]>,
    /// Whether requests were counted.
    pub counts_requests: bool,
}

/// Consecutive samples in which the same is true.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WatchPhase {
    /// Its first and last sample.
    pub seconds: [f64; 2],
    /// Whether another process, as a fork does, maps a good part of the memory.
    pub shared: bool,
    /// Blocks that were collapsed since the phase before.
    pub collapsed: u64,
    /// Its last share of anonymous memory in huge pages in percent: what the phase led to.
    pub covered: Option<f64>,
    /// The largest proportional size.
    pub most: Option<Bytes>,
    /// As in [`WatchCourse::used`]; if blocks were collapsed, after that.
    pub used: Option<f64>,
}
