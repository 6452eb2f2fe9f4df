// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a live view reads besides a [`Snapshot`](crate::Snapshot): processes and cgroups by the few numbers that are
//! cheap to read every second.
//!
//! Rates are over the time since the same process or group was read before, which is not the same for all: a number
//! that costs much is read of some processes at a time. `None` means that it is not known, never zero.

use crate::{Bytes, Cgroup, Limit, Name, Process};

/// A process, in few numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveProcess {
    /// Process ID.
    pub pid: u32,
    /// The command's name, as the kernel keeps it (15 bytes).
    pub name: Name,
    /// What is in RAM of it; shared pages count in full.
    pub resident: Bytes,
    /// Resident anonymous memory.
    pub anon: Bytes,
    /// Anonymous memory in swap.
    pub swap: Option<Bytes>,
    /// Growth of anonymous memory in RAM and in swap, in bytes per second over the last seconds.
    pub growth_per_second: Option<f64>,
    /// Page faults that waited for a disk or for compressed memory, per second.
    pub faults_per_second: Option<f64>,
    /// CPU time in percent of one CPU.
    pub cpu_percent: Option<f64>,
}

/// A memory cgroup, in few numbers. They include the groups below it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveGroup {
    /// Path below the hierarchy's root.
    pub path: Name,
    /// What it uses: `memory.current`.
    pub current: Bytes,
    /// Anonymous memory.
    pub anon: Option<Bytes>,
    /// What is in swap.
    pub swap: Option<Bytes>,
    /// `memory.max`.
    pub limit: Option<Limit>,
    /// Growth of anonymous memory in RAM and in swap, in bytes per second over the last seconds.
    pub growth_per_second: Option<f64>,
    /// Pages that were read back soon after reclaim, per second.
    pub refaults_per_second: Option<f64>,
}

/// One process or group of a live view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveSubject {
    /// A process, by its ID.
    Process(u32),
    /// A memory cgroup, by its path.
    Group(Name),
}

/// A process or group in full.
#[derive(Debug, Clone)]
pub enum LiveDetail {
    /// The process, without proportional sizes.
    Process(Box<Process>),
    /// The cgroup.
    Group(Box<Cgroup>),
    /// It has ended, or cannot be read.
    Gone,
}

/// What a live view wants to be read beside the host as a whole.
#[derive(Debug, Clone, Default)]
pub struct LiveChoice {
    /// Read cgroups instead of processes.
    pub groups: bool,
    /// Processes that are on the screen: all their numbers are read each time.
    pub shown: Vec<u32>,
    /// Read this one in full.
    pub open: Option<LiveSubject>,
}

/// Processes, cgroups and kswapd at one time.
#[derive(Debug, Clone, Default)]
pub struct LiveSample {
    /// Processes that have memory, by process ID; empty if cgroups are read.
    pub processes: Vec<LiveProcess>,
    /// Memory cgroups without the root, by path; empty if processes are read.
    pub groups: Vec<LiveGroup>,
    /// CPU time of kswapd since the sample before, in percent of one CPU; `None` if its threads cannot be seen.
    pub kswapd_percent: Option<f64>,
    /// What was to be read in full.
    pub detail: Option<LiveDetail>,
}
