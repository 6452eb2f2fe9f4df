// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several words of which one is in force, as `always [madvise] never`.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::Name;

/// A setting that is one of several words: the one in brackets of `always [madvise] never`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Choice {
    /// The word in force.
    pub active: Name,
    /// All words, in the kernel's order.
    pub available: Vec<Name>,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.active.fmt(f)
    }
}

/// The algorithms of one line like `lzo [lz4] zstd`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Algorithms {
    /// The one in brackets.
    pub active: Name,
    /// All of them, in the kernel's order.
    pub available: Vec<Name>,
}

impl fmt::Display for Algorithms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.active.fmt(f)
    }
}
