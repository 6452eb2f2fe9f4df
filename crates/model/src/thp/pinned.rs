// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Program code that is kept in memory.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Bytes, Name};

/// Code of programs that is locked into memory for as long as somebody holds it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PinnedCode {
    /// As much may be locked.
    pub budget: Bytes,
    /// As much is locked.
    pub locked: Bytes,
    /// Executable pages of files that the processes have mapped, each once.
    pub in_use: Bytes,
    /// The processes whose code it is, and that run.
    pub processes: Vec<u32>,
    /// Its files, the largest part first.
    pub files: Vec<PinnedFile>,
    /// Why not all that is in use is locked.
    pub left_out: Option<String>,
}

/// Code of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PinnedFile {
    /// Its name, as a process sees it.
    pub name: Name,
    /// Executable pages of it that the processes have mapped.
    pub in_use: Bytes,
    /// As much of them is locked.
    pub locked: Bytes,
}
