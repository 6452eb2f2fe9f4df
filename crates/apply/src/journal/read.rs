// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses a journal into its records, and finds the changes that are in force.
//!
//! A process that is killed while it writes leaves a line without its end. Such a line announced
//! nothing, because the change that it announces is made only after the whole line is on disk. Any
//! other malformed line, even the last one, means a damaged disk or manipulation: the other lines
//! are used, and the damage is reported. The contents are not trusted beyond that.

use std::collections::{BTreeMap, BTreeSet};

use pagewise_model::plan::Plan;

use super::change::{Device, Identity, RecordedChange, SettingChange};
use super::record::{self, PlannedRun, Record, RunStart};
use crate::loan::zram;

/// The records of a journal that was read, and what is wrong with it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Reading {
    pub(crate) records: Vec<Record>,
    /// Number of bytes up to the end of the last complete line.
    pub(crate) good: u64,
    /// Number of the first line, from 1, that is not as it was written, or that refers to a change
    /// which no line announces. An incomplete last line does not count.
    pub(crate) damaged_line: Option<usize>,
    /// How many records precede the last damaged line.
    pub(crate) records_before_damage: Option<usize>,
    /// Whether the last record is complete except for the end of its line.
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
                    if !may_follow(&record, is_first, &mut announced) {
                        reading.add_damage(at + 1);
                    }
                    reading.records.push(record);
                    reading.good = end;
                    reading.lacks_end = !has_end;
                }
                None if !has_end && record::is_torn(text) => {}
                None => reading.add_damage(at + 1),
            }
        }
        reading
    }

    fn add_damage(&mut self, line: usize) {
        self.damaged_line.get_or_insert(line);
        self.records_before_damage = Some(self.records.len());
    }

    /// The changes that were announced and not undone, in the order in which they were made.
    pub(crate) fn open_changes(&self) -> Vec<OpenChange> {
        let mut open = OpenChanges::default();
        for record in &self.records {
            match record {
                Record::Announced { id, what } => open.add(*id, what),
                Record::Undone { id } => open.close(*id),
                Record::Made { id, device } => open.update(*id, |it| it.made = Some(*device)),
                Record::Identified { id, identity } => {
                    open.update(*id, |it| it.identity = Some(*identity));
                }
                Record::Conflict { id, found } => {
                    open.update(*id, |it| it.conflict = Some(found.clone()));
                }
                Record::Began(_)
                | Record::Planned(_)
                | Record::Step { .. }
                | Record::Applied
                | Record::Trial { .. }
                | Record::Confirmed
                | Record::Undoing
                | Record::Done { .. } => {}
            }
        }
        open.list.into_iter().flatten().collect()
    }

    /// The run that wrote the journal, as its first line says.
    pub(crate) fn run(&self) -> Option<&RunStart> {
        self.records.first()?.run()
    }

    /// The run that applied the plan, as the journal's first line says; `None` for a journal of
    /// loans.
    pub(crate) fn planned_run(&self) -> Option<&PlannedRun> {
        match self.records.first()? {
            Record::Planned(planned) => Some(planned),
            _ => None,
        }
    }

    /// The plan that the journal belongs to; `None` for a journal of loans.
    pub(crate) fn plan(&self) -> Option<&Plan> {
        self.planned_run().map(|planned| &*planned.plan)
    }

    /// Whether every step of the plan was carried out.
    pub(crate) fn is_applied(&self) -> bool {
        self.records.contains(&Record::Applied)
    }

    /// Whether the plan was applied completely as far as can be known: a damaged line may have said
    /// so if no step of the plan follows it.
    pub(crate) fn may_be_applied(&self) -> bool {
        self.is_applied() || self.may_have_lost(|record| !is_of_step(record))
    }

    /// Whether a damaged line may have confirmed the plan on trial.
    pub(crate) fn may_be_confirmed(&self) -> bool {
        let applied = self.records.iter().position(|record| *record == Record::Applied);
        let is_after = |damage| applied.is_none_or(|applied| applied < damage);
        self.records_before_damage.is_some_and(is_after)
            && self.may_have_lost(|record| !is_of_step(record))
    }

    fn may_have_lost(&self, may_follow: impl Fn(&Record) -> bool) -> bool {
        let damage = self.records_before_damage.and_then(|at| self.records.get(at..));
        damage.is_some_and(|later| later.iter().all(may_follow))
    }

    /// Whether somebody has begun to undo the plan, and changes are left that nobody else has
    /// changed since.
    pub(crate) fn is_partly_undone(&self) -> bool {
        self.records.contains(&Record::Undoing)
            && self.open_changes().iter().any(|it| it.conflict.is_none())
    }

    /// For a plan: the changes that are in force, each with the id of its step of the plan.
    pub(crate) fn open_changes_by_step(&self) -> Vec<(String, OpenChange)> {
        let mut steps = BTreeMap::new();
        let mut now = String::new();
        for record in &self.records {
            match record {
                Record::Step { id } => now.clone_from(id),
                Record::Announced { id, .. } => drop(steps.insert(*id, now.clone())),
                _ => {}
            }
        }
        let with_step = |it: OpenChange| (steps.get(&it.id).cloned().unwrap_or_default(), it);
        self.open_changes().into_iter().map(with_step).collect()
    }
}

