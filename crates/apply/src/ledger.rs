// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ledger: a file of measured gains beside the journals, whose lines have the form of a
//! journal's.
//!
//! Lines are only appended. A run that is killed while appending leaves an incomplete line, which
//! the next run cuts off. A line that was changed afterwards is kept, is reported and does not
//! count.

use std::path::Path;

use pagewise_model::plan::LedgerEntry;
use serde::{Deserialize, Serialize};

use crate::error::{Doing, Error};
use crate::host_ops::{HostChange, HostOps, UnreadJournal};
use crate::journal::{self, Lock, is_torn, record_of_line, with_checksum};
use crate::live::{Live, MAX_JOURNAL};

const NAME: &str = "ledger";

/// What one line of the ledger stores.
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
        let mut file = Self::default();
        for (at, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
            let text = line.strip_suffix(b"\n");
            let entry = record_of_line(text.unwrap_or(line))
                .and_then(|record| serde_json::from_slice(record).ok());
            match entry {
                Some(LedgerRecord::Measured(entry)) => file.entries.push(entry),
                None if text.is_none() && is_torn(line) => file.is_torn = true,
                None => file.damaged_lines.push(at + 1),
            }
        }
        file
    }
}

/// Reads the ledger of measured gains; it is empty if the file does not exist. Takes no lock and
/// changes nothing.
///
/// # Errors
/// If the folder of journals or the file cannot be read, or if another user can have written the
/// file.
pub fn read_ledger(state: &Path) -> Result<LedgerFile, Error> {
    if !journal::is_there(state)? {
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

/// The bytes of the file; `None` if it does not exist.
fn read(host: &dyn HostOps, path: &str) -> Result<Option<Vec<u8>>, Error> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let state = |source| Error::State { path: path.to_owned(), source };
    if !host.names(folder).map_err(state)?.iter().any(|it| it == name) {
        return Ok(None);
    }
    host.journal(path).map(Some).map_err(|unread| {
        let (UnreadJournal::NoFile(why) | UnreadJournal::Untrusted(why)) = unread;
        Error::Ledger { path: path.to_owned(), why }
    })
}

fn add(host: &mut dyn HostOps, folder: &str, entries: &[LedgerEntry]) -> Result<(), Error> {
    let path = ledger_path(folder);
    let state = |source| Error::State { path: path.clone(), source };
    let present = read(host, &path)?;
    if present.is_none() {
        host.act(&HostChange::Begin(&path)).map_err(state)?;
    }
    let bytes = present.unwrap_or_default();
    let mut length = bytes.len() as u64;
    let mut text = Vec::new();
    if LedgerFile::parse(&bytes).is_torn {
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        length = whole as u64;
        host.act(&HostChange::Cut { journal: &path, length }).map_err(state)?;
    } else if bytes.last().is_some_and(|&last| last != b'\n') {
        text.push(b'\n');
    }
    for entry in entries {
        // serializing plain text and numbers cannot fail
        let record = serde_json::to_vec(&LedgerRecord::Measured(entry.clone())).unwrap_or_default();
        text.extend(with_checksum(&record));
    }
    if length + text.len() as u64 > MAX_JOURNAL {
        let why =
            format!("with this measurement it would be longer than {} MiB", MAX_JOURNAL >> 20);
        return Err(Error::Ledger { path, why });
    }
    let append = HostChange::Append { journal: &path, line: &text };
    host.act(&append).map_err(|source| {
        // if the disk is full and has only part of a line, the part is cut off here or by the next
        // run
        let _ = host.act(&HostChange::Cut { journal: &path, length });
        state(source)
    })
}

#[cfg(test)]
mod tests;
