// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The answer to "is memory short here?": for the host as a whole and for cgroups that are held by
//! their own limit.

use schemars::JsonSchema;
use serde::Serialize;

use crate::Name;

/// How short of memory a host or a cgroup is. Orders from best to worst.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Not even the size of memory could be read.
    #[default]
    Unknown,
    /// Nothing that was read says that memory is short.
    Calm,
    /// Little is left, or something has already failed; programs do not wait for memory yet.
    Tight,
    /// Programs wait for memory, or it will be exhausted soon.
    Short,
    /// Memory is nearly exhausted, work stands still, or processes are being killed.
    Critical,
}

/// How short of memory a host is, and the cgroups on it that are short on their own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HostVerdict {
    /// The worst of `host` and of all `groups`.
    pub level: Level,
    /// One to three sentences: the worst thing with its number, and whose it is.
    pub line: String,
    /// The host as a whole, without cgroups that are held by their own limit.
    pub host: Level,
    /// Cgroups that are short because of their own limit, worst first.
    pub groups: Vec<GroupVerdict>,
    /// What could not be judged, and why.
    pub unknown: Vec<String>,
}

/// A cgroup that is short of memory because of a limit of its own or of a group above it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GroupVerdict {
    /// The cgroup's path below the root of the hierarchy.
    pub group: Name,
    /// How short it is.
    pub level: Level,
    /// The worst thing with its number, as a clause without a full stop.
    pub line: String,
}
