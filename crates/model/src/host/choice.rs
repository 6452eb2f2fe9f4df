// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings that the kernel prints as a list of words with the active word in brackets: `always
//! [madvise] never`.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::Name;

/// A setting that is one of several words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Choice {
    /// The active word (the one in brackets).
    pub active: Name,
    /// All words, in the kernel's order.
    pub available: Vec<Name>,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.active.fmt(f)
    }
}

/// The compression algorithms that the kernel prints in a line like `lzo [lz4] zstd`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Algorithms {
    /// The active algorithm (the one in brackets).
    pub active: Name,
    /// All algorithms in the line, in the kernel's order.
    pub available: Vec<Name>,
}

impl fmt::Display for Algorithms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.active.fmt(f)
    }
}
