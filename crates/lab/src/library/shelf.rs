// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds experiments: built in, in the user's folder, or in a file that the user names.

#![expect(clippy::disallowed_methods, reason = "it lists the user's own folder of experiments")]

use std::fs;
use std::path::{Path, PathBuf};

use pagewise_observe::{UserFile, UserFileError, acts_as_root, check_trusted_file};

use super::built_in::BUILT_IN;
use super::file::{File, FileError};

const ENDING: &str = "toml";

/// The user's folder for experiments: `$XDG_CONFIG_HOME/pagewise/experiments`, by default in
/// `~/.config`.
#[must_use]
pub fn user_folder() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let config = named("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    let config = config.or_else(|| named("HOME").map(|home| home.join(".config")));
    config.map(|config| config.join("pagewise/experiments"))
}

/// Why root does not use this file of the user's folder; `None` if it does. Under `sudo -E` the
/// folder may be that of another user, and an experiment decides which programs are started.
fn why_untrusted(path: &Path) -> Option<String> {
    if !acts_as_root() {
        return None;
    }
    let why = check_trusted_file(path).err()?;
    Some(format!("root does not use this experiment, which another user can change: {why}"))
}

/// The file of this name in the user's folder.
fn user_file(requested: &str) -> Option<PathBuf> {
    let own = user_folder()?.join(requested).with_extension(ENDING);
    own.is_file().then_some(own)
}

/// The file in the user's folder that [`find`] ignores because another user can change it, with the
/// reason; to be printed.
#[must_use]
pub fn find_ignored(requested: &str) -> Option<FileError> {
    if is_path(requested) {
        return None;
    }
    let own = user_file(requested)?;
    let what = why_untrusted(&own)?;
    Some(FileError { name: own.display().to_string(), line: None, what })
}

fn is_path(requested: &str) -> bool {
    requested.contains('/') || requested.ends_with(".toml")
}

/// Finds an experiment: by its path, in the user's folder, or among the built-in ones. If root runs
/// this, a file of the folder that another user can change is ignored; [`find_ignored`] returns it.
///
/// # Errors
/// If the experiment does not exist or is invalid.
pub fn find(requested: &str) -> Result<File, FileError> {
    if is_path(requested) {
        return read_file(Path::new(requested));
    }
    if let Some(own) = user_file(requested).filter(|own| why_untrusted(own).is_none()) {
        return read_file(&own);
    }
    match BUILT_IN.iter().find(|(name, _)| *name == requested) {
        Some((name, text)) => File::read(name, &format!("{name} (built in)"), text),
        None => Err(not_found(requested)),
    }
}

fn not_found(requested: &str) -> FileError {
    let names: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
    let what = format!("expected the path of a file or one of {}", names.join(", "));
    FileError { name: requested.to_owned(), line: None, what }
}

/// Maximum size of an experiment file, in bytes.
const LONGEST: u64 = 1 << 20;

fn read_file(path: &Path) -> Result<File, FileError> {
    let place = path.display().to_string();
    let text = UserFile::open(path, LONGEST).and_then(UserFile::into_text);
    let text = text.map_err(|error| FileError {
        name: place.clone(),
        line: None,
        what: describe_error(error),
    })?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    File::read(&name, &place, &text)
}

/// The text of the error without the file's name.
fn describe_error(error: UserFileError) -> String {
    match error {
        UserFileError::Io { source, .. } => source.to_string(),
        UserFileError::NoText { .. } => "expected text in UTF-8".to_owned(),
        _ => "expected a file of at most 1 MiB".to_owned(),
    }
}

/// Reads all experiments of the user's folder and all built-in ones, the user's first.
#[must_use]
pub fn all_files() -> Vec<Result<File, FileError>> {
    let own = user_folder().and_then(|folder| fs::read_dir(folder).ok());
    let paths = own.into_iter().flatten().flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|it| it == ENDING)).collect();
    paths.sort();
    let read = |path: &PathBuf| match why_untrusted(path) {
        None => read_file(path),
        Some(what) => Err(FileError { name: path.display().to_string(), line: None, what }),
    };
    let mut all: Vec<_> = paths.iter().map(read).collect();
    for (name, text) in BUILT_IN {
        let hidden = all.iter().any(|one| one.as_ref().is_ok_and(|file| file.name == *name));
        if !hidden {
            all.push(File::read(name, &format!("{name} (built in)"), text));
        }
    }
    all
}
