// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The changes from one reading of a host to the next, in a recording over time ([`Step`]).
//!
//! Most files are the same after some seconds, and most others differ in a few lines. So a step
//! contains new files, the changed lines of files whose number of lines is the same, and removed
//! paths. Each step is one JSON document, because tar headers for many small files would be larger
//! than the files.
//!
//! A step may come from anywhere. Parts that do not fit the previous reading are left out with a
//! problem noted.

use std::collections::BTreeMap;

use memchr::{memchr, memchr_iter};
use serde::{Deserialize, Serialize};

use super::manifest::{End, refusal, refusal_text};
use super::problem::PartProblem;
use crate::answer::{Entry, Files};

/// The folder of the steps in an archive.
pub(super) const FOLDER: &str = "steps/";

/// Limit on the bytes of files that all steps together may rewrite: more would take seconds to
/// open.
pub const MAX_WORK: usize = 512 << 20;

/// Cost of finding a line, as the number of bytes that could be copied in that time.
const LINE: usize = 16;

/// Limit on the number of files in one reading of a recording over time: about as many as 5,000
/// processes have.
const MAX_FILES: usize = 20_000;

/// Limit on the bytes in one reading of a recording over time, paths included.
const MAX_READING: usize = 8 << 20;

/// Limit on the bytes of a step. Parsed, it takes many times as much memory.
pub const MAX_STEP: usize = 1 << 20;

/// The changes of files from one reading to the next in a recording over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The time of the later reading; its list of refused files contains only new ones.
    #[serde(flatten)]
    end: End,
    /// Paths of files that are not in the later reading.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gone: Vec<String>,
    /// Files of the later reading that are new or differ in most of their lines.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    files: BTreeMap<String, Contents>,
    /// Changed lines by their number from 0, of files whose number of lines is the same.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    lines: BTreeMap<String, Vec<(usize, String)>>,
}

/// The bytes of a file, as text if they are UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Contents {
    Text(String),
    Bytes(Vec<u8>),
}

/// The previous entries of some paths, with which a step can be undone.
pub(super) type Replaced = Vec<(String, Option<Entry>)>;

impl Step {
    /// The step from the files `before` to the files `after`, which were read at the time of `at`.
    #[must_use]
    pub fn between(at: &End, before: &Files, after: &Files) -> Self {
        let end = End { refused: BTreeMap::new(), ..*at };
        let mut step = Self { end, ..Self::default() };
        step.gone = before.keys().filter(|path| !after.contains_key(*path)).cloned().collect();
        for (path, entry) in after {
            if before.get(path) != Some(entry) {
                step.add(path, before.get(path), entry);
            }
        }
        step
    }

    /// Turns the files of a reading into those of the next one, and returns the step between them and
    /// its [`work`](Self::work). Entries are moved rather than copied, so that both readings are never
    /// in memory together. A file that the next reading lacks is gone, unless `is_kept` says that it
    /// was not read.
    pub fn advance(
        at: &End,
        files: &mut Files,
        next: impl Iterator<Item = (String, Entry)>,
        is_kept: impl Fn(&str) -> bool,
    ) -> (Self, usize) {
        let mut step = Self { end: End { refused: BTreeMap::new(), ..*at }, ..Self::default() };
        let (mut after, mut work) = (Files::new(), 0);
        for (path, entry) in next {
            let before = files.remove(&path);
            if before.as_ref() == Some(&entry) {
                after.insert(path, entry);
                continue;
            }
            step.add(&path, before.as_ref(), &entry);
            if step.lines.contains_key(&path) {
                work += before.as_ref().map_or(0, size_of_work);
            }
            after.insert(path, entry);
        }
        for (path, entry) in std::mem::take(files) {
            if is_kept(&path) {
                after.entry(path).or_insert(entry);
            } else if !after.contains_key(&path) {
                step.gone.push(path);
            }
        }
        *files = after;
        (step, work)
    }

    fn add(&mut self, path: &str, before: Option<&Entry>, after: &Entry) {
        let path = path.to_owned();
        match (before, after) {
            (_, Entry::Refused(refusal)) => {
                self.end.refused.insert(path, refusal_text(refusal));
            }
            (Some(Entry::File(before)), Entry::File(after)) => match changed_lines(before, after) {
                Some(lines) => _ = self.lines.insert(path, lines),
                None => _ = self.files.insert(path, Contents::from_bytes(after)),
            },
            (_, Entry::File(after)) => _ = self.files.insert(path, Contents::from_bytes(after)),
        }
    }

