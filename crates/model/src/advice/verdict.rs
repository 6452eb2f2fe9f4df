// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The answer to "is memory short here?", for the host as a whole and for cgroups that reached
//! their own limit.

use schemars::JsonSchema;
use serde::Serialize;

use crate::Name;

/// How short of memory a host or a cgroup is, ordered from best to worst.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Nothing is known: not even the size of RAM could be read.
    #[default]
    Unknown,
    /// Nothing indicates that memory is short.
    Calm,
    /// Little memory is left, or something has already failed; programs do not wait for memory yet.
    Tight,
    /// Programs wait for memory, or memory will be exhausted soon.
    Short,
    /// Memory is nearly exhausted, programs hardly make progress, or processes are being killed.
    Critical,
}

/// How short of memory a host is, and which of its cgroups are short because of a limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HostVerdict {
    /// The worst of `host` and of all `groups`.
    pub level: Level,
    /// The verdict in one to three sentences: the worst problem with its number, and which cgroup
    /// or the host has it.
    pub line: String,
    /// How short of memory the host as a whole is, without cgroups that are short because of a
    /// limit.
    pub host: Level,
    /// Cgroups that are short because of a limit, worst first.
    pub groups: Vec<GroupVerdict>,
    /// What could not be judged, and why.
    pub unknown: Vec<String>,
}

/// A cgroup that is short of memory because of its own limit or that of a parent group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GroupVerdict {
    /// The cgroup's path below the root of the hierarchy.
    pub group: Name,
    /// How short of memory the cgroup is.
    pub level: Level,
    /// The worst problem of the cgroup with its number, as a clause without a full stop.
    pub line: String,
}
