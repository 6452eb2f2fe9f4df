// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a live view reads besides a [`Snapshot`](crate::Snapshot): the few numbers of processes and
//! cgroups that are cheap to read every second.
//!
//! A rate covers the time since the same process or group was last read. This time differs: a
//! number that is expensive to read is read for only some processes each time. `None` means that a
//! value is not known, never zero.

use crate::{Bytes, Cgroup, Limit, Name, Process};

/// A process, in the numbers of a live view.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveProcess {
    /// Process ID.
    pub pid: u32,
    /// The command's name, as the kernel keeps it (15 bytes).
    pub name: Name,
    /// Resident memory; shared pages count in full.
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

/// A memory cgroup, in the numbers of a live view. They include its child groups.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveGroup {
    /// Path below the hierarchy's root.
    pub path: Name,
    /// Memory charged to it: `memory.current`.
    pub current: Bytes,
    /// Anonymous memory.
    pub anon: Option<Bytes>,
    /// Its memory in swap.
    pub swap: Option<Bytes>,
    /// `memory.max`.
    pub limit: Option<Limit>,
    /// Growth of anonymous memory in RAM and in swap, in bytes per second over the last seconds.
    pub growth_per_second: Option<f64>,
    /// Pages that were read back soon after they were reclaimed, per second.
    pub refaults_per_second: Option<f64>,
}

/// The process or group that a live view shows in detail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveSubject {
    /// A process, by its ID.
    Process(u32),
    /// A memory cgroup, by its path.
    Group(Name),
}

/// The details of a process or group.
#[derive(Debug, Clone)]
pub enum LiveDetail {
    /// The process, without proportional sizes (PSS).
    Process(Box<Process>),
    /// The cgroup.
    Group(Box<Cgroup>),
    /// It has exited or was removed, or cannot be read.
    Gone,
}

/// What a live view needs to have read besides the host as a whole.
#[derive(Debug, Clone, Default)]
pub struct LiveChoice {
    /// Read cgroups instead of processes.
    pub groups: bool,
    /// Processes that are on the screen: all their numbers are read each time, expensive ones
    /// included.
    pub shown: Vec<u32>,
    /// The process or group to be read in full.
    pub open: Option<LiveSubject>,
}

/// Processes, cgroups and kswapd at one time.
#[derive(Debug, Clone, Default)]
pub struct LiveSample {
    /// Processes with memory of their own, by process ID; empty if cgroups are read.
    pub processes: Vec<LiveProcess>,
    /// Memory cgroups without the root, by path; empty if processes are read.
    pub groups: Vec<LiveGroup>,
    /// CPU time of kswapd since the previous sample, in percent of one CPU; `None` if its threads
    /// cannot be seen.
    pub kswapd_percent: Option<f64>,
    /// The process or group that was read in full.
    pub detail: Option<LiveDetail>,
}