    /// The step that leads back from the files `after` to the previous reading, whose time is `at`. `replaced` has
    /// the entries of the previous reading that were replaced.
    pub(super) fn back(at: &End, replaced: Replaced, after: &Files) -> Self {
        let mut before = BTreeMap::new();
        for (path, entry) in replaced {
            // if a path was replaced twice, its first entry counts
            before.entry(path).or_insert(entry);
        }
        let mut step = Self { end: End { refused: BTreeMap::new(), ..*at }, ..Self::default() };
        for (path, entry) in before {
            match entry {
                None => step.gone.push(path),
                Some(entry) => step.add(&path, after.get(&path), &entry),
            }
        }
        step
    }

    /// The step as a JSON document.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        // cannot fail, because all keys of its maps are text
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The name of the step with this number, from 1, in an archive.
    #[must_use]
    pub fn path(number: usize) -> String {
        format!("{FOLDER}{number:05}.json")
    }

    pub(super) fn parse(path: &str, bytes: &[u8]) -> Result<Self, PartProblem> {
        let step: Self = serde_json::from_slice(bytes).map_err(|error| {
            PartProblem::file(path, "a step of a recording", error.to_string().as_bytes())
        })?;
        Ok(step)
    }

    pub(super) fn end(&self) -> &End {
        &self.end
    }

    /// How many bytes of the previous reading's files this step rewrites when it is applied. Each
    /// line counts as 16 more bytes.
    #[must_use]
    pub fn work(&self, files: &Files) -> usize {
        self.lines.keys().filter_map(|path| files.get(path)).map(size_of_work).sum()
    }

    /// Turns the previous reading into the next. Returns what was replaced, and the paths of which
    /// lines could not be replaced because they do not exist.
    pub(super) fn apply(self, files: &mut Files) -> (Replaced, Vec<String>) {
        let (mut replaced, mut misfits) = (Replaced::new(), Vec::new());
        for path in self.gone {
            let before = files.remove(&path);
            replaced.push((path, before));
        }
        let refused = self.end.refused.into_iter();
        let refused = refused.map(|(path, text)| (path, Entry::Refused(refusal(&text))));
        let whole = self.files.into_iter();
        let whole = whole.map(|(path, contents)| (path, Entry::File(contents.into_bytes())));
        for (path, entry) in refused.chain(whole) {
            let before = files.insert(path.clone(), entry);
            replaced.push((path, before));
        }
        for (path, lines) in self.lines {
            match files.get(&path).and_then(|entry| replace_lines(entry, &lines)) {
                Some(bytes) => {
                    let before = files.insert(path.clone(), Entry::File(bytes));
                    replaced.push((path, before));
                }
                None => misfits.push(path),
            }
        }
        (replaced, misfits)
    }
}

/// Whether a reading is small enough for a recording over time: four readings are in memory when
/// it is open.
#[must_use]
pub fn is_small_enough(reading: &Files) -> bool {
    let size = |(path, entry): (&String, &Entry)| match entry {
        Entry::File(bytes) => path.len() + bytes.len(),
        Entry::Refused(_) => path.len(),
    };
    reading.len() <= MAX_FILES && reading.iter().map(size).sum::<usize>() <= MAX_READING
}

fn size_of_work(entry: &Entry) -> usize {
    match entry {
        Entry::File(bytes) => bytes.len() + LINE * memchr_iter(b'\n', bytes).count(),
        Entry::Refused(_) => 0,
    }
}

/// Undoes a step on the files of a reading.
pub(super) fn undo(files: &mut Files, replaced: Replaced) {
    for (path, before) in replaced.into_iter().rev() {
        match before {
            Some(entry) => _ = files.insert(path, entry),
            None => _ = files.remove(&path),
        }
    }
}

impl Contents {
    fn from_bytes(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Bytes(bytes.to_vec()),
        }
    }

    fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.into_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// The lines of a file that a step changes, by number from 0; `None` if the number of lines
/// differs, if either file is not text, or if most of it differs.
fn changed_lines(before: &[u8], after: &[u8]) -> Option<Vec<(usize, String)>> {
    let [mut old, mut new] = [before, after].map(|bytes| bytes.split(|&byte| byte == b'\n'));
    let (mut changed, mut size) = (Vec::new(), 0);
    for number in 0.. {
        match (old.next(), new.next()) {
            (None, None) => break,
            (Some(old), Some(new)) if old == new => {}
            (Some(_), Some(new)) => {
                size += new.len();
                changed.push((number, std::str::from_utf8(new).ok()?.to_owned()));
            }
            _ => return None,
        }
    }
    (size * 2 < after.len()).then_some(changed)
}

