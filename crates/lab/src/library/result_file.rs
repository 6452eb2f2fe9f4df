// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the cells in a folder of evidence.
//!
//! The folder of a single cell is like that of a trial. If there are several cells, each has a
//! folder, and an index is beside these folders. The index is written before the first cell runs,
//! so that the evidence of a killed experiment can be read, too.

use std::path::{Path, PathBuf};

use pagewise_guest::Error;
use pagewise_observe::UserFile;
use serde::{Deserialize, Serialize};

use crate::experiment::{EXPERIMENT, LONGEST_DOCUMENT, SUMMARY};

/// Name and version of the index format.
const SCHEMA: &str = "pagewise/lab-index/1";

/// The index of a folder with several cells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// Name and version of the format of the index.
    pub schema: String,
    /// Version of the program that recorded the experiment.
    pub pagewise: String,
    /// Name of the experiment.
    pub experiment: String,
    /// Names of the cells' folders.
    pub cells: Vec<String>,
}

impl Index {
    /// Makes the index for cells that are about to be run.
    #[must_use]
    pub fn new(experiment: &str, cells: Vec<String>) -> Self {
        let pagewise = env!("CARGO_PKG_VERSION").to_owned();
        Self { schema: SCHEMA.to_owned(), pagewise, experiment: experiment.to_owned(), cells }
    }
}

/// The cells in a folder, by name. The folder of a trial is one cell, with an empty name.
///
/// # Errors
/// If the folder is not a folder of evidence.
pub fn cells_in(folder: &Path) -> Result<Vec<(String, PathBuf)>, Error> {
    let summary = folder.join(SUMMARY);
    if folder.join(EXPERIMENT).exists() || !summary.exists() {
        return Ok(vec![(String::new(), folder.to_owned())]);
    }
    let text = UserFile::open_in(folder, SUMMARY, LONGEST_DOCUMENT)?.into_bytes()?;
    let unusable = |what: String| Error::Unusable { path: summary.clone(), what };
    let index: Index =
        serde_json::from_slice(&text).map_err(|error| unusable(error.to_string()))?;
    if index.schema != SCHEMA {
        return Err(unusable(format!("expected {SCHEMA}, found {:?}", index.schema)));
    }
    let plain = |name: &&String| !name.contains('/') && !matches!(name.as_str(), "" | "." | "..");
    let named = |name: String| (name.clone(), folder.join(name));
    let cells = index.cells.iter().filter(plain).cloned().map(named);
    let begun: Vec<_> = cells.filter(|(_, path)| path.join(EXPERIMENT).exists()).collect();
    if begun.is_empty() {
        Err(unusable("none of its cells was begun".to_owned()))
    } else {
        Ok(begun)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn folder(cells: &[&str], begun: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let index = Index::new("swap", cells.iter().map(|&name| name.to_owned()).collect());
        fs::write(folder.path().join(SUMMARY), serde_json::to_vec(&index).unwrap()).unwrap();
        for name in begun {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join(EXPERIMENT), "{}").unwrap();
        }
        folder
    }

    #[test]
    fn cells_that_were_begun_are_found_and_none_outside() {
        let many = folder(&["a-1M", "b-2M", "../c", ".."], &["a-1M"]);
        let found = cells_in(many.path()).unwrap();
        assert_eq!(found, [("a-1M".to_owned(), many.path().join("a-1M"))]);
        assert!(cells_in(folder(&["a-1M"], &[]).path()).is_err());
    }

    #[test]
    fn a_trials_folder_is_its_own_cell() {
        let one = tempfile::tempdir().unwrap();
        fs::write(one.path().join(EXPERIMENT), "{}").unwrap();
        fs::write(one.path().join(SUMMARY), "{}").unwrap();
        assert_eq!(cells_in(one.path()).unwrap(), [(String::new(), one.path().to_owned())]);
    }
}
