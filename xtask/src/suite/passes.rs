// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stores which groups of tests have passed with which inputs: a file for each pass, in the cache
//! that all clones of this user share.
//!
//! The name of a file is the group's key, a hash of all its inputs ([`super::keys`]). So two runs
//! that pass at the same time write the same file or different files, and on an older commit the
//! passes of that commit's inputs are found again. A file is written under another name and renamed
//! when it is complete. A file that cannot be read does not count as a pass, and is reported as
//! damaged.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::keys::Parts;
use super::times::write_whole;

/// A record that a group of tests passed with certain inputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pass {
    /// The date of the pass, such as `2026-11-26`.
    pub(super) passed: String,
    pub(super) minutes: f64,
    /// Number of tests that passed; 0 for a command whose exit status is the result.
    pub(super) tests: u64,
    /// The inputs of the group, so that a later run can print what has changed.
    pub(super) inputs: Parts,
}

#[derive(Debug, Clone)]
pub(super) struct Passes {
    folder: PathBuf,
}

/// Maximum number of passes that are kept for a group; older ones are removed.
const KEPT: usize = 30;

impl Passes {
    pub(super) fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    fn file(&self, group: &str, key: &str) -> PathBuf {
        self.folder.join(group).join(key).with_extension("toml")
    }

    /// The pass of a group with exactly these inputs; `None` if it has not passed with them.
    pub(super) fn find(&self, group: &str, key: &str) -> Option<Pass> {
        let path = self.file(group, key);
        let text = fs::read_to_string(&path).ok()?;
        let pass = toml::from_str(&text);
        if pass.is_err() {
            println!("  {} is damaged and no pass: the group runs again", path.display());
        }
        pass.ok()
    }

    /// Paths of the passes of a group, the last pass first.
    fn list_passes(&self, group: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.join(group)).into_iter().flatten().flatten();
        let files = entries.map(|entry| entry.path());
        let files = files.filter(|path| path.extension().is_some_and(|end| end == "toml"));
        let time = |path: &PathBuf| fs::metadata(path).and_then(|it| it.modified()).ok();
        let mut files: Vec<PathBuf> = files.collect();
        files.sort_by_key(|path| std::cmp::Reverse(time(path)));
        files
    }

    /// The last pass of a group, whatever its inputs were.
    pub(super) fn last(&self, group: &str) -> Option<Pass> {
        let read = |path: &PathBuf| toml::from_str(&fs::read_to_string(path).ok()?).ok();
        self.list_passes(group).iter().find_map(read)
    }

    /// Stores a pass, and removes the oldest passes of the group.
    pub(super) fn record(&self, group: &str, key: &str, pass: &Pass) -> Result<()> {
        let path = self.file(group, key);
        let folder = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        write_whole(&path, &toml::to_string(pass)?)?;
        for old in self.list_passes(group).into_iter().skip(KEPT) {
            // another run may have removed the file meanwhile
            let _ = fs::remove_file(old);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(minutes: f64) -> Pass {
        let inputs = Parts::from([("a.rs".to_owned(), "100644 aa".to_owned())]);
        Pass { passed: "2026-11-26".to_owned(), minutes, tests: 3, inputs }
    }

    #[test]
    fn a_pass_is_found_by_its_group_and_key_alone() {
        let folder = tempfile::tempdir().unwrap();
        let passes = Passes::at(folder.path());
        assert_eq!((passes.find("fuzz", "a1"), passes.last("fuzz")), (None, None));
        passes.record("fuzz", "a1", &pass(1.0)).unwrap();
        passes.record("fuzz", "b2", &pass(2.0)).unwrap();
        assert_eq!(passes.find("fuzz", "a1"), Some(pass(1.0)), "an earlier one stays");
        assert_eq!(passes.find("fuzz", "b2"), Some(pass(2.0)));
        assert_eq!(passes.find("hugepool", "a1"), None);
    }

    #[test]
    fn what_was_cut_or_damaged_is_no_pass() {
        let folder = tempfile::tempdir().unwrap();
        let passes = Passes::at(folder.path());
        passes.record("fuzz", "a1", &pass(1.0)).unwrap();
        let file = folder.path().join("fuzz/a1.toml");
        for text in [
            "",
            "passed = \"2026",
            "passed = 1\n",
            "passed = \"x\"\nminutes = 1.0\ntests = 1\nmore = 2\n",
        ] {
            fs::write(&file, text).unwrap();
            assert_eq!(passes.find("fuzz", "a1"), None, "{text}");
        }
        passes.record("fuzz", "a1", &pass(2.0)).unwrap();
        assert_eq!(passes.find("fuzz", "a1"), Some(pass(2.0)));
    }

    #[test]
    fn a_file_that_a_killed_run_began_is_not_one_of_the_passes() {
        let folder = tempfile::tempdir().unwrap();
        let passes = Passes::at(folder.path());
        fs::create_dir(folder.path().join("fuzz")).unwrap();
        fs::write(folder.path().join("fuzz/a1.new-77"), "passed = \"2026-11-26\"\n").unwrap();
        assert_eq!((passes.find("fuzz", "a1"), passes.last("fuzz")), (None, None));
    }

    #[test]
    fn only_the_last_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let passes = Passes::at(folder.path());
        for number in 0..KEPT + 5 {
            passes.record("fuzz", &format!("k{number}"), &pass(1.0)).unwrap();
        }
        assert_eq!(passes.list_passes("fuzz").len(), KEPT);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_an_error_and_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("passes");
        fs::write(&file, "no folder").unwrap();
        let passes = Passes::at(&file);
        assert!(passes.record("fuzz", "a1", &pass(1.0)).is_err());
        assert_eq!(passes.find("fuzz", "a1"), None);
    }
}
