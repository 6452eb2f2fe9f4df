// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A folder → the regular files below it. Links are not followed.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{At, Error};

pub(crate) fn below(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).at(&folder)? {
            let entry = entry.at(&folder)?;
            let kind = entry.file_type().at(&folder)?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}
