// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory cgroups of version 1 and 2, in one representation.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Counters, Limit, Name, Pressure, Reading, TaskLimit};

/// Which versions of memory cgroups a host uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Hierarchy {
    /// Version 2 only: one tree, with the memory controller enabled.
    V2,
    /// Version 1 only: a tree for each controller.
    V1,
    /// The memory controller is in a version 1 tree; a version 2 tree without it is mounted as
    /// well.
    Hybrid,
    /// No memory controller is mounted.
    #[default]
    None,
}

/// The memory cgroups of the host.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Cgroups {
    /// Which versions of memory cgroups the host uses.
    pub hierarchy: Hierarchy,
    /// Every memory cgroup, parents before children; the path of the root is `/`.
    pub groups: Vec<Cgroup>,
    /// Version 2 only: number of deleted cgroups that the kernel still keeps, because memory is
    /// charged to them.
    pub dying: Reading<u64>,
    /// Number of cgroups that were left out because Pagewise reads a limited number of them.
    pub left_out: u64,
}

impl Cgroups {
    /// The cgroup with this path below the hierarchy's root.
    pub fn group(&self, path: &str) -> Option<&Cgroup> {
        self.groups.iter().find(|group| group.path.as_str() == path)
    }
}

/// One memory cgroup. The fields are named as in version 2; on a host with version 1, the
/// equivalent file is read.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "each field is the cgroup v2 file of the same name")]
pub struct Cgroup {
    /// Path of the cgroup below the hierarchy's root, starting with `/`.
    pub path: Name,
    pub current: Reading<Bytes>,
    pub peak: Reading<Bytes>,
    pub min: Reading<Limit>,
    pub low: Reading<Limit>,
    pub high: Reading<Limit>,
    pub max: Reading<Limit>,
    pub swap_current: Reading<Bytes>,
    /// Limit on the group's swap. Version 1 limits memory plus swap: here it is that limit minus
    /// `max`.
    pub swap_max: Reading<Limit>,
    pub zswap_current: Reading<Bytes>,
    pub zswap_max: Reading<Limit>,
    /// Whether zswap may write pages of the group back to disk; `false` in a parent group applies
    /// to this group as well.
    pub zswap_writeback: Reading<bool>,
    /// Version 1 only: the group's own swappiness.
    pub swappiness: Reading<u64>,
    /// Version 2 only: whether all tasks of the group are stopped (`cgroup.freeze`). It is read if
    /// the group uses at least 64 MiB.
    pub frozen: Reading<bool>,
    pub anon: Reading<Bytes>,
    pub file: Reading<Bytes>,
    pub shmem: Reading<Bytes>,
    /// Anonymous memory of the group in huge pages.
    pub anon_thp: Reading<Bytes>,
    pub refault_anon: Reading<u64>,
    pub refault_file: Reading<u64>,
    pub pgmajfault: Reading<u64>,
    pub events: CgroupEvents,
    pub pids: CgroupPids,
    pub pressure: Pressure,
    /// Version 2 only: the lines of `io.max` that limit reads. They are read if tasks of the group
    /// wait for memory.
    #[serde(skip)]
    #[schemars(skip)]
    pub io_limits: Vec<IoLimit>,
    /// All lines of the group's `memory.stat`, by the kernel's name.
    #[serde(skip)]
    #[schemars(skip)]
    pub stat: Counters,
}

/// A limit on what a cgroup may read from one block device: a line of `io.max`.
#[derive(Debug, Clone, Default)]
pub struct IoLimit {
    /// Major and minor number of the device: `8:0`.
    pub device: Name,
    /// Maximum number of bytes that may be read per second (`rbps`).
    pub bytes: Reading<Limit>,
    /// Maximum number of reads per second (`riops`); absent if there is no limit.
    pub requests: Reading<u64>,
}

/// How often a memory cgroup hit its limits (`memory.events`).
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "each field is the event of the same name")]
pub struct CgroupEvents {
    pub low: Reading<u64>,
    pub high: Reading<u64>,
    pub max: Reading<u64>,
    pub oom: Reading<u64>,
    pub oom_kill: Reading<u64>,
}

/// The limit on the number of tasks in a cgroup, which is not a memory limit. Version 2 only: in
/// version 1 the pids controller has a tree of its own, which Pagewise does not read.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct CgroupPids {
    /// Number of tasks (processes and threads) in the group and its descendants (`pids.current`).
    /// It is read only if the group has a limit.
    pub current: Reading<u64>,
    /// Maximum number of tasks that the group and its descendants may have (`pids.max`).
    pub max: Reading<TaskLimit>,
    /// How often a fork was refused (`max` in `pids.events`). Since Linux 6.11 the kernel counts a
    /// refusal in the group whose limit was reached and in that group's ancestors; older kernels
    /// count it in the group of the task that forked.
    pub refused: Reading<u64>,
}
