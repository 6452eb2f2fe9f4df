// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers queries from the files of a recording as its host would have.
//!
//! A recording contains files and no folders: a folder exists if there is a path below it. Files
//! that were absent are not stored.

use std::collections::BTreeSet;

use crate::answer::{Entry, Files, NO_SUCH_FILE, Refusal};

pub(crate) fn bytes(files: &Files, path: &str) -> Result<Vec<u8>, Refusal> {
    borrow(files, path).map(<[u8]>::to_vec)
}

pub(crate) fn borrow<'a>(files: &'a Files, path: &str) -> Result<&'a [u8], Refusal> {
    match files.get(path) {
        Some(Entry::File(bytes)) => Ok(bytes),
        Some(Entry::Refused(refusal)) => Err(refusal.clone()),
        None => Err(Refusal::Absent(NO_SUCH_FILE.into())),
    }
}

pub(crate) fn exists(files: &Files, path: &str) -> bool {
    match files.get(path) {
        Some(Entry::File(_) | Entry::Refused(Refusal::Denied(_))) => true,
        Some(Entry::Refused(Refusal::Absent(_))) => false,
        None => below(files, path).next().is_some(),
    }
}

pub(crate) fn presence(files: &Files, path: &str) -> Result<(), Refusal> {
    match files.get(path) {
        Some(Entry::Refused(refusal)) => Err(refusal.clone()),
        Some(Entry::File(_)) => Ok(()),
        None if exists(files, path) => Ok(()),
        None => Err(Refusal::Absent(NO_SUCH_FILE.into())),
    }
}

pub(crate) fn names(files: &Files, folder: &str) -> Vec<String> {
    let names: BTreeSet<&str> =
        below(files, folder).filter_map(|rest| rest.split('/').next()).collect();
    names.into_iter().map(str::to_owned).collect()
}

pub(crate) fn folders(files: &Files, folder: &str) -> Vec<String> {
    let names: BTreeSet<&str> = below(files, folder)
        .filter_map(|rest| rest.split_once('/').map(|(name, _)| name))
        .filter(|name| !matches!(*name, "" | "." | ".."))
        .collect();
    names.into_iter().map(str::to_owned).collect()
}

/// The paths of files below a folder, relative to the folder.
fn below<'a>(files: &'a Files, folder: &str) -> impl Iterator<Item = &'a str> {
    let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let from = prefix.clone();
    files
        .range(from..)
        .map_while(move |(path, entry)| Some((path.strip_prefix(&prefix)?, entry)))
        .filter(|(_, entry)| !matches!(entry, Entry::Refused(Refusal::Absent(_))))
        .map(|(rest, _)| rest)
}
