// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Folders and tickets of runs → those of killed runs are removed.
//!
//! A QEMU ends with its runner (see program.rs). Should one be left all the same, its command line names
//! the folder. The folder is renamed before QEMUs are searched for, and removed after that: one that is only
//! being started then finds no kernel.

use std::fs;
use std::sync::atomic::AtomicBool;

use super::places::{self, LOCK};
use super::queue;
use crate::cache::Cache;
use crate::error::{Error, ErrorContext};
use crate::files;
use crate::lock::{Kind, Lock};
use crate::qemu::process::kill_qemu;

/// Removes what killed runners left; a line for each.
///
/// # Errors
/// Where that is not possible.
pub fn clean(cache: &Cache, stop: &AtomicBool) -> Result<Vec<String>, Error> {
    let _admission = Lock::wait(&places::admission(cache), Kind::Alone, stop)?;
    clean_admitted(cache)
}

/// The same for a caller that holds the admission lock.
pub(super) fn clean_admitted(cache: &Cache) -> Result<Vec<String>, Error> {
    let mut lines = cache.clean_unfinished()?;
    queue::clean(&places::queue(cache))?;
    for folder in places::folders(cache)? {
        // A runner may end between our look and now, and take its folder with it.
        let Ok(Some(_lock)) = Lock::attempt(&folder.join(LOCK), Kind::Alone) else { continue };
        let aside = folder.with_extension("gone");
        fs::rename(&folder, &aside).with_path(&folder)?;
        let killed = if kill_qemu(&folder.with_extension("")) { " and its QEMU" } else { "" };
        files::remove_folder(&aside)?;
        lines.push(format!("removed {}{killed}, left by a run that was killed", folder.display()));
    }
    Ok(lines)
}