/// Whether the record is written while the steps of a plan are carried out.
fn is_of_step(record: &Record) -> bool {
    use Record as R;
    matches!(
        record,
        R::Step { .. }
            | R::Announced { .. }
            | R::Made { .. }
            | R::Identified { .. }
            | R::Done { .. }
            | R::Applied
    )
}

/// Whether a record may come after those so far: the first record says which run writes, and each
/// change is announced before any other record refers to it.
fn may_follow(record: &Record, is_first: bool, announced: &mut BTreeSet<u64>) -> bool {
    match record {
        Record::Began(_) | Record::Planned(_) => is_first,
        Record::Step { .. }
        | Record::Applied
        | Record::Trial { .. }
        | Record::Confirmed
        | Record::Undoing => !is_first,
        Record::Announced { id, .. } => announced.insert(*id) && !is_first,
        Record::Made { id, .. }
        | Record::Identified { id, .. }
        | Record::Done { id }
        | Record::Undone { id }
        | Record::Conflict { id, .. } => announced.contains(id),
    }
}

/// The changes in force so far, while the records of a journal are read. The work for a journal is
/// bounded whatever its records are: they may have been forged.
#[derive(Debug, Default)]
struct OpenChanges<'a> {
    /// The changes in the order in which they were made; `None` in the place of a change that was undone.
    list: Vec<Option<OpenChange>>,
    /// Id and place in `list` of each change.
    places: BTreeSet<(u64, usize)>,
    /// For each file of a setting, the different values that it had before changes of this run.
    origins: BTreeMap<&'a str, Vec<&'a str>>,
    /// How often two changes were compared to find those that depend on one that was undone.
    compared: usize,
}

/// Maximum number of different earlier values that are kept for a file.
const MOST_ORIGINS: usize = 64;
/// Maximum number of pairs of changes that are compared. A session of a thousand loans that are
/// undone in the opposite order needs a thousand, in any order half a million.
const MOST_COMPARED: usize = 10_000_000;

impl<'a> OpenChanges<'a> {
    fn add(&mut self, id: u64, what: &'a RecordedChange) {
        let origins = self.add_origins(what);
        self.places.insert((id, self.list.len()));
        self.list.push(Some(OpenChange { origins, ..OpenChange::new(id, what.clone()) }));
    }

    /// The values that the file of a setting had before earlier changes of the same run, to which
    /// those before this change are added. If the records of their undo were lost, the file has
    /// such a value again although nobody else wrote it.
    fn add_origins(&mut self, what: &'a RecordedChange) -> Vec<String> {
        let RecordedChange::Setting(SettingChange { path, old, back, .. }) = what else {
            return Vec::new();
        };
        let known = self.origins.get(path.as_str()).into_iter().flatten();
        let known = known.map(|value| (*value).to_owned()).collect();
        for (path, value) in [(path, old), (&back.path, &back.value)] {
            let values = self.origins.entry(path).or_default();
            if values.len() < MOST_ORIGINS && !values.contains(&value.as_str()) {
                values.push(value);
            }
        }
        known
    }

    /// The place of the first open change with this id.
    fn place(&self, id: u64) -> Option<usize> {
        self.places.range((id, 0)..=(id, usize::MAX)).next().map(|(_, at)| *at)
    }

    fn update(&mut self, id: u64, change: impl FnOnce(&mut OpenChange)) {
        let place = self.place(id).and_then(|at| self.list.get_mut(at));
        if let Some(Some(it)) = place {
            change(it);
        }
    }

    /// Removes a change that was undone, and all changes that depended on it, because records of
    /// their undo may be lost. Beyond [`MOST_COMPARED`] these stay: they are undone once more, which
    /// changes nothing.
    fn close(&mut self, id: u64) {
        let Some(at) = self.place(id) else { return };
        self.places.remove(&(id, at));
        let Some(closed) = self.list.get_mut(at).and_then(Option::take) else { return };
        let later = self.list.get_mut(at + 1..).unwrap_or_default();
        for (later, place) in later.iter_mut().zip(at + 1..) {
            if self.compared >= MOST_COMPARED {
                break;
            }
            self.compared += 1;
            if let Some(it) = later.take_if(|it| closed.find_dependent([&*it]).is_some()) {
                self.places.remove(&(it.id, place));
            }
        }
        let kept = self.list.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        self.list.truncate(kept);
    }
}

/// A change in force: one that the journal announced and that was not undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenChange {
    pub(crate) id: u64,
    pub(crate) change: RecordedChange,
    pub(crate) made: Option<Device>,
    /// For a file or cgroup: its identity, if the journal recorded it.
    pub(crate) identity: Option<Identity>,
    /// The value that somebody else wrote after our change.
    pub(crate) conflict: Option<String>,
    /// For a setting: the values that it had before earlier changes by the same run.
    pub(crate) origins: Vec<String>,
}

