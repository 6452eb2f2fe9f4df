// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU time and major faults of a run, from its start to a later moment.

use std::time::Duration;

use pagewise_model::Nanos;
use pagewise_model::lend::MemoryGroup;
use pagewise_observe::{HostRoot, OwnUsage, family_usage, process_usage};

use super::host::counters_of;

/// CPU time and major faults of some processes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Usage {
    pub(super) cpu_nanos: u64,
    pub(super) major_faults: u64,
}

impl Usage {
    /// CPU time and faults of a process that has not started any other process. Values that cannot
    /// be read count as 0, which is an error of a millisecond or two.
    pub(super) fn at_gate(host: &HostRoot, pid: u32) -> Self {
        let (time, major_faults) = process_usage(host, pid);
        Self { cpu_nanos: time.map_or(0, Nanos::get), major_faults: major_faults.unwrap_or(0) }
    }

    /// CPU time and faults of running processes and of all processes that they started. If the
    /// kernel counts CPU time in their cgroup, that value is used.
    pub(super) fn of_running(
        host: &HostRoot,
        processes: &[u32],
        group: Option<&MemoryGroup>,
    ) -> Self {
        let (cpu, major_faults) = family_usage(host, processes);
        let of_group = group.and_then(|group| counters_of(group).cpu(host));
        let of_group = of_group.map(|micros| micros.get().saturating_mul(1000));
        let cpu_nanos = of_group.unwrap_or(cpu.get().saturating_mul(1_000_000));
        Self { cpu_nanos, major_faults }
    }

    /// CPU time and faults of all children that were reaped since `before`. If the kernel counts
    /// CPU time in the cgroup, that value is used.
    pub(super) fn since(before: OwnUsage, group_seconds: Option<f64>) -> Self {
        let now = OwnUsage::of_ended_children();
        let cpu = now.cpu.saturating_sub(before.cpu);
        let cpu = group_seconds.map_or(cpu, |seconds| Duration::from_secs_f64(seconds.max(0.0)));
        Self {
            cpu_nanos: u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX),
            major_faults: now.major_faults.saturating_sub(before.major_faults),
        }
    }

    pub(super) fn subtract(self, other: Self) -> Self {
        Self {
            cpu_nanos: self.cpu_nanos.saturating_sub(other.cpu_nanos),
            major_faults: self.major_faults.saturating_sub(other.major_faults),
        }
    }

    pub(super) fn cpu_seconds(self) -> f64 {
        self.cpu_nanos as f64 / 1e9
    }
}
