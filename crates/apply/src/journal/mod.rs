// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The write-ahead journal: what is lent, on the disk before the machine is touched.
//!
//! One file per session in the folder of state, and a lock that makes sure of a single session. A
//! journal is removed when all that it names has gone back, so every journal that is there when the
//! lock is taken was left by a run that was killed, or names what could not be put back.

pub mod fuzzing;
mod lock;
mod read;
mod record;

use std::path::PathBuf;

pub(crate) use lock::{Lock, is_there};
pub(crate) use read::{Open, Reading};
pub(crate) use record::{Device, Loan, Record, Write};

use crate::error::Error;
use crate::hands::{Deed, Hands};

/// Where journals are kept: `$PAGEWISE_STATE` or `/var/lib/pagewise`.
#[must_use]
pub fn state_folder() -> PathBuf {
    let named = std::env::var_os("PAGEWISE_STATE").filter(|it| !it.is_empty());
    named.map_or_else(|| PathBuf::from("/var/lib/pagewise"), PathBuf::from)
}

const SUFFIX: &str = ".journal";

/// Journals that are in the folder, the oldest first.
pub(crate) fn left_in(hands: &dyn Hands, folder: &str) -> Result<Vec<String>, Error> {
    let names = match hands.names(folder) {
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        names => names.map_err(|source| state(folder, source))?,
    };
    let journals = names.into_iter().filter(|name| name.ends_with(SUFFIX));
    Ok(journals.map(|name| format!("{folder}/{name}")).collect())
}

fn state(path: &str, source: std::io::Error) -> Error {
    Error::State { path: path.to_owned(), source }
}

/// A journal that is written.
#[derive(Debug)]
pub(crate) struct Journal {
    path: String,
    length: u64,
    /// Nothing is added any more: a half line could not be cut off again and would take what
    /// follows with it, or it is kept as it was found.
    is_broken: bool,
}

impl Journal {
    /// A new one; its first line is on the disk.
    pub(crate) fn begin(
        hands: &mut dyn Hands,
        folder: &str,
        began: &Record,
    ) -> Result<Self, Error> {
        let last = left_in(hands, folder)?.last().and_then(|path| number(path));
        let next = last.unwrap_or(0).saturating_add(1);
        let path = format!("{folder}/{next:08}{SUFFIX}");
        hands.act(&Deed::Begin(&path)).map_err(|source| state(&path, source))?;
        let mut journal = Self { path, length: 0, is_broken: false };
        if let Err(error) = journal.add(hands, began) {
            // nothing was announced in it; where it stays, the next start finds it empty
            let _ = journal.remove(hands);
            return Err(error);
        }
        Ok(journal)
    }

    /// One that an earlier run left. What it left half written is cut off; a damaged one stays as it
    /// is, for somebody to look at.
    pub(crate) fn resume(
        hands: &mut dyn Hands,
        path: &str,
        written: u64,
        reading: &Reading,
    ) -> Result<Self, Error> {
        let (length, is_broken) = (reading.good, reading.damaged_line.is_some());
        if written > length && !is_broken {
            let cut = Deed::Cut { journal: path, length };
            hands.act(&cut).map_err(|source| state(path, source))?;
        }
        Ok(Self { path: path.to_owned(), length, is_broken })
    }

    /// Adds a record; when this returns, it is on the disk.
    pub(crate) fn add(&mut self, hands: &mut dyn Hands, record: &Record) -> Result<(), Error> {
        if self.is_broken {
            return Err(state(
                &self.path,
                std::io::Error::other("it is damaged, or an earlier write was cut short"),
            ));
        }
        let line = record.line();
        let append = Deed::Append { journal: &self.path, line: &line };
        if let Err(source) = hands.act(&append) {
            let cut = Deed::Cut { journal: &self.path, length: self.length };
            self.is_broken = hands.act(&cut).is_err();
            return Err(state(&self.path, source));
        }
        self.length += line.len() as u64;
        Ok(())
    }

    pub(crate) fn remove(&mut self, hands: &mut dyn Hands) -> Result<(), Error> {
        hands.act(&Deed::Forget(&self.path)).map_err(|source| state(&self.path, source))
    }
}

fn number(path: &str) -> Option<u64> {
    path.rsplit('/').next()?.strip_suffix(SUFFIX)?.parse().ok()
}

#[cfg(test)]
mod tests;
