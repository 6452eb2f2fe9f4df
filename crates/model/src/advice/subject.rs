// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What one of several findings of the same rule is about.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::Name;

/// The object that a finding is about. Together with the rule's id it identifies the finding: the
/// same trouble has the same subject in a later run, whatever the numbers in its title are then.
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
    /// A part that the rule itself names.
    pub fn part(name: &str) -> Self {
        Self::Part(Name::from(name))
    }

    /// A swap area or block device, by its path or name.
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
