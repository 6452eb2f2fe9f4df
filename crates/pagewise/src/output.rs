// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The only place that writes: standard output, and the files and folders that a user names.
//!
//! Files are made new with mode 0600 and never overwritten. A reader of standard output that goes
//! away early has what it wanted: that is success.

use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use anyhow::Context;

use crate::trouble::Advised;

/// Whether anybody read what was printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Printed {
    /// All of it was taken.
    Whole,
    /// The reader went away.
    Cut,
}

/// Prints to standard output.
pub(crate) fn print(text: &[u8]) -> anyhow::Result<Printed> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Ok(()) => Ok(Printed::Whole),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Printed::Cut),
        Err(error) => Err(error).context("standard output"),
    }
}

/// Makes a new file that only its owner may read.
pub(crate) fn new_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut file = new_file_to_fill(path)?;
    file.write_all(bytes)
        .and_then(|()| file.sync_all())
        .with_context(|| format!("{}", path.display()))
}

/// The same, for what does not come in one piece.
pub(crate) fn new_file_to_fill(path: &Path) -> anyhow::Result<std::fs::File> {
    create_new(path).map_err(|error| explained(path, error))
}

#[expect(clippy::disallowed_methods, reason = "the file that the user named")]
fn create_new(path: &Path) -> std::io::Result<std::fs::File> {
    std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn explained(path: &Path, error: std::io::Error) -> anyhow::Error {
    let path = path.display();
    if error.kind() == ErrorKind::AlreadyExists {
        let what = format!("{path}: expected no file of that name, found one; nothing was written");
        return Advised { what, next: "remove it, or give another name with -o" }.into();
    }
    if error.kind() == ErrorKind::NotFound {
        let what = format!("{path}: expected a folder to put it in, found none");
        return Advised { what, next: "make that folder first, or give another name with -o" }
            .into();
    }
    anyhow::Error::new(error).context(path.to_string())
}

/// Makes sure of a folder to write man pages into.
pub(crate) fn folder(path: &Path) -> anyhow::Result<()> {
    make_folders(path, 0o777)
}

#[expect(clippy::disallowed_methods, reason = "the folder that the user named")]
fn is_empty(path: &Path) -> anyhow::Result<bool> {
    let mut entries = std::fs::read_dir(path).with_context(|| format!("{}", path.display()))?;
    Ok(entries.next().is_none())
}

/// Makes sure of a folder that is empty and that only its owner may read.
pub(crate) fn empty_folder(path: &Path) -> anyhow::Result<()> {
    make_folders(path, 0o700)?;
    if is_empty(path)? {
        return Ok(());
    }
    let what =
        format!("{}: expected an empty folder, found files; nothing was written", path.display());
    anyhow::bail!(Advised { what, next: "give the name of a new folder" })
}

/// Makes a new file below `folder`, and the folders between.
pub(crate) fn new_file_below(folder: &Path, path: &str, bytes: &[u8]) -> anyhow::Result<()> {
    let path = folder.join(path);
    if let Some(parent) = path.parent() {
        make_folders(parent, 0o700)?;
    }
    new_file(&path, bytes)
}

fn make_folders(path: &Path, mode: u32) -> anyhow::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    let made = builder.recursive(true).mode(mode).create(path);
    if let Err(error) = made {
        let next = "give the name of a folder, or of one that can be made";
        let what = format!("{}: expected a folder, or to make one: {error}", path.display());
        anyhow::bail!(Advised { what, next });
    }
    Ok(())
}
