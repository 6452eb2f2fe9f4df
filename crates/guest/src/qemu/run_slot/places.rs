// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Paths of the folders, tickets and locks of runs in a cache, and the list of runs.

use std::fs;
use std::path::PathBuf;

use super::load::Running;
use crate::cache::Cache;
use crate::error::{Error, ErrorContext};

/// Name of the file with a run's note, in the run's folder.
pub(super) const NOTE: &str = "takes";
/// Name of the lock file that a run holds as long as it lives, in the run's folder.
pub(super) const LOCK: &str = "lock";

pub(super) fn runs_folder(cache: &Cache) -> PathBuf {
    cache.folder().join("runs")
}

pub(super) fn queue_folder(cache: &Cache) -> PathBuf {
    cache.folder().join("queue")
}

/// Path of the lock to hold while taking or removing a slot or a ticket.
pub(super) fn admission_lock(cache: &Cache) -> PathBuf {
    cache.folder().join("locks/.admission")
}

/// Path of the lock to hold while making or removing a ticket. It is separate from the admission
/// lock, because runs that wait for a lock get it in random order: if new runs had to wait for the
/// admission lock before they get a ticket, the tickets would not be in order of arrival.
pub(super) fn arrivals_lock(cache: &Cache) -> PathBuf {
    cache.folder().join("locks/.arrivals")
}

pub(super) fn list_run_folders(cache: &Cache) -> Result<Vec<PathBuf>, Error> {
    let runs = runs_folder(cache);
    let mut folders: Vec<PathBuf> =
        fs::read_dir(&runs).with_path(&runs)?.flatten().map(|entry| entry.path()).collect();
    folders.sort();
    Ok(folders)
}

/// The runs that have a note. A run that is ending may already have lost its note.
pub(super) fn list_running(cache: &Cache) -> Result<Vec<Running>, Error> {
    let run = |folder: PathBuf| {
        let note = fs::read(folder.join(NOTE)).unwrap_or_default();
        Some(Running { note: serde_json::from_slice(&note).ok()?, folder })
    };
    Ok(list_run_folders(cache)?.into_iter().filter_map(run).collect())
}
