// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses a journal into its records, and finds the loans that were not returned.
//!
//! A process that is killed while it writes leaves a line without its end. Such a line announced
//! nothing, because the change that it announces is made only after the whole line is on disk. Any
//! other malformed line, even the last one, means a damaged disk or manipulation: the other lines
//! are used, and the damage is reported. The contents are not trusted beyond that.

use std::collections::{BTreeMap, BTreeSet};

use pagewise_model::plan::Plan;

use super::record::{self, Device, Identity, Loan, Record};
use crate::loan::zram;

/// The records of a journal.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Reading {
    pub(crate) records: Vec<Record>,
    /// Number of bytes up to the end of the last complete line.
    pub(crate) good: u64,
    /// Number of the first line, from 1, that is not as it was written, or that refers to a loan
    /// which no line announces. An incomplete last line does not count.
    pub(crate) damaged_line: Option<usize>,
    /// Whether the last record is complete and only its line end is missing.
    pub(crate) lacks_end: bool,
}

impl Reading {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let mut reading = Self::default();
        let mut announced = BTreeSet::new();
        let mut end = 0u64;
        for (at, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
            end += line.len() as u64;
            let (text, has_end) = match line.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (line, false),
            };
            match Record::parse(text) {
                Some(record) => {
                    let is_first = reading.records.is_empty();
                    if !follows(&record, is_first, &mut announced) {
                        reading.damaged_line.get_or_insert(at + 1);
                    }
                    reading.records.push(record);
                    reading.good = end;
                    reading.lacks_end = !has_end;
                }
                None if !has_end && record::is_torn(text) => {}
                None => drop(reading.damaged_line.get_or_insert(at + 1)),
            }
        }
        reading
    }

    /// The loans that were announced and not returned, in the order in which they were taken.
    pub(crate) fn open(&self) -> Vec<Open> {
        let mut open: Vec<Open> = Vec::new();
        for (at, record) in self.records.iter().enumerate() {
            match record {
                Record::Taking { loan, what } => {
                    let origins = origins(&self.records[..at], what);
                    open.push(Open { origins, ..Open::new(*loan, what.clone()) });
                }
                Record::Returned { loan } => close(&mut open, *loan),
                Record::Made { loan, device } => {
                    with(&mut open, *loan, |it| it.made = Some(*device));
                }
                Record::Identified { loan, identity } => {
                    with(&mut open, *loan, |it| it.identity = Some(*identity));
                }
                Record::Conflict { loan, found } => {
                    with(&mut open, *loan, |it| it.conflict = Some(found.clone()));
                }
                Record::Began { .. }
                | Record::Planned { .. }
                | Record::Step { .. }
                | Record::Applied
                | Record::Trial { .. }
                | Record::Confirmed
                | Record::Done { .. } => {}
            }
        }
        open
    }

    /// The boot id and process id in the first line.
    pub(crate) fn began(&self) -> Option<(&str, u32)> {
        match self.records.first()? {
            Record::Began { boot_id, pid, .. } | Record::Planned { boot_id, pid, .. } => {
                Some((boot_id, *pid))
            }
            _ => None,
        }
    }

    /// The plan that the journal belongs to; `None` for a journal of loans.
    pub(crate) fn plan(&self) -> Option<&Plan> {
        match self.records.first()? {
            Record::Planned { plan, .. } => Some(plan),
            _ => None,
        }
    }

    /// Whether every step of the plan was carried out.
    pub(crate) fn is_applied(&self) -> bool {
        self.records.contains(&Record::Applied)
    }

    /// For a plan: the changes that are in force, each with the id of its step.
    pub(crate) fn open_by_step(&self) -> Vec<(String, Open)> {
        let mut steps = BTreeMap::new();
        let mut now = String::new();
        for record in &self.records {
            match record {
                Record::Step { id } => now.clone_from(id),
                Record::Taking { loan, .. } => drop(steps.insert(*loan, now.clone())),
                _ => {}
            }
        }
        let with_step = |it: Open| (steps.get(&it.id).cloned().unwrap_or_default(), it);
        self.open().into_iter().map(with_step).collect()
    }
}

