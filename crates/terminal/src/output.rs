// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes text, JSON and bytes to standard output, standard error, and to files and folders that a
//! user names. No other module of the program writes to them.
//!
//! Files are created with mode 0600 and never overwritten. If a reader of standard output ends
//! early (a closed pipe), that is a success; any other failure of standard output is an error of
//! the verb. Messages that cannot be written to standard error (a full disk, a closed pipe or
//! descriptor) are dropped: there is no other place to report them, and borrowed resources must
//! still be returned. Therefore no crate of the program uses `println!` or `eprintln!`, which panic
//! on such errors.
//!
//! Nothing that a terminal would interpret is written: [`make_printable`] is the last check. The only
//! exceptions are our own colour sequences, if colours are enabled.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use pagewise_model::{Name, Refusal, make_json_printable, make_printable};
use pagewise_report::text::escape_all_but_colours;
use rustix::fs::RenameFlags;
use rustix::io::Errno;

use crate::{Global, screen};

/// Whether the output was read completely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Printed {
    /// All of it was written.
    Whole,
    /// The reader closed the pipe.
    Cut,
}

/// Prints a result to standard output: a JSON document with `--json`, otherwise text.
pub fn print_answer(global: &Global, shown: &str) -> anyhow::Result<Printed> {
    if global.json {
        print_document(shown)
    } else {
        print_text(shown, screen::text_style(global).colour)
    }
}

/// Text as [`print_answer`] would print it, for another program that shows it on the terminal.
pub fn guarded_text<'a>(global: &Global, shown: &'a str) -> Cow<'a, str> {
    make_answer_printable(shown, screen::text_style(global).colour)
}

/// Prints a JSON document, or one line of JSON Lines.
pub fn print_document(shown: &str) -> anyhow::Result<Printed> {
    write_out(make_json_printable(shown).as_bytes())
}

/// Prints text, with or without our own colour sequences.
pub fn print_text(shown: &str, colour: bool) -> anyhow::Result<Printed> {
    write_out(make_answer_printable(shown, colour).as_bytes())
}

fn make_answer_printable(text: &str, colour: bool) -> Cow<'_, str> {
    if colour { escape_all_but_colours(text) } else { make_printable(text) }
}

/// Writes bytes to standard output unchanged, for output that the user requested in raw form.
pub fn write_out(bytes: &[u8]) -> anyhow::Result<Printed> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(Printed::Whole),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Printed::Cut),
        Err(error) => Err(error).context("standard output"),
    }
}

/// Writes bytes to standard error unchanged, in one piece.
pub fn write_error(bytes: &[u8]) {
    // errors are dropped: see the module documentation
    let _ = std::io::stderr().lock().write_all(bytes);
}

/// Prints text of several lines to standard error, for verbs that write their data to standard output.
pub fn print_error_text(shown: &str, colour: bool) {
    write_error(make_answer_printable(shown, colour).as_bytes());
}

/// Prints a message to standard error.
pub fn print_message(what: impl Display) {
    write_error(make_printable(&format!("pagewise: {what}\n")).as_bytes());
}

/// Prints what to do about the previous message.
pub fn print_hint(next: impl Display) {
    write_error(make_printable(&format!("  next   {next}\n")).as_bytes());
}

/// Converts the output of another program, which arrives in pieces, to text that is safe to print.
/// Newlines and tabs are kept; bytes that are not UTF-8 are made visible as in a [`Name`].
#[derive(Debug, Default)]
pub struct Foreign {
    /// The beginning of a character that continues in the next piece.
    begun: Vec<u8>,
}

impl Foreign {
    /// The text of this piece, without an incomplete character at its end.
    pub fn add(&mut self, piece: &[u8]) -> String {
        self.begun.extend_from_slice(piece);
        let bytes = std::mem::take(&mut self.begun);
        let (mut shown, mut rest) = (String::with_capacity(bytes.len()), bytes.as_slice());
        while let Err(error) = std::str::from_utf8(rest) {
            let (good, bad) = rest.split_at(error.valid_up_to());
            shown.push_str(&make_printable(&String::from_utf8_lossy(good)));
            let Some(length) = error.error_len() else {
                self.begun = bad.to_vec();
                return shown;
            };
            let (bad, behind) = bad.split_at(length);
            shown.push_str(Name::from_bytes(bad).as_str());
            rest = behind;
        }
        shown.push_str(&make_printable(&String::from_utf8_lossy(rest)));
        shown
    }

    /// The text of an incomplete character at the end of the output.
    pub fn end(self) -> String {
        Name::from_bytes(&self.begun).to_string()
    }
}

