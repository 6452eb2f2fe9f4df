// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files that a guest left in /out → files in the folder that the user named.
//!
//! The guest chooses the names, so a name that would lead out of the folder is refused, and so is
//! more than the limit that the user gave.

use pagewise_model::{Bytes, Refusal};
use std::fs::File;
use std::io::Write;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail};
use pagewise_terminal::output;

/// Maximum number of files that a guest may send.
const MOST_FILES: usize = 10_000;

/// Files from a guest, each written as its pieces arrive.
#[derive(Debug)]
pub(super) struct OutputFiles {
    /// The folder to store the files in; `None`: nothing is stored.
    folder: Option<PathBuf>,
    /// The file whose pieces are arriving.
    current: Option<(String, File)>,
    files: usize,
    size: u64,
    /// Maximum number of bytes of all files.
    most: Bytes,
    /// The first error when writing the files.
    failed: Option<anyhow::Error>,
}

impl OutputFiles {
    pub(super) fn new(folder: Option<PathBuf>, most: Bytes) -> Self {
        Self { folder, current: None, files: 0, size: 0, most, failed: None }
    }

    /// Adds a piece of a file. The pieces of a file arrive consecutively.
    pub(super) fn add_piece(&mut self, path: &str, bytes: &[u8]) {
        let Some(folder) = self.folder.clone() else { return };
        let written = self.add(&folder, path, bytes);
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
    }

    fn add(&mut self, folder: &Path, path: &str, bytes: &[u8]) -> anyhow::Result<()> {
        self.size = self.size.saturating_add(bytes.len() as u64);
        let is_new = self.current.as_ref().is_none_or(|(name, _)| name != path);
        let files = self.files + usize::from(is_new);
        if self.size > self.most.get() {
            let what = format!(
                "{path:?} and what follows was not brought out: the files in /out are larger than {} in all",
                self.most
            );
            bail!(Refusal::advised(what, "--out-limit SIZE allows more"));
        }
        if !is_plain(path) || files > MOST_FILES {
            let expected = "a name inside /out, and at most 10,000 files";
            bail!("{path:?} was not brought out: expected {expected}");
        }
        if is_new {
            let file = output::new_file_to_fill_below(folder, path)?;
            self.current = Some((path.to_owned(), file));
            self.files = files;
        }
        let Some((_, file)) = &mut self.current else { return Ok(()) };
        let whole = folder.join(path);
        let shown = || whole.display().to_string();
        file.write_all(bytes).map_err(|error| output::given_up(&whole, &error).context(shown()))
    }

    /// Ends storing files, and returns their number or the first error.
    pub(super) fn finish(self) -> anyhow::Result<usize> {
        match self.failed {
            Some(error) => Err(error),
            None => Ok(self.files),
        }
    }
}

/// Refuses to write to an existing file, before anything is run.
pub(super) fn refuse_existing(path: &Path) -> anyhow::Result<()> {
    if path.symlink_metadata().is_ok() {
        let what = format!("{}: expected no file of that name, found one", path.display());
        bail!(Refusal::advised(what, "remove it, or give another name"));
    }
    Ok(())
}

fn is_plain(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    !path.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// Parses `FILE[:PATH]`: the file, and its path in the guest, by default `/root/NAME`.
pub(super) fn parse_file(text: &str) -> anyhow::Result<(std::path::PathBuf, String)> {
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

    const MOST: Bytes = Bytes::new(1 << 30);

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
        let brought = |pieces: &[(&str, &[u8])]| {
            let mut brought = OutputFiles::new(Some(folder.path().join("new")), MOST);
            pieces.iter().for_each(|(path, bytes)| brought.add_piece(path, bytes));
            brought.finish()
        };
        assert_eq!(brought(&[("a/b", b"one "), ("a/b", b"two"), ("empty", b"")]).unwrap(), 2);
        assert!(folder.path().join("new/a/b").is_file());
        let length = |path: &str| folder.path().join(path).metadata().unwrap().len();
        assert_eq!((length("new/a/b"), length("new/empty")), (7, 0));
        assert!(brought(&[("../c", b"three")]).is_err());
        assert!(!folder.path().join("c").exists());
        assert!(brought(&[("a/b", b"again")]).is_err());
        assert_eq!(length("new/a/b"), 7);
    }

    /// Whatever the guest sends, only the latest piece is held in memory.
    #[test]
    fn too_many_files_and_too_many_bytes_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut brought = OutputFiles::new(Some(folder.path().to_owned()), Bytes::new(3));
        brought.add_piece("a", b"123");
        brought.add_piece("a", b"4");
        let error = brought.finish().unwrap_err().to_string();
        let expected =
            "\"a\" and what follows was not brought out: the files in /out are larger than 3 B";
        assert!(error.starts_with(expected), "{error}");
        assert_eq!(folder.path().join("a").metadata().unwrap().len(), 3);
        let mut brought =
            OutputFiles { files: MOST_FILES, ..OutputFiles::new(Some(folder.path().into()), MOST) };
        brought.add_piece("b", b"");
        assert!(brought.finish().is_err() && !folder.path().join("b").exists());
        let mut dropped = OutputFiles::new(None, MOST);
        dropped.add_piece("c", b"123");
        assert_eq!(dropped.finish().unwrap(), 0);
    }

    #[test]
    fn files_go_where_they_are_sent() {
        assert_eq!(parse_file("/x/y:/bin/z").unwrap(), ("/x/y".into(), "/bin/z".to_owned()));
        assert_eq!(parse_file("/x/y").unwrap(), ("/x/y".into(), "root/y".to_owned()));
        assert!(parse_file("/").is_err());
    }
}
