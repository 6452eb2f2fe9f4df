// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The only place that writes: standard output, and the files and folders that a user names.
//!
//! Files are made new with mode 0600 and never overwritten. A reader of standard output that goes
//! away early has what it wanted: that is success.

use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::fs::RenameFlags;
use rustix::io::Errno;

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

/// Makes a new file that only its owner may read. It gets its name once all of it is on the disk: if
/// the disk is full, or we are killed, there is no file that holds half of it or nothing.
pub(crate) fn new_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let unfinished = unfinished(path);
    let mut file = create_new(&unfinished).map_err(|error| explained(path, error))?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if let Err(error) = written {
        let error = given_up(&unfinished, &error);
        return Err(error.context(path.display().to_string()));
    }
    name_it(&unfinished, path).map_err(|error| {
        remove(&unfinished);
        explained(path, error)
    })
}

/// Beside the file, so that it can be renamed; of this process alone.
fn unfinished(path: &Path) -> PathBuf {
    path.with_file_name(format!(".pagewise-{}.unfinished", std::process::id()))
}

/// Never in the place of another file. File systems that cannot promise it get a second name first.
fn name_it(unfinished: &Path, path: &Path) -> std::io::Result<()> {
    let here = rustix::fs::CWD;
    let flags = RenameFlags::NOREPLACE;
    match rustix::fs::renameat_with(here, unfinished, here, path, flags) {
        Err(Errno::INVAL | Errno::NOSYS) => {
            std::fs::hard_link(unfinished, path)?;
            remove(unfinished);
            Ok(())
        }
        renamed => Ok(renamed?),
    }
}

fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
}

/// Removes a file of ours that could not be filled, and says why.
pub(crate) fn given_up(path: &Path, error: &std::io::Error) -> anyhow::Error {
    remove(path);
    let full = [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::FileTooLarge];
    let what = format!("{error}; the unfinished file was removed");
    match full.contains(&error.kind()) {
        true => Advised { what, next: "free some space, or name a place on another disk" }.into(),
        false => anyhow::Error::msg(what),
    }
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

/// The same below `folder`, with the folders between.
pub(crate) fn new_file_to_fill_below(folder: &Path, path: &str) -> anyhow::Result<std::fs::File> {
    new_file_to_fill(&with_parent(folder, path)?)
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
    new_file(&with_parent(folder, path)?, bytes)
}

/// Makes new files below an empty folder: all of them, or none.
pub(crate) fn new_files_below(
    folder: &Path,
    files: impl Iterator<Item = (String, Vec<u8>)>,
) -> anyhow::Result<()> {
    let mut made = Vec::new();
    for (path, bytes) in files {
        if let Err(error) = new_file_below(folder, &path, &bytes) {
            made.iter().for_each(|path: &String| remove_below(folder, path));
            remove_below(folder, &path);
            return Err(error);
        }
        made.push(path);
    }
    Ok(())
}

/// A file and the folders between, as far as they are empty.
fn remove_below(folder: &Path, path: &str) {
    let path = folder.join(path);
    remove(&path);
    for inner in path.ancestors().skip(1).take_while(|inner| *inner != folder) {
        let _ = std::fs::remove_dir(inner);
    }
}

fn with_parent(folder: &Path, path: &str) -> anyhow::Result<PathBuf> {
    let path = folder.join(path);
    if let Some(parent) = path.parent() {
        make_folders(parent, 0o700)?;
    }
    Ok(path)
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