/// Creates a file that only its owner may read (mode 0600). The file gets its name after all its contents are on
/// disk: if the disk is full or the process is killed, there is no partly written file of that name.
pub fn create_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    refuse_dash(path)?;
    let unfinished = temporary_path(path);
    let mut file = create_new(&unfinished).map_err(|error| explain_create_error(path, error))?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if let Err(error) = written {
        let error = remove_unfilled(&unfinished, &error);
        return Err(error.context(path.display().to_string()));
    }
    name_or_remove(&unfinished, path).map_err(|error| explain_create_error(path, error))
}

/// Whether the user named standard output instead of a file.
pub fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Refuses `-`, which users mean as standard output: a file of that name would be a surprise.
fn refuse_dash(path: &Path) -> anyhow::Result<()> {
    if is_dash(path) {
        let what = "-: expected the name of a file or folder, found the sign for standard output, to which this \
                    is not written; nothing was written";
        anyhow::bail!(Refusal::with_advice(what, "give a name (./- for a file called -)"));
    }
    Ok(())
}

/// Writes a file that others may read (mode 0644) in the place of the one with this name, if there is
/// one: whoever opens it reads the old contents or the new ones, never a part. A link is replaced,
/// not followed.
pub fn replace_file(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    refuse_dash(path)?;
    let unfinished = temporary_path(path);
    remove(&unfinished);
    let mut file = create_new(&unfinished).map_err(|error| explain_create_error(path, error))?;
    let written = file.write_all(bytes);
    let mode = rustix::fs::Mode::from_bits_truncate(0o644);
    let written = written.and_then(|()| Ok(rustix::fs::fchmod(&file, mode)?));
    let named = written.and_then(|()| std::fs::rename(&unfinished, path));
    named.map_err(|error| remove_unfilled(&unfinished, &error).context(path.display().to_string()))
}

/// Creates a file that only its owner may read (mode 0600), to be filled step by step; returns its temporary path
/// and the open file. An error if `path` exists already.
pub fn begin_file(path: &Path) -> anyhow::Result<(PathBuf, std::fs::File)> {
    refuse_dash(path)?;
    let unfinished = temporary_path(path);
    let file = create_new(&unfinished).map_err(|error| explain_create_error(path, error))?;
    // detected now instead of after the whole measurement
    if path.symlink_metadata().is_ok() {
        remove(&unfinished);
        return Err(explain_create_error(path, ErrorKind::AlreadyExists.into()));
    }
    Ok((unfinished, file))
}

/// Renames a finished file to its final name; removes it if that fails.
pub fn name_or_remove(unfinished: &Path, path: &Path) -> std::io::Result<()> {
    rename_new_file(unfinished, path).inspect_err(|_| remove(unfinished))
}

/// A temporary name in the same folder, so that it can be renamed; it contains the id of this
/// process.
fn temporary_path(path: &Path) -> PathBuf {
    path.with_file_name(format!(".pagewise-{}.unfinished", std::process::id()))
}

/// Gives a finished file its final name, but never replaces another file. On file systems that cannot guarantee
/// this for a rename, a hard link is created first.
fn rename_new_file(unfinished: &Path, path: &Path) -> std::io::Result<()> {
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

/// Removes one of our files, if it exists.
pub fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
}

/// Removes one of our files that could not be filled, and returns the reason as an error.
pub fn remove_unfilled(path: &Path, error: &std::io::Error) -> anyhow::Error {
    remove(path);
    explain_fill_error(error)
}

/// The error for one of our files that could not be filled and was removed.
pub fn explain_fill_error(error: &std::io::Error) -> anyhow::Error {
    let full = [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::FileTooLarge];
    let what = format!("{error}; the unfinished file was removed");
    if full.contains(&error.kind()) {
        Refusal::with_advice(what, "free some space, or name a place on another disk").into()
    } else {
        anyhow::Error::msg(what)
    }
}

/// Creates a file that only its owner may read and that has its final name before it is filled.
pub fn create_file_to_fill(path: &Path) -> anyhow::Result<std::fs::File> {
    refuse_dash(path)?;
    create_new(path).map_err(|error| explain_create_error(path, error))
}

#[expect(clippy::disallowed_methods, reason = "the file that the user named")]
fn create_new(path: &Path) -> std::io::Result<std::fs::File> {
    std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// The error if a file that the user named cannot be created.
pub fn explain_create_error(path: &Path, error: std::io::Error) -> anyhow::Error {
    let path = path.display();
    if error.kind() == ErrorKind::AlreadyExists {
        let what = format!("{path}: expected no file of that name, found one; nothing was written");
        return Refusal::with_advice(what, "remove it, or give another name").into();
    }
    if error.kind() == ErrorKind::NotFound {
        let what = format!("{path}: expected a folder to put it in, found none");
        return Refusal::with_advice(what, "make that folder first, or give another name").into();
    }
    anyhow::Error::new(error).context(path.to_string())
}

/// Creates a file as [`create_file_to_fill`] does, at a path below `folder`, and the folders in between.
pub fn create_file_to_fill_below(folder: &Path, path: &str) -> anyhow::Result<std::fs::File> {
    create_file_to_fill(&create_parent_folders(folder, path)?)
}

/// Writes a man page, which everybody may read, over the one of an earlier version.
#[expect(clippy::disallowed_methods, reason = "a file in the folder that the user named")]
pub fn write_man_page(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).map_err(|error| explain_create_error(path, error))
}

