// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Removes the folders and queue tickets of runs that were killed.
//!
//! A QEMU ends with its runner (see program.rs). If one is left anyway, it is found by the folder
//! in its command line. The run's folder is renamed first, then QEMUs are searched for, then the
//! folder is removed: a QEMU that starts during the search does not find its kernel.

use std::fs;
use std::sync::atomic::AtomicBool;

use super::places::{self, LOCK};
use super::queue;
use crate::cache::Cache;
use crate::error::{Error, ErrorContext};
use crate::files;
use crate::lock::{Kind, Lock};
use crate::qemu::process::kill_qemu;

/// Removes the leftovers of killed runs; returns a line for each.
///
/// # Errors
/// If something cannot be removed.
pub fn remove_leftovers(cache: &Cache, stop: &AtomicBool) -> Result<Vec<String>, Error> {
    let _admission = Lock::wait(&places::admission_lock(cache), Kind::Alone, stop)?;
    remove_leftovers_under_lock(cache)
}

/// Like [`remove_leftovers`], for a caller that already holds the admission lock.
pub(super) fn remove_leftovers_under_lock(cache: &Cache) -> Result<Vec<String>, Error> {
    let mut lines = cache.clean_unfinished()?;
    let arrivals = Lock::try_take(&places::arrivals_lock(cache), Kind::Alone)?;
    // the lock is not free if another run takes its ticket now; the next call then removes the
    // tickets
    if let Some(_arrivals) = arrivals {
        queue::remove_dead_tickets(&places::queue_folder(cache))?;
    }
    for folder in places::list_run_folders(cache)? {
        // a run may end in the meantime and remove its folder itself
        let Ok(Some(_lock)) = Lock::try_take(&folder.join(LOCK), Kind::Alone) else { continue };
        let aside = folder.with_extension("gone");
        fs::rename(&folder, &aside).with_path(&folder)?;
        let killed = if kill_qemu(&folder.with_extension("")) { " and its QEMU" } else { "" };
        files::remove_folder(&aside)?;
        lines.push(format!("removed {}{killed}, left by a run that was killed", folder.display()));
    }
    Ok(lines)
}
