// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Program code that is locked into memory.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Name};

/// Code of programs that stays locked into memory as long as a background process of Pagewise keeps
/// it locked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PinnedCode {
    /// Limit on the memory that may be locked.
    pub budget: Bytes,
    /// Amount of memory that is locked.
    pub locked: Bytes,
    /// Size of the executable file pages that the processes have mapped, each page counted once.
    pub in_use: Bytes,
    /// Ids of those processes that use the code and are still running.
    pub processes: Vec<u32>,
    /// The files that contain the code, the one with most code first.
    pub files: Vec<PinnedFile>,
    /// Why not all code in use is locked; missing if all of it is locked.
    pub left_out: Option<String>,
}

/// Code in one file, and how much of it is locked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PinnedFile {
    /// Path of the file, as a process sees it.
    pub name: Name,
    /// Size of the file's executable pages that the processes have mapped.
    pub in_use: Bytes,
    /// How much of these pages is locked.
    pub locked: Bytes,
}
