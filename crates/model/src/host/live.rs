// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a live view shows besides a [`Snapshot`](crate::Snapshot): the numbers of processes and
//! cgroups that are cheap enough to read every second.
//!
//! A rate covers the time since the same process or group was last read. This time differs between
//! processes, because a number that is expensive to read is read for only some of them each time.
//! `None` means that a value is not known; it never means zero.

use crate::{Bytes, Cgroup, Limit, Name, Process};

/// A process, with the numbers that a live view shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveProcess {
    /// Process ID.
    pub pid: u32,
    /// Name of the process's command, as the kernel keeps it (15 bytes).
    pub name: Name,
    /// Resident memory of the process; pages that it shares with others count in full.
    pub resident: Bytes,
    /// Anonymous memory of the process in RAM.
    pub anon: Bytes,
    /// Anonymous memory of the process in swap.
    pub swap: Option<Bytes>,
    /// Growth of anonymous memory in RAM and in swap, in bytes per second over the last seconds.
    pub growth_per_second: Option<f64>,
    /// Page faults that waited for a disk or for compressed memory, per second.
    pub faults_per_second: Option<f64>,
    /// CPU time of the process in percent of one CPU.
    pub cpu_percent: Option<f64>,
}

/// A memory cgroup, with the numbers that a live view shows. They include descendant cgroups.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveGroup {
    /// Path of the cgroup below the hierarchy's root.
    pub path: Name,
    /// Memory that is charged to the group: `memory.current`.
    pub current: Bytes,
    /// Anonymous memory of the group in RAM.
    pub anon: Option<Bytes>,
    /// Memory of the group in swap.
    pub swap: Option<Bytes>,
    /// The group's limit on memory: `memory.max`.
    pub limit: Option<Limit>,
    /// Growth of anonymous memory in RAM and in swap, in bytes per second over the last seconds.
    pub growth_per_second: Option<f64>,
    /// Pages that were read back soon after they were reclaimed, per second.
    pub refaults_per_second: Option<f64>,
}

/// The process or group that a live view shows in detail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveSubject {
    /// A process, named by its ID.
    Process(u32),
    /// A memory cgroup, named by its path.
    Group(Name),
}

/// The process or group that a live view shows in detail, with all its numbers.
#[derive(Debug, Clone)]
pub enum LiveDetail {
    /// The process with all its numbers except proportional sizes (PSS).
    Process(Box<Process>),
    /// The cgroup with all its numbers.
    Group(Box<Cgroup>),
    /// The process has exited, the group was removed, or it cannot be read.
    Gone,
}

/// What a live view must read besides the numbers of the host as a whole.
#[derive(Debug, Clone, Default)]
pub struct LiveChoice {
    /// Whether to read cgroups instead of processes.
    pub groups: bool,
    /// IDs of the processes on the screen. All their numbers are read each time, also those that
    /// are expensive to read.
    pub shown: Vec<u32>,
    /// The process or group to be read in full.
    pub open: Option<LiveSubject>,
}

/// Processes or cgroups, and the CPU use of kswapd, at one time.
#[derive(Debug, Clone, Default)]
pub struct LiveSample {
    /// Processes that have memory of their own, by process ID; empty if cgroups are read.
    pub processes: Vec<LiveProcess>,
    /// Memory cgroups without the root, by path; empty if processes are read.
    pub groups: Vec<LiveGroup>,
    /// CPU time of kswapd since the previous sample, in percent of one CPU; `None` if its threads
    /// cannot be seen.
    pub kswapd_percent: Option<f64>,
    /// The process or group that was read in full.
    pub detail: Option<LiveDetail>,
}
