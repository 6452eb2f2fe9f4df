// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files beside the journals to which lines are only appended: the ledger, and the record of
//! actions. Their lines have the form of a journal's.
//!
//! A run that is killed while appending leaves an incomplete line, which the next run cuts off.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::host_ops::{HostChange, HostOps, UnreadJournal};
use crate::journal::{is_torn, record_of_line, with_checksum};
use crate::live::MAX_JOURNAL;

/// The contents of such a file.
#[derive(Debug)]
pub(crate) struct RecordedLines<T> {
    /// The records of all valid lines, oldest first.
    pub(crate) records: Vec<T>,
    /// Numbers, from 1, of the lines that were changed after they were written.
    pub(crate) damaged_lines: Vec<usize>,
    /// Whether the last line of the file is incomplete.
    pub(crate) is_torn: bool,
}

impl<T: DeserializeOwned> RecordedLines<T> {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let mut file = Self { records: Vec::new(), damaged_lines: Vec::new(), is_torn: false };
        for (at, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
            let text = line.strip_suffix(b"\n");
            let record = record_of_line(text.unwrap_or(line))
                .and_then(|record| serde_json::from_slice(record).ok());
            match record {
                Some(record) => file.records.push(record),
                None if text.is_none() && is_torn(line) => file.is_torn = true,
                None => file.damaged_lines.push(at + 1),
            }
        }
        file
    }
}

/// The bytes of the file; `None` if it does not exist.
///
/// # Errors
/// If it cannot be read, or if another user can have written it.
pub(crate) fn read(host: &dyn HostOps, path: &str) -> Result<Option<Vec<u8>>, Error> {
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

/// Appends records; when this returns, they are on disk.
pub(crate) fn append<T: Serialize>(
    host: &mut dyn HostOps,
    path: &str,
    records: &[T],
) -> Result<(), Error> {
    let state = |source| Error::State { path: path.to_owned(), source };
    let present = read(host, path)?;
    if present.is_none() {
        host.make_change(&HostChange::Begin(path)).map_err(state)?;
    }
    let bytes = present.unwrap_or_default();
    let mut length = bytes.len() as u64;
    let mut text = Vec::new();
    if RecordedLines::<serde_json::Value>::parse(&bytes).is_torn {
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        length = whole as u64;
        host.make_change(&HostChange::Cut { journal: path, length }).map_err(state)?;
    } else if bytes.last().is_some_and(|&last| last != b'\n') {
        text.push(b'\n');
    }
    for record in records {
        // serializing plain text and numbers cannot fail
        text.extend(with_checksum(&serde_json::to_vec(record).unwrap_or_default()));
    }
    if length + text.len() as u64 > MAX_JOURNAL {
        let why = format!("with this record it would be longer than {} MiB", MAX_JOURNAL >> 20);
        return Err(Error::Ledger { path: path.to_owned(), why });
    }
    let append = HostChange::Append { journal: path, line: &text };
    host.make_change(&append).map_err(|source| {
        // if the disk is full and has only part of a line, the part is cut off here or by the next
        // run
        let _ = host.make_change(&HostChange::Cut { journal: path, length });
        state(source)
    })
}
