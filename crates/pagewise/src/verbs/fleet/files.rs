// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the files of a fleet report in a folder: recordings, and JSON documents.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use pagewise_model::{Name, Refusal};

/// How deep folders are searched.
const DEEPEST: usize = 4;
/// Maximum number of files.
const MOST: usize = 100_000;
/// The file that makes a folder a recording.
const RECORDING: &str = "host.toml";

/// A file or folder that may be a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    /// The path below the folder of the report.
    below: PathBuf,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A file whose name ends with `.json`.
    Document,
    /// Any other file, and a folder with [`RECORDING`].
    Recording,
}

impl Found {
    /// How the file is named if it cannot be read.
    pub(super) fn name(&self) -> Name {
        Name::from(self.below.to_string_lossy().as_ref())
    }

    /// The name of the machine: that of the file, without its endings.
    pub(super) fn machine(&self) -> Name {
        let name = self.below.to_string_lossy();
        let ends = [".json", ".zst", ".gz", ".xz", ".tar"];
        let mut short = name.as_ref();
        while let Some(rest) = ends.iter().find_map(|end| short.strip_suffix(end)) {
            short = rest;
        }
        Name::from(short)
    }
}

/// Finds the files in a folder and in the folders below it, in the order of their names. Hidden ones are
/// left out.
pub(super) fn find_files(folder: &Path) -> anyhow::Result<Vec<Found>> {
    let mut found = Vec::new();
    search(folder, Path::new(""), DEEPEST, &mut found)?;
    if found.is_empty() {
        let what = format!("{}: no files", Name::from(folder.to_string_lossy().as_ref()));
        let next = "the folder should have a file for each machine: of `pagewise capture`, or of \
                    `pagewise report --json > NAME.json`";
        return Err(Refusal::with_advice(what, next).into());
    }
    Ok(found)
}

fn search(folder: &Path, below: &Path, depth: usize, found: &mut Vec<Found>) -> anyhow::Result<()> {
    let at = folder.join(below);
    let context = || Name::from(at.to_string_lossy().as_ref()).as_str().to_owned();
    #[expect(clippy::disallowed_methods, reason = "a folder that the user names")]
    let entries = fs::read_dir(&at).with_context(context)?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.with_context(context)?;
        names.push((entry.file_name(), entry.path()));
    }
    names.sort();
    for (name, path) in names {
        let text = name.to_string_lossy();
        if text.starts_with('.') {
            continue;
        }
        // links are followed: a folder of links to the newest recording of each machine is usual
        let kind = fs::metadata(&path).map(|found| found.file_type());
        let is_folder = kind.is_ok_and(|kind| kind.is_dir());
        if is_folder && !path.join(RECORDING).exists() {
            if depth > 0 {
                search(folder, &below.join(&name), depth - 1, found)?;
            }
            continue;
        }
        let kind = if text.ends_with(".json") { Kind::Document } else { Kind::Recording };
        found.push(Found { path, below: below.join(&name), kind });
        if found.len() > MOST {
            let what = format!("{}: more than {MOST} files", context());
            anyhow::bail!(Refusal::with_advice(what, "report on a part of them"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a folder of the test")]
    fn files_are_found_in_folders_and_named_without_their_endings() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        fs::create_dir_all(at("web/a.d")).unwrap();
        fs::create_dir_all(at("web/recorded")).unwrap();
        for path in
            ["db.tar.zst", "web/a.json", "web/recorded/host.toml", ".hidden", "web/a.d/b.1.json"]
        {
            fs::File::create_new(at(path)).unwrap();
        }
        let found = find_files(folder.path()).unwrap();
        let shown: Vec<(String, Kind)> =
            found.iter().map(|it| (it.machine().as_str().to_owned(), it.kind)).collect();
        let expected = [
            ("db", Kind::Recording),
            ("web/a.d/b.1", Kind::Document),
            ("web/a", Kind::Document),
            ("web/recorded", Kind::Recording),
        ];
        assert_eq!(shown, expected.map(|(name, kind)| (name.to_owned(), kind)));
        assert!(find_files(&at("web/recorded/none")).is_err());
        fs::create_dir(at("empty")).unwrap();
        assert!(find_files(&at("empty")).is_err());
    }
}
