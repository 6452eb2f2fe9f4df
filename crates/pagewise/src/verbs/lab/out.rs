// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stores the files that a guest left in /out in the folder that the user named.
//!
//! The guest chooses the names, so a name that would lead out of the folder is refused. Files
//! beyond the size limit that the user gave are refused, too.

use pagewise_model::{Bytes, Refusal};
use std::fs::File;
use std::io::Write;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail};
use pagewise_guest::wire::OUT;
use pagewise_terminal::output;

/// Maximum number of files that a guest may send.
const MOST_FILES: usize = 10_000;
/// Maximum number of names in the message about what was not copied.
const NAMED: usize = 5;

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
    /// Why the first of the files that were left out was left out.
    failed: Option<Failed>,
    left_out: LeftOut,
}

/// Why a file was not copied, or not to its end.
#[derive(Debug)]
enum Failed {
    /// All files together are larger than the limit.
    TooLarge,
    /// The name leads out of the folder, or there are too many files.
    Name,
    Write(anyhow::Error),
}

/// The files that were not copied, or not to their end: their number, and the names of the first.
#[derive(Debug, Default)]
struct LeftOut {
    files: usize,
    names: Vec<String>,
    /// Name of the file that was left out last: further pieces of it may arrive.
    last: Option<String>,
}

impl LeftOut {
    fn add(&mut self, path: &str) {
        self.files += 1;
        if self.names.len() < NAMED {
            self.names.push(format!("{path:?}"));
        }
        self.last = Some(path.to_owned());
    }

    fn describe(&self) -> String {
        let mut names = self.names.join(", ");
        if self.files > self.names.len() {
            names.push_str(", …");
        }
        match self.files {
            1 => format!("1 file in {OUT} was not copied, or not to its end: {names}"),
            files => {
                format!("{files} files in {OUT} were not copied, or not to their end: {names}")
            }
        }
    }
}

impl OutputFiles {
    pub(super) fn new(folder: Option<PathBuf>, most: Bytes) -> Self {
        let left_out = LeftOut::default();
        Self { folder, current: None, files: 0, size: 0, most, failed: None, left_out }
    }

    /// Adds a piece of a file. The pieces of a file arrive consecutively.
    pub(super) fn add_piece(&mut self, path: &str, bytes: &[u8]) {
        let Some(folder) = self.folder.clone() else { return };
        if self.left_out.last.as_deref() == Some(path) {
            return;
        }
        if let Err(failed) = self.add(&folder, path, bytes) {
            self.current = None;
            self.left_out.add(path);
            self.failed.get_or_insert(failed);
        }
    }

    fn add(&mut self, folder: &Path, path: &str, bytes: &[u8]) -> Result<(), Failed> {
        // The size only grows: after the limit is reached, even small files are left out.
        self.size = self.size.saturating_add(bytes.len() as u64);
        let is_new = self.current.as_ref().is_none_or(|(name, _)| name != path);
        let files = self.files + usize::from(is_new);
        if self.size > self.most.get() {
            return Err(Failed::TooLarge);
        }
        if !is_plain(path) || files > MOST_FILES {
            return Err(Failed::Name);
        }
        if is_new {
            let file = output::create_file_to_fill_below(folder, path).map_err(Failed::Write)?;
            self.current = Some((path.to_owned(), file));
            self.files = files;
        }
        let Some((_, file)) = &mut self.current else { return Ok(()) };
        let whole = folder.join(path);
        let shown = || whole.display().to_string();
        let given_up = |error| output::remove_unfilled(&whole, &error).context(shown());
        file.write_all(bytes).map_err(|error| Failed::Write(given_up(error)))
    }

    /// Ends storing files, and returns their number, or an error with what was left out and why.
    pub(super) fn finish(self) -> anyhow::Result<usize> {
        let Some(failed) = self.failed else { return Ok(self.files) };
        let what = self.left_out.describe();
        match failed {
            Failed::TooLarge => {
                let why = format!("the files in {OUT} are larger than {} in all", self.most);
                let next = "--out-limit SIZE allows more".to_owned();
                Err(Refusal { what, why, next: Some(next) }.into())
            }
            Failed::Name => {
                let why = format!("expected names inside {OUT}, and at most 10,000 files");
                Err(Refusal::new(what, why).into())
            }
            // the error already names the file
            Failed::Write(error) if self.left_out.files == 1 => Err(error),
            Failed::Write(error) => Err(error.context(what)),
        }
    }
}

/// Refuses to write to an existing file, before anything is run.
pub(super) fn refuse_existing(path: &Path) -> anyhow::Result<()> {
    if path.symlink_metadata().is_ok() {
        let what = format!("{}: expected no file of that name, found one", path.display());
        bail!(Refusal::with_advice(what, "remove it, or give another name"));
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
        let refused = |pieces: &[&str]| {
            let folder = folder.path().join(pieces.len().to_string());
            let mut brought = OutputFiles::new(Some(folder.clone()), Bytes::new(3));
            pieces.iter().for_each(|path| brought.add_piece(path, b"12"));
            (folder, brought.finish().unwrap_err().to_string())
        };
        let (kept, error) = refused(&["a", "a", "a"]);
        let expected = "1 file in /out was not copied, or not to its end: \"a\": the files in \
                        /out are larger than 3 B in all";
        assert_eq!(error, expected);
        assert_eq!(kept.join("a").metadata().unwrap().len(), 2);
        let (kept, error) = refused(&["a", "a", "b", "b", "c\u{1b}[2J", "d", "e", "f"]);
        let names = "\"a\", \"b\", \"c\\u{1b}[2J\", \"d\", \"e\", …: the files";
        let expected = format!("6 files in /out were not copied, or not to their end: {names}");
        assert!(error.starts_with(&expected), "{error}");
        assert!(!kept.join("b").exists());
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
