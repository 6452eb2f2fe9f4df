// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Program code that is locked into memory.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Name};

/// Code of programs that stays locked into memory as long as a process of Pagewise holds it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PinnedCode {
    /// Limit on the memory to lock.
    pub budget: Bytes,
    /// Memory that is locked.
    pub locked: Bytes,
    /// Executable file pages that the processes have mapped, each page counted once.
    pub in_use: Bytes,
    /// The processes whose code it is, as far as they are still running.
    pub processes: Vec<u32>,
    /// The files, the one with most code first.
    pub files: Vec<PinnedFile>,
    /// Why not all code in use is locked.
    pub left_out: Option<String>,
}

/// Code of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PinnedFile {
    /// Its path, as a process sees it.
    pub name: Name,
    /// Its executable pages that the processes have mapped.
    pub in_use: Bytes,
    /// The part of these that is locked.
    pub locked: Bytes,
}
