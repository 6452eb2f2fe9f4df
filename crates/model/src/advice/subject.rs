// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The object that a finding is about, which distinguishes several findings of the same rule.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::Name;

/// The object that a finding is about. Together with the rule's id it identifies the finding: the
/// same problem has the same subject in a later run, even if the numbers in its title have changed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// A cgroup, by its path below the root of the hierarchy.
    Cgroup(Name),
    /// A process.
    Process {
        /// The process id.
        pid: u32,
        /// The name of the process (`comm`).
        name: Name,
    },
    /// A swap area, zram device or zmerge device.
    Device(Name),
    /// Something else that the rule distinguishes, such as `page tables`.
    Part(Name),
}

impl Subject {
    /// Creates a subject that is named by the rule itself, such as `page tables`.
    pub fn part(name: &str) -> Self {
        Self::Part(Name::from(name))
    }

    /// Creates the subject for a swap area or block device, from its path or name.
    pub fn device(name: &str) -> Self {
        Self::Device(Name::from(name))
    }

    /// The path of the cgroup, if the subject is one.
    pub fn cgroup(&self) -> Option<&Name> {
        match self {
            Self::Cgroup(path) => Some(path),
            Self::Process { .. } | Self::Device(_) | Self::Part(_) => None,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cgroup(name) | Self::Device(name) | Self::Part(name) => write!(f, "{name}"),
            Self::Process { pid, name } => write!(f, "{name} (pid {pid})"),
        }
    }
}
