// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where in a cache runs have their folders, tickets and locks, and which runs there are.

use std::fs;
use std::path::PathBuf;

use super::load::Running;
use crate::cache::Cache;
use crate::error::{Error, ErrorContext};

/// What a run takes, in its folder.
pub(super) const NOTE: &str = "takes";
/// Held as long as the run lives, in its folder.
pub(super) const LOCK: &str = "lock";

pub(super) fn runs(cache: &Cache) -> PathBuf {
    cache.folder().join("runs")
}

pub(super) fn queue(cache: &Cache) -> PathBuf {
    cache.folder().join("queue")
}

/// Whoever gives or takes a place holds this lock meanwhile.
pub(super) fn admission(cache: &Cache) -> PathBuf {
    cache.folder().join("locks/.admission")
}

pub(super) fn folders(cache: &Cache) -> Result<Vec<PathBuf>, Error> {
    let runs = runs(cache);
    let mut folders: Vec<PathBuf> =
        fs::read_dir(&runs).with_path(&runs)?.flatten().map(|entry| entry.path()).collect();
    folders.sort();
    Ok(folders)
}

/// Runs with their notes; one that ends now may have none any more.
pub(super) fn running(cache: &Cache) -> Result<Vec<Running>, Error> {
    let run = |folder: PathBuf| {
        let note = fs::read(folder.join(NOTE)).unwrap_or_default();
        Some(Running { note: serde_json::from_slice(&note).ok()?, folder })
    };
    Ok(folders(cache)?.into_iter().filter_map(run).collect())
}
