// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The write-ahead journal: each change is on disk before it is made.
//!
//! There is one file per run in the folder of journals, and a lock allows only one run at a time. A journal is removed when everything that it names was restored. So any journal that
//! exists when the lock is taken was left by a killed run, or names something that could not be
//! restored.

mod change;
pub mod fuzzing;
mod lock;
mod read;
mod record;

use std::path::PathBuf;

pub(crate) use change::{
    Device, DisabledSwap, EnabledSwap, FileChange, FileText, Identity, LinkChange, LoadedModule,
    MemoryController, NewFolder, NewGroup, NewSwapFile, NewZram, RecordedChange, SettingChange,
    TRIAL_LINK, TRIAL_UNIT, Write, ZramSetup, ZramSizeChange,
};
pub(crate) use lock::{Lock, TRIES, has_folder, machine_lock_folder, try_lock};
pub(crate) use read::{OpenChange, Reading};
pub(crate) use record::{PlannedRun, Record, RunStart, is_torn, record_of_line, with_checksum};

use crate::error::Error;
use crate::host_ops::{HostChange, HostOps};

/// The folder of journals: `$PAGEWISE_STATE` or `/var/lib/pagewise`.
#[must_use]
pub fn state_folder() -> PathBuf {
    let named = std::env::var_os("PAGEWISE_STATE").filter(|it| !it.is_empty());
    named.map_or_else(|| PathBuf::from("/var/lib/pagewise"), PathBuf::from)
}

const SUFFIX: &str = ".journal";
/// Suffix of the name of a plan's journal. Such a journal is kept as long as the plan is applied, and no other run
/// of Pagewise undoes it by itself.
const PLAN_SUFFIX: &str = ".plan";
/// Number of digits in the number of a journal's name.
const DIGITS: usize = 8;
const MAX_NUMBER: u64 = 99_999_999;

/// Names of the files in the folder that look like journals of loans, oldest first.
pub(crate) fn loan_journals(host: &dyn HostOps, folder: &str) -> Result<Vec<String>, Error> {
    journals_with(host, folder, &[SUFFIX])
}

/// Names of the journals of plans, oldest first.
pub(crate) fn plan_journals(host: &dyn HostOps, folder: &str) -> Result<Vec<String>, Error> {
    journals_with(host, folder, &[PLAN_SUFFIX])
}

fn journals_with(
    host: &dyn HostOps,
    folder: &str,
    suffixes: &[&str],
) -> Result<Vec<String>, Error> {
    let names = match host.names(folder) {
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        names => names.map_err(|source| state_error(folder, source))?,
    };
    let is_meant = |name: &String| suffixes.iter().any(|suffix| name.ends_with(suffix));
    let journals = names.into_iter().filter(is_meant);
    Ok(journals.map(|name| format!("{folder}/{name}")).collect())
}

fn state_error(path: &str, source: std::io::Error) -> Error {
    Error::State { path: path.to_owned(), source }
}

/// The name of a journal file: `NUMBER.BOOT.journal`. It contains the boot id, so the boot of its
/// changes is known even if the first line is damaged. Early versions wrote `NUMBER.journal`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JournalName<'a> {
    stem: &'a str,
    pub(crate) number: Option<u64>,
    pub(crate) boot: Option<&'a str>,
    pub(crate) is_plan: bool,
}

impl<'a> JournalName<'a> {
    pub(crate) fn parse(path: &'a str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path);
        let stem = without_suffix(name);
        let (digits, boot) = match stem.split_once('.') {
            Some((digits, boot)) => (digits, Some(boot)),
            None => (stem, None),
        };
        let is_number = digits.len() == DIGITS && digits.bytes().all(|it| it.is_ascii_digit());
        let number = is_number.then(|| digits.parse().ok()).flatten();
        let is_plan = name.ends_with(PLAN_SUFFIX);
        Self { stem, number, boot: boot.filter(|_| number.is_some()), is_plan }
    }

    /// The id of the journal that `undo --forget` takes.
    pub(crate) fn id(&self) -> String {
        self.number.map_or_else(|| self.stem.to_owned(), |number| number.to_string())
    }

    /// Whether the id that the user gave means this journal: its number, its stem or its whole
    /// name.
    pub(crate) fn is_meant_by(&self, id: &str) -> bool {
        let id = without_suffix(id);
        id == self.stem || id.parse().is_ok_and(|number: u64| self.number == Some(number))
    }
}