/// Creates a folder for man pages, unless it exists.
pub fn create_folder(path: &Path) -> anyhow::Result<()> {
    make_folders(path, 0o777)
}

#[expect(clippy::disallowed_methods, reason = "the folder that the user named")]
fn is_empty(path: &Path) -> anyhow::Result<bool> {
    let mut entries = std::fs::read_dir(path).with_context(|| format!("{}", path.display()))?;
    Ok(entries.next().is_none())
}

/// Creates a folder that only its owner may read, unless an empty one exists.
pub fn create_empty_folder(path: &Path) -> anyhow::Result<()> {
    refuse_dash(path)?;
    make_folders(path, 0o700)?;
    if is_empty(path)? {
        return Ok(());
    }
    let what =
        format!("{}: expected an empty folder, found files; nothing was written", path.display());
    anyhow::bail!(Refusal::with_advice(what, "give the name of a new folder"))
}

/// Creates a file below `folder`, and the folders in between.
pub fn create_file_below(folder: &Path, path: &str, bytes: &[u8]) -> anyhow::Result<()> {
    create_file(&create_parent_folders(folder, path)?, bytes)
}

/// Creates files below an empty folder: all of them, or none.
pub fn create_files_below(
    folder: &Path,
    files: impl Iterator<Item = (String, Vec<u8>)>,
) -> anyhow::Result<()> {
    let mut made = Vec::new();
    for (path, bytes) in files {
        if let Err(error) = create_file_below(folder, &path, &bytes) {
            made.iter().for_each(|path: &String| remove_below(folder, path));
            remove_below(folder, &path);
            return Err(error);
        }
        made.push(path);
    }
    Ok(())
}

/// Removes a file, and the folders in between if they are empty.
fn remove_below(folder: &Path, path: &str) {
    let path = folder.join(path);
    remove(&path);
    for inner in path.ancestors().skip(1).take_while(|inner| *inner != folder) {
        let _ = std::fs::remove_dir(inner);
    }
}

/// Creates the folders between `folder` and the file with this path below it; returns the whole path of the file.
pub fn create_parent_folders(folder: &Path, path: &str) -> anyhow::Result<PathBuf> {
    let path = folder.join(path);
    if let Some(parent) = path.parent() {
        make_folders(parent, 0o700)?;
    }
    Ok(path)
}

#[expect(clippy::disallowed_methods, reason = "the folder that the user named")]
fn make_folders(path: &Path, mode: u32) -> anyhow::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    let made = builder.recursive(true).mode(mode).create(path);
    if let Err(error) = made {
        let next = "give the name of a folder, or of one that can be made";
        let what = format!("{}: expected a folder, or to make one: {error}", path.display());
        anyhow::bail!(Refusal::with_advice(what, next));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For any division into pieces the text is the same, and contains nothing that a terminal
    /// would interpret.
    #[test]
    fn foreign_output_is_safe_whatever_the_pieces_are() {
        let raw = b"a\x1b[2J\tgr\xc3\xbc\xc3\x9fe\r\n\xf0\x9f\x99\x82 \xff\xc3( \xe2\x80\xae\xc2\x9b2J\n\xf3\xa0\x81\x81\xe2\x82";
        let whole =
            "a\\u{1b}[2J\tgrüße\\u{d}\n🙂 \\xff\\xc3( \\u{202e}\\u{9b}2J\n\\u{e0041}\\xe2\\x82";
        for length in 1..=raw.len() {
            let mut foreign = Foreign::default();
            let shown: String = raw.chunks(length).map(|piece| foreign.add(piece)).collect();
            assert_eq!(shown + &foreign.end(), whole);
        }
    }

    /// Parsing the printed document gives the original text.
    #[test]
    fn a_document_means_the_same() {
        for text in ["plain", "\u{9b}2J", "a\u{7f}\u{202e}b", "\u{e0041}\u{61c}", "\x1b[0m\n\t\"\\"]
        {
            let written = serde_json::to_string_pretty(&vec![text]).unwrap();
            let shown = make_json_printable(&written);
            assert_eq!(make_printable(&shown), shown);
            assert_eq!(serde_json::from_str::<Vec<String>>(&shown).unwrap(), [text]);
        }
    }
}
