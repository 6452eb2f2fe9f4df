// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The durations of jobs and tests in the last run, by which the longest are started first.
//!
//! They are stored in `target/test-times.json`, and next to the shared caches for the next clone.
//! They affect only the order of jobs, so a file that cannot be read counts as empty.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::run;

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Times(BTreeMap<String, f64>);

impl Times {
    /// Reads the times of this clone's last run; if there was none, those of the last run of any
    /// clone.
    pub(super) fn read_kept(shared: &Path) -> Self {
        [own_path(), shared.join(FILE)].iter().find_map(|path| Self::read(path)).unwrap_or_default()
    }

    fn read(path: &Path) -> Option<Self> {
        serde_json::from_str(&fs::read_to_string(path).ok()?).ok().map(Self)
    }

    pub(super) fn seconds_of(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    pub(super) fn set(&mut self, name: &str, seconds: f64) {
        self.0.insert(name.to_owned(), (seconds * 1000.0).round() / 1000.0);
    }

    /// Stores the times for the next run of this clone; if the shared folder exists, also for other
    /// clones.
    pub(super) fn store(&self, shared: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.0)? + "\n";
        write_whole(&own_path(), &text)?;
        if shared.is_dir() { write_whole(&shared.join(FILE), &text) } else { Ok(()) }
    }
}

const FILE: &str = "test-times.json";

fn own_path() -> PathBuf {
    run::project().join("target").join(FILE)
}

/// Writes a file under another name and renames it, because another run may be reading it.
pub(super) fn write_whole(path: &Path, text: &str) -> Result<()> {
    let new = path.with_extension(format!("new-{}", std::process::id()));
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, path));
    written.inspect_err(|_| drop(fs::remove_file(&new))).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod check {
    use super::*;

    #[test]
    fn what_is_kept_is_read_and_what_is_no_json_is_nothing() {
        let mut times = Times::default();
        times.set("a", 1.23456);
        let folder = run::project().join("target/jobs");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("check-times.json");
        write_whole(&path, &serde_json::to_string(&times.0).unwrap()).unwrap();
        assert_eq!(Times::read(&path).unwrap().seconds_of("a"), Some(1.235));
        write_whole(&path, "{\"a\": ").unwrap();
        assert_eq!(Times::read(&path), None);
        assert_eq!(times.seconds_of("b"), None);
    }
}
