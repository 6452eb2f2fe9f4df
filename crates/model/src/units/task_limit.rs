// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A limit on the number of tasks, which may be "no limit".

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

/// A limit on the number of tasks (processes and threads), or no limit (`max` in `pids.max`).
///
/// In JSON: a number, or the string `"max"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskLimit {
    /// At most this many tasks.
    Tasks(u64),
    /// Any number of tasks.
    Max,
}

impl TaskLimit {
    /// The number of tasks; `None` if there is no limit.
    pub const fn tasks(self) -> Option<u64> {
        match self {
            Self::Tasks(tasks) => Some(tasks),
            Self::Max => None,
        }
    }
}

impl fmt::Display for TaskLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tasks(tasks) => tasks.fmt(f),
            Self::Max => f.write_str("max"),
        }
    }
}

impl Serialize for TaskLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Tasks(tasks) => serializer.serialize_u64(*tasks),
            Self::Max => serializer.serialize_str("max"),
        }
    }
}

impl JsonSchema for TaskLimit {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TaskLimit".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "integer", "minimum": 0 }, { "const": "max" }] })
    }
}
