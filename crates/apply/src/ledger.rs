// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ledger: a file of measured gains beside the journals, whose lines have the form of a
//! journal's.
//!
//! A line that was changed afterwards is kept, is reported and does not count.

use std::path::Path;

use pagewise_model::plan::LedgerEntry;
use serde::{Deserialize, Serialize};

use crate::error::{Doing, Error};
use crate::host_ops::HostOps;
use crate::journal::{self, Lock};
use crate::lines::{RecordedLines, append, read};
use crate::live::Live;

const NAME: &str = "ledger";

/// The record in one line of the ledger file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
enum LedgerRecord {
    Measured(LedgerEntry),
}

/// The contents of the ledger file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LedgerFile {
    /// All measurements in the file, oldest first.
    pub entries: Vec<LedgerEntry>,
    /// Numbers, from 1, of the lines that were changed after they were written.
    pub damaged_lines: Vec<usize>,
    /// Whether the last line of the file is incomplete.
    pub is_torn: bool,
}

impl LedgerFile {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let RecordedLines { records, damaged_lines, is_torn } = RecordedLines::parse(bytes);
        let entries = records.into_iter().map(|LedgerRecord::Measured(entry)| entry).collect();
        Self { entries, damaged_lines, is_torn }
    }
}

/// Reads the ledger of measured gains; it is empty if the file does not exist. Takes no lock and
/// changes nothing.
///
/// # Errors
/// If the folder of journals or the file cannot be read, or if another user can have written the
/// file.
pub fn read_ledger(state: &Path) -> Result<LedgerFile, Error> {
    if !journal::has_folder(state)? {
        return Ok(LedgerFile::default());
    }
    let host = Live::new().doing(|| "/".to_owned())?;
    let path = ledger_path(&crate::live::resolve(state)?);
    Ok(LedgerFile::parse(&read(&host, &path)?.unwrap_or_default()))
}

/// Appends measurements to the ledger; when this returns, they are on disk.
///
/// # Errors
/// If another run of Pagewise holds the lock, if the file cannot be written, or if another user can
/// have written it.
pub fn add_to_ledger(state: &Path, entries: &[LedgerEntry]) -> Result<(), Error> {
    let _lock = Lock::take(state)?;
    let mut host = Live::new().doing(|| "/".to_owned())?;
    let folder = crate::live::resolve(state)?;
    add(&mut host, &folder, entries)
}

fn ledger_path(folder: &str) -> String {
    format!("{folder}/{NAME}")
}

fn add(host: &mut dyn HostOps, folder: &str, entries: &[LedgerEntry]) -> Result<(), Error> {
    let records: Vec<_> = entries.iter().cloned().map(LedgerRecord::Measured).collect();
    append(host, &ledger_path(folder), &records)
}

#[cfg(test)]
mod tests;