impl OpenChange {
    pub(crate) fn new(id: u64, change: RecordedChange) -> Self {
        Self { id, change, made: None, identity: None, conflict: None, origins: Vec::new() }
    }

    pub(crate) fn describe(&self) -> String {
        self.change.describe(self.made)
    }

    /// The device or file for swap that this change creates or gives a size; `None` for other
    /// changes.
    pub(crate) fn area(&self) -> Option<String> {
        match &self.change {
            RecordedChange::Zram(_) => self.made.map(|device| zram::area_path(device.number)),
            RecordedChange::ZramSize(change) => Some(zram::area_path(change.device.number)),
            RecordedChange::SwapFile(file) => Some(file.path.clone()),
            _ => None,
        }
    }

    /// Whether this change depends on `earlier`, so that it must be undone first.
    pub(crate) fn depends_on(&self, earlier: &Self) -> bool {
        use RecordedChange as C;
        let is_below = |path: &str, folder: &str| {
            path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
        };
        match (&self.change, &earlier.change) {
            (C::SwapOn(on), C::Drained(off)) => on.area == off.area,
            (C::SwapOn(on), _) => earlier.area().as_ref() == Some(&on.area),
            // the pages of the disabled area are in the swap that was created before
            (C::Drained(_), C::SwapOn(_)) => true,
            (C::File(file), C::Folder(folder)) => is_below(&file.path, &folder.path),
            (C::Link(link), C::Folder(folder)) => is_below(&link.path, &folder.path),
            (C::Folder(inner), C::Folder(folder)) => is_below(&inner.path, &folder.path),
            (C::Setting(later), C::Setting(earlier)) => {
                let written = [&earlier.path, &earlier.back.path];
                written.contains(&&later.path) || written.contains(&&later.back.path)
            }
            (C::Zram(_), C::Module(_)) => true,
            (C::Group(group), C::Controller(above)) => group.folder.starts_with(&above.folder),
            _ => false,
        }
    }

    /// Whether this change is the timer or the unit of a trial that still has something to undo: a later change of
    /// the plan's steps that nobody else has changed since. Folders do not count, because a folder may have been
    /// made for the trial's own files.
    ///
    /// This is no dependency between the two changes: if the plan is confirmed, its changes stay without the trial.
    pub(crate) fn is_needed_by<'a>(&self, later: impl IntoIterator<Item = &'a Self>) -> bool {
        let is_of_step = |it: &Self| {
            let is_folder = matches!(it.change, RecordedChange::Folder(_));
            !it.change.is_of_trial() && !is_folder && it.conflict.is_none()
        };
        self.change.is_of_trial() && later.into_iter().any(is_of_step)
    }

    /// The first later change that is in force and depends on this one, which can only be undone after it.
    pub(crate) fn find_dependent<'a>(
        &self,
        later: impl IntoIterator<Item = &'a Self>,
    ) -> Option<&'a Self> {
        later.into_iter().find(|later| later.conflict.is_none() && later.depends_on(self))
    }
}

#[cfg(test)]
mod tests {
    use super::super::change::{NewFolder, Write};
    use super::*;

    fn folder(number: u64) -> RecordedChange {
        RecordedChange::Folder(NewFolder { path: format!("/etc/{number}") })
    }

    /// A forged journal may undo any number of changes in the order in which it announced them.
    #[test]
    fn changes_are_compared_a_bounded_number_of_times() {
        let many = 6000;
        let all: Vec<RecordedChange> = (0..many).map(folder).collect();
        for order in [(0..many).collect::<Vec<u64>>(), (0..many).rev().collect()] {
            let mut open = OpenChanges::default();
            (0..).zip(&all).for_each(|(id, what)| open.add(id, what));
            let is_reversed = order[0] > 0;
            order.into_iter().for_each(|id| open.close(id));
            assert_eq!((open.list.len(), open.places.len()), (0, 0));
            assert_eq!(open.compared, if is_reversed { 0 } else { MOST_COMPARED });
        }
    }

    #[test]
    fn of_one_file_only_so_many_different_values_are_kept() {
        let setting = |number: usize| {
            let path = "/proc/sys/vm/swappiness".to_owned();
            let old = (number % 100).to_string();
            let back = Write { path: path.clone(), value: old.clone() };
            let name = "vm.swappiness".to_owned();
            RecordedChange::Setting(SettingChange { name, path, old, ours: "1".to_owned(), back })
        };
        let all: Vec<RecordedChange> = (0..1000).map(setting).collect();
        let mut open = OpenChanges::default();
        (0..).zip(&all).for_each(|(id, what)| open.add(id, what));
        let kept: Vec<usize> = open.list.iter().flatten().map(|it| it.origins.len()).collect();
        assert_eq!((kept[0], kept[1], kept[999]), (0, 1, MOST_ORIGINS));
        let first = open.list[999].as_ref().map(|it| it.origins[0].as_str());
        assert_eq!(first, Some("0"), "the value before the first change is kept");
    }
}
