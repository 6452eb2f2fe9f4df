// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program that is watched while its memory is collapsed: what it was at one time.

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