/// The file with the changed lines; `None` if the line numbers do not exist in it, or are not in
/// order.
fn replace_lines(entry: &Entry, changed: &[(usize, String)]) -> Option<Vec<u8>> {
    let Entry::File(bytes) = entry else { return None };
    let mut all = Vec::with_capacity(bytes.len());
    // number of bytes copied or replaced, start of the next line, and its number
    let (mut done, mut start, mut next) = (0, 0, 0);
    for (number, line) in changed {
        for _ in next..*number {
            start += memchr(b'\n', bytes.get(start..)?)? + 1;
        }
        let end = memchr(b'\n', bytes.get(start..)?).map_or(bytes.len(), |length| start + length);
        all.extend_from_slice(bytes.get(done..start)?);
        all.extend_from_slice(line.as_bytes());
        (done, start, next) = (end, end + 1, number.checked_add(1)?);
    }
    all.extend_from_slice(bytes.get(done..)?);
    Some(all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::answer::Refusal;

    fn any_files() -> impl Strategy<Value = Files> {
        let lines = prop::collection::vec("[ab]{0,3}", 0..8).prop_map(|all| all.join("\n"));
        let entry = prop_oneof![
            4 => lines.prop_map(|text| Entry::File(text.into_bytes())),
            1 => prop::collection::vec(any::<u8>(), 0..6).prop_map(Entry::File),
            1 => Just(Entry::Refused(Refusal::Denied("run as root".into()))),
        ];
        prop::collection::btree_map("[a-d]", entry, 0..5)
    }

    proptest! {
        /// Any two readings: a step leads from one to the other, through JSON, and back again.
        #[test]
        fn a_step_leads_to_the_next_reading_and_back(before in any_files(), after in any_files()) {
            let step = Step::between(&End::default(), &before, &after);
            let read = Step::parse("steps/00001.json", &step.to_json()).unwrap();
            prop_assert_eq!(&read, &step);
            let mut files = before.clone();
            let (replaced, misfits) = read.apply(&mut files);
            prop_assert_eq!(&files, &after);
            prop_assert!(misfits.is_empty());
            let back = Step::back(&End::default(), replaced.clone(), &after);
            undo(&mut files, replaced);
            prop_assert_eq!(&files, &before);
            let mut again = after;
            Step::parse("back", &back.to_json()).unwrap().apply(&mut again);
            prop_assert_eq!(again, before);
        }

        /// Moving entries gives the same step and the same files as comparing two readings, and what
        /// is kept is as if it had been read again.
        #[test]
        fn advancing_is_the_step_between_the_readings(
            before in any_files(), read in any_files(), kept in "[a-d]{0,3}",
        ) {
            let is_kept = |path: &str| kept.contains(path);
            let mut after = read.clone();
            for (path, entry) in before.iter().filter(|(path, _)| is_kept(path)) {
                after.entry(path.clone()).or_insert_with(|| entry.clone());
            }
            let expected = Step::between(&End::default(), &before, &after);
            let mut files = before.clone();
            let (step, work) =
                Step::advance(&End::default(), &mut files, read.into_iter(), is_kept);
            prop_assert_eq!(work, expected.work(&before));
            prop_assert_eq!(step, expected);
            prop_assert_eq!(files, after);
        }

        /// A step that was made for another reading changes what it can, and can be undone.
        #[test]
        fn a_step_that_does_not_fit_can_be_taken_back(
            from in any_files(), to in any_files(), other in any_files(),
        ) {
            let mut files = other.clone();
            let (replaced, _) = Step::between(&End::default(), &from, &to).apply(&mut files);
            undo(&mut files, replaced);
            prop_assert_eq!(files, other);
        }
    }

    #[test]
    fn lines_that_a_file_does_not_have_in_this_order_are_no_lines_of_it() {
        let file = Entry::File(b"a\nb\nc".to_vec());
        let with = |changed: &[(usize, &str)]| {
            let changed: Vec<_> =
                changed.iter().map(|(at, text)| (*at, (*text).to_owned())).collect();
            replace_lines(&file, &changed)
        };
        assert_eq!(with(&[(0, "x"), (2, "z")]).as_deref(), Some(&b"x\nb\nz"[..]));
        assert_eq!([with(&[(3, "x")]), with(&[(2, "z"), (0, "x")])], [None, None]);
    }

    #[test]
    fn of_a_long_file_only_the_lines_that_differ_are_kept() {
        let text = |free: u32| format!("MemTotal: 100 kB\nMemFree: {free} kB\nBuffers: 7 kB\n");
        let files = |free| Files::from([("m".to_owned(), Entry::File(text(free).into_bytes()))]);
        let step = Step::between(&End::default(), &files(1), &files(2));
        assert_eq!(step.lines["m"], [(1, "MemFree: 2 kB".to_owned())]);
        assert!(step.files.is_empty() && step.gone.is_empty());
    }
}