fn without_suffix(name: &str) -> &str {
    [SUFFIX, PLAN_SUFFIX].iter().find_map(|it| name.strip_suffix(it)).unwrap_or(name)
}

/// A journal to which records are appended.
#[derive(Debug)]
pub(crate) struct Journal {
    path: String,
    length: u64,
    /// Whether nothing is appended to the journal any more: either half a line could not be cut
    /// off and would corrupt the next one, or a damaged journal is kept as it was found.
    is_broken: bool,
    /// Why a record could not be written, or the journal could not be removed.
    trouble: Option<String>,
}

impl Journal {
    /// Creates a journal; when this returns, its first line is on disk.
    pub(crate) fn begin(
        host: &mut dyn HostOps,
        folder: &str,
        began: &Record,
    ) -> Result<Self, Error> {
        // journals of both kinds share one sequence of numbers, because users refer to a journal by
        // number
        let left = journals_with(host, folder, &[SUFFIX, PLAN_SUFFIX])?;
        let taken: Vec<u64> = left.iter().filter_map(|it| JournalName::parse(it).number).collect();
        let last = taken.iter().max().copied().unwrap_or(0);
        let mut numbers = (last + 1..=MAX_NUMBER).chain(1..=MAX_NUMBER);
        let number = numbers.find(|it| !taken.contains(it)).unwrap_or(MAX_NUMBER);
        let is_plan = matches!(began, Record::Planned(_));
        let suffix = if is_plan { PLAN_SUFFIX } else { SUFFIX };
        let path = format!("{folder}/{number:0DIGITS$}{}{suffix}", boot_part(began));
        host.make_change(&HostChange::Begin(&path)).map_err(|source| state_error(&path, source))?;
        let mut journal = Self { path, length: 0, is_broken: false, trouble: None };
        if let Err(error) = journal.add(host, began) {
            // the journal announced nothing; if it cannot be removed, the next start finds it
            // empty
            let _ = journal.remove(host);
            return Err(error);
        }
        Ok(journal)
    }

    /// Continues a journal that an earlier run left. Half a line at its end is cut off; a damaged
    /// journal is kept unchanged for inspection. If it cannot be written, its changes are undone
    /// all the same.
    pub(crate) fn resume(
        host: &mut dyn HostOps,
        path: &str,
        written: u64,
        reading: &Reading,
    ) -> Self {
        let (path, length) = (path.to_owned(), reading.good);
        let is_damaged = reading.damaged_line.is_some();
        let mut journal = Self { path, length, is_broken: is_damaged, trouble: None };
        let mended = match (is_damaged, reading.lacks_end) {
            (true, _) => return journal,
            _ if written > length => {
                host.make_change(&HostChange::Cut { journal: &journal.path, length })
            }
            (_, true) => {
                host.make_change(&HostChange::Append { journal: &journal.path, line: b"\n" })
            }
            _ => Ok(()),
        };
        match mended {
            Ok(()) => journal.length += u64::from(reading.lacks_end),
            Err(error) => {
                journal.is_broken = true;
                journal.trouble = Some(error.to_string());
            }
        }
        journal
    }

    /// Appends a record; when this returns, it is on disk.
    pub(crate) fn add(&mut self, host: &mut dyn HostOps, record: &Record) -> Result<(), Error> {
        if self.is_broken {
            return Err(state_error(
                &self.path,
                std::io::Error::other("it is damaged, or an earlier write was cut short"),
            ));
        }
        let line = record.to_line();
        let append = HostChange::Append { journal: &self.path, line: &line };
        if let Err(source) = host.make_change(&append) {
            self.trouble = Some(source.to_string());
            let cut = HostChange::Cut { journal: &self.path, length: self.length };
            self.is_broken = host.make_change(&cut).is_err();
            return Err(state_error(&self.path, source));
        }
        self.length += line.len() as u64;
        Ok(())
    }

    pub(crate) fn remove(&mut self, host: &mut dyn HostOps) -> Result<(), Error> {
        host.make_change(&HostChange::Forget(&self.path)).map_err(|source| {
            self.trouble = Some(source.to_string());
            state_error(&self.path, source)
        })
    }

    /// The path of the journal file.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Why a record could not be written, or the journal could not be removed.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }
}

fn boot_part(began: &Record) -> String {
    match began.run() {
        Some(run) if run.boot_id.bytes().all(is_plain) => format!(".{}", run.boot_id),
        _ => String::new(),
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

#[cfg(test)]
mod tests;
