// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a guest left in /out → files in the folder that the user named.
//!
//! The guest names the files, so a name that would lead out of the folder is refused, and so is
//! more than a gibibyte.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use anyhow::{Context, bail};

use crate::output;
use crate::trouble::Advised;

/// What may come out of a guest.
const MOST: usize = 1 << 30;

/// The pieces that have come, by file.
#[derive(Debug, Default)]
pub(super) struct Brought {
    files: BTreeMap<String, Vec<u8>>,
    size: usize,
    refused: Vec<String>,
}

impl Brought {
    pub(super) fn piece(&mut self, path: &str, bytes: &[u8]) {
        self.size = self.size.saturating_add(bytes.len());
        if !is_plain(path) || self.size > MOST {
            self.refused.push(path.to_owned());
            return;
        }
        self.files.entry(path.to_owned()).or_default().extend_from_slice(bytes);
    }

    /// Writes them; every one that was refused is an error.
    pub(super) fn write(&self, folder: &Path) -> anyhow::Result<usize> {
        for (path, bytes) in &self.files {
            output::new_file_below(folder, path, bytes)?;
        }
        if let Some(path) = self.refused.first() {
            bail!(
                "{path:?} was not brought out: expected a name inside /out and at most 1 GiB in all"
            );
        }
        Ok(self.files.len())
    }
}

/// Refuses a file that is there before anything is done for it.
pub(super) fn no_file(path: &Path) -> anyhow::Result<()> {
    if path.symlink_metadata().is_ok() {
        let what = format!("{}: expected no file of that name, found one", path.display());
        bail!(Advised { what, next: "remove it, or give another name" });
    }
    Ok(())
}

fn is_plain(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    !path.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// `FILE[:PATH]` → the file, and where it goes in the guest: `/root/NAME` where nothing is said.
pub(super) fn file(text: &str) -> anyhow::Result<(std::path::PathBuf, String)> {
    if let Some((from, to)) = text.rsplit_once(':') {
        return Ok((from.into(), to.to_owned()));
    }
    let name = Path::new(text).file_name().and_then(|name| name.to_str());
    let name = name.with_context(|| format!("{text}: expected the name of a file"))?;
    Ok((text.into(), format!("root/{name}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_inside() {
        for good in ["a", "a/b.txt", "..a"] {
            assert!(is_plain(good), "{good}");
        }
        for bad in ["", "/a", "../a", "a/../../b", "."] {
            assert!(!is_plain(bad), "{bad}");
        }
    }

    #[test]
    fn pieces_become_files_and_the_rest_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let mut brought = Brought::default();
        brought.piece("a/b", b"one ");
        brought.piece("a/b", b"two");
        brought.piece("empty", b"");
        assert_eq!(brought.write(&folder.path().join("new")).unwrap(), 2);
        assert!(folder.path().join("new/a/b").is_file());
        brought.piece("../c", b"three");
        assert!(brought.write(&folder.path().join("other")).is_err());
        assert!(!folder.path().join("c").exists());
    }

    #[test]
    fn files_go_where_they_are_sent() {
        assert_eq!(file("/x/y:/bin/z").unwrap(), ("/x/y".into(), "/bin/z".to_owned()));
        assert_eq!(file("/x/y").unwrap(), ("/x/y".into(), "root/y".to_owned()));
        assert!(file("/").is_err());
    }
}