/// Whether a record may come after those so far: the first says who writes, and each loan is
/// announced before any other record refers to it.
fn follows(record: &Record, is_first: bool, announced: &mut BTreeSet<u64>) -> bool {
    match record {
        Record::Began { .. } | Record::Planned { .. } => is_first,
        Record::Step { .. } | Record::Applied | Record::Trial { .. } | Record::Confirmed => {
            !is_first
        }
        Record::Taking { loan, .. } => announced.insert(*loan) && !is_first,
        Record::Made { loan, .. }
        | Record::Identified { loan, .. }
        | Record::Done { loan }
        | Record::Returned { loan }
        | Record::Conflict { loan, .. } => announced.contains(loan),
    }
}

/// The values that the file of a knob had before earlier loans of the same run. If the records of
/// their return were lost, the file has such a value again although nobody else wrote it.
fn origins(earlier: &[Record], what: &Loan) -> Vec<String> {
    let Loan::Setting { path: file, .. } = what else { return Vec::new() };
    let taken = earlier.iter().filter_map(|record| match record {
        Record::Taking { what: Loan::Setting { path, old, back, .. }, .. } => {
            Some([(path, old), (&back.path, &back.value)])
        }
        _ => None,
    });
    let of_file = taken.flatten().filter(|(path, _)| *path == file);
    of_file.map(|(_, value)| value.clone()).collect()
}

/// Marks a loan as returned, and all loans that depended on it, because records of their return may
/// be lost.
fn close(open: &mut Vec<Open>, loan: u64) {
    let Some(at) = open.iter().position(|it| it.id == loan) else { return };
    let later = open.split_off(at);
    let closed = &later[0];
    let stays = |it: &&Open| closed.held_by([*it]).is_none();
    open.extend(later[1..].iter().filter(stays).cloned());
}

fn with(open: &mut [Open], loan: u64, change: impl FnOnce(&mut Open)) {
    if let Some(it) = open.iter_mut().find(|it| it.id == loan) {
        change(it);
    }
}

/// A loan that was not returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Open {
    pub(crate) id: u64,
    pub(crate) what: Loan,
    pub(crate) made: Option<Device>,
    /// For a file or cgroup: its identity.
    pub(crate) identity: Option<Identity>,
    /// The value that somebody else wrote meanwhile.
    pub(crate) conflict: Option<String>,
    /// For a knob: its values before other loans of the run.
    pub(crate) origins: Vec<String>,
}

impl Open {
    pub(crate) fn new(id: u64, what: Loan) -> Self {
        Self { id, what, made: None, identity: None, conflict: None, origins: Vec::new() }
    }

    pub(crate) fn described(&self) -> String {
        self.what.described(self.made)
    }

    /// The swap area of this loan, if it is a device or file for swap.
    pub(crate) fn area(&self) -> Option<String> {
        match &self.what {
            Loan::Zram { .. } => self.made.map(|device| zram::area(device.number)),
            Loan::ZramSize { device, .. } => Some(zram::area(device.number)),
            Loan::SwapFile { path, .. } => Some(path.clone()),
            _ => None,
        }
    }

    /// Whether this loan, taken later, must be returned before `earlier`.
    pub(crate) fn rests_on(&self, earlier: &Self) -> bool {
        match (&self.what, &earlier.what) {
            (Loan::SwapOn { area, .. }, Loan::Drained { area: off, .. }) => area == off,
            (Loan::SwapOn { area, .. }, _) => earlier.area().as_ref() == Some(area),
            // the pages of the disabled area are in the swap that was created before
            (Loan::Drained { .. }, Loan::SwapOn { .. }) => true,
            (Loan::File { path, .. } | Loan::Link { path, .. }, Loan::Folder { path: folder })
            | (Loan::Folder { path }, Loan::Folder { path: folder }) => {
                path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
            }
            (Loan::Setting { path, back, .. }, Loan::Setting { path: other, back: way, .. }) => {
                [other, &way.path].iter().any(|it| *it == path || **it == back.path)
            }
            (Loan::Zram { .. }, Loan::Module { .. }) => true,
            (Loan::Group { folder, .. }, Loan::Controller { folder: above }) => {
                folder.starts_with(above)
            }
            _ => false,
        }
    }

    /// A later loan that was not returned and depends on this one, so this one has to wait.
    pub(crate) fn held_by<'a>(
        &self,
        later: impl IntoIterator<Item = &'a Self>,
    ) -> Option<&'a Self> {
        later.into_iter().find(|later| later.conflict.is_none() && later.rests_on(self))
    }
}
