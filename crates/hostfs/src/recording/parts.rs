// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Collects the files of a recording one by one, within the limits, and makes its [`Ends`].

use pagewise_model::{Name, Reading};

use super::collected;
use super::ends::Ends;
use super::error::OpenError;
use super::limits::{MAX_ENTRIES, MAX_FILE, MAX_LOGS, MAX_SUM};
use super::manifest::{End, FILE, Manifest};
use super::problem::PartProblem;
use super::replay::Replay;
use super::step::{self, MAX_STEP, MAX_WORK, Replaced, Step};
use super::texts::{find_contained, may_contain};
use crate::answer::{Entry, Facts, Files, Refusal};
use crate::read::ReadHost;
use crate::root::HostRoot;

/// How a path segment `..` is written in a recording: readers use `device/../queue`, and no
/// unpacker accepts such a path.
const DOTS: &str = "%2E%2E";

/// The refusal for a file of the recording that we may not read because of its owner.
const NOT_OURS: &str = "the recording's owner does not let you read it";

/// The parts of a recording that were read so far.
#[derive(Debug, Default)]
pub(super) struct Parts {
    manifest: Option<Vec<u8>>,
    start: Files,
    end: Files,
    /// Files outside of the folders `start` and `end`, as in a recording of one time without
    /// `host.toml`.
    bare: Files,
    troubles: Vec<PartProblem>,
    /// The first path of the recording that we may not read, and the number of such paths.
    denied: Option<(String, usize)>,
    entries: usize,
    /// Whether the archive has entries at all, used or not.
    pub(super) has_entries: bool,
    sum: usize,
    /// Why the recording could not be read completely; `None` if it was.
    pub(super) broken: Option<String>,
    steps: Steps,
    collected: Collected,
}

/// What is known of files that somebody else collected.
#[derive(Debug, Default)]
struct Collected {
    /// Size of the logs that were kept.
    logs: usize,
    /// Logs that were left out because of their size.
    logs_left_out: usize,
    /// Number of links that lead to a path outside of the collection.
    links_left_out: usize,
    /// The path and the target of each link.
    links: Vec<(String, String)>,
}

/// The steps of a recording over time that were read so far; the last reading is in [`Parts::end`].
#[derive(Debug, Default)]
struct Steps {
    taken: usize,
    /// The entries that the last step replaced, to restore the reading before it.
    replaced: Replaced,
    /// The times of the last two readings, the last one first.
    at: [End; 2],
    /// The first two readings of the recording, with their times.
    first: Option<Box<[(End, Files); 2]>>,
    /// Number of bytes that the steps have rewritten.
    work: usize,
    /// The documents of the steps with the times of their readings, if they are to be kept.
    kept: Option<Vec<(End, Vec<u8>)>>,
    /// The number of the first step that could not be used, if any.
    refused: Option<usize>,
}

/// A limit of the recording is reached, so nothing more is read from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

impl Parts {
    /// Empty parts for a recording over time of which every reading is needed, and not only the
    /// last and the first two.
    pub(super) fn keeping_steps() -> Self {
        Self { steps: Steps { kept: Some(Vec::new()), ..Steps::default() }, ..Self::default() }
    }

    /// Notes that a part of the recording was not used.
    pub(super) fn trouble(&mut self, path: &str, expected: impl Into<String>, found: &str) {
        if self.troubles.len() < 1000 {
            self.troubles.push(PartProblem::file(path, expected, found.as_bytes()));
        }
    }

    /// Whether no file or folder of the recording was found so far.
    pub(super) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Counts a file or folder of the recording that is about to be read.
    pub(super) fn count(&mut self) -> Result<(), Full> {
        self.entries += 1;
        if self.entries <= MAX_ENTRIES {
            return Ok(());
        }
        self.trouble("recording", format!("at most {MAX_ENTRIES} files and folders"), "more");
        Err(Full)
    }

    /// Notes a file or folder that we may not read: it exists in the recording, so it is not
    /// absent.
    pub(super) fn deny(&mut self, path: &str) -> Result<(), Full> {
        self.denied.get_or_insert((path.to_owned(), 0)).1 += 1;
        let refusal = Refusal::Denied(NOT_OURS.into());
        self.store(path, Entry::Refused(refusal));
        Ok(())
    }

    /// Whether a part of a recording of Pagewise was found.
    pub(super) fn has_recording(&self) -> bool {
        self.manifest.is_some() || self.has_ends()
    }

    /// Adds a file of `size` bytes that somebody else collected; of a log, `bytes` may be the end.
    pub(super) fn take_collected(
        &mut self,
        path: &str,
        bytes: Vec<u8>,
        size: u64,
    ) -> Result<(), Full> {
        self.count()?;
        if !collected::is_log(path) {
            return self.take(path, bytes);
        }
        let is_whole = bytes.len() as u64 == size;
        self.collected.logs += bytes.len();
        if self.collected.logs > MAX_LOGS || !is_whole && collected::is_binary(path) {
            self.collected.logs -= bytes.len();
            self.collected.logs_left_out += 1;
            return Ok(());
        }
        if !is_whole {
            self.trouble(path, "at most 8 MiB in one file", "more; only its end is read");
        }
        self.take(path, bytes)
    }

    /// Notes a link of a collection. The file to which it leads may come later in the archive.
    pub(super) fn link_collected(&mut self, path: &str, target: &str) -> Result<(), Full> {
        self.count()?;
        match collected::resolve(path, target) {
            Some(target) => self.collected.links.push((path.to_owned(), target)),
            None => self.collected.links_left_out += 1,
        }
        Ok(())
    }

    /// Replaces the links of a collection with copies of the files, or whole folders, to which they
    /// lead. A link to a link is not followed.
    fn copy_linked(&mut self) {
        for (path, target) in std::mem::take(&mut self.collected.links) {
            let below = format!("{target}/");
            let whole = self.bare.get_key_value(&target);
            let inside = self
                .bare
                .range(below.clone()..)
                .take_while(|(name, _)| name.starts_with(&below) && !path.starts_with(&below));
            let copies: Vec<(String, Vec<u8>)> = whole
                .into_iter()
                .chain(inside)
                .filter_map(|(name, entry)| match entry {
                    Entry::File(bytes) => Some((format!("{path}{}", &name[target.len()..]), bytes)),
                    Entry::Refused(_) => None,
                })
                .map(|(name, bytes)| (name, bytes.clone()))
                .take(MAX_LINKED)
                .collect();
            for (name, bytes) in copies {
                self.sum += bytes.len();
                let is_full = self.sum > MAX_SUM || self.count().is_err();
                if is_full {
                    self.trouble("recording", "at most 64 MiB in all files", "more");
                    return;
                }
                self.bare.entry(name).or_insert(Entry::File(bytes));
            }
        }
    }

    /// Adds the files of the host that texts of a collection contain.
    fn add_contained(&mut self) {
        let texts = self.bare.iter().filter_map(|(path, entry)| match entry {
            Entry::File(bytes) if may_contain(path) => Some((path.as_str(), bytes.as_slice())),
            _ => None,
        });
        for (path, entry) in find_contained(texts) {
            self.bare.entry(path).or_insert(entry);
        }
    }

    /// Adds one file of the recording.
    pub(super) fn take(&mut self, path: &str, bytes: Vec<u8>) -> Result<(), Full> {
        if bytes.len() > MAX_FILE {
            self.trouble(path, "at most 8 MiB in one file", "more");
            return Ok(());
        }
        self.sum += bytes.len();
        if self.sum > MAX_SUM {
            self.trouble("recording", "at most 64 MiB in all files", "more");
            return Err(Full);
        }
        if path.starts_with(step::FOLDER) {
            let taken = self.steps.taken;
            let outcome = self.take_step(path, &bytes);
            if self.steps.taken == taken {
                self.steps.refused.get_or_insert(taken + 1);
            } else if let Some(kept) = &mut self.steps.kept {
                kept.push((self.steps.at[1].clone(), bytes));
            }
            return outcome;
        }
        self.store(path, Entry::File(bytes));
        Ok(())
    }

    /// Appends the files of the next point in time to a recording that has several. Fails if `path`
    /// is not the name of the next step, or a limit is exceeded.
    fn take_step(&mut self, path: &str, bytes: &[u8]) -> Result<(), Full> {
        let expected = Step::path(self.steps.taken + 1);
        if path != expected {
            self.trouble(path, format!("the next step, {expected}"), "another one");
            return Ok(());
        }
        if bytes.len() > MAX_STEP {
            self.trouble(path, "a step of at most 1 MiB", "more");
            return Err(Full);
        }
        match Step::parse(path, bytes) {
            Ok(step) => self.add_step(path, step),
            Err(trouble) => {
                self.troubles.push(trouble);
                Err(Full)
            }
        }
    }

    fn add_step(&mut self, path: &str, step: Step) -> Result<(), Full> {
        self.steps.work = self.steps.work.saturating_add(step.work(&self.end));
        if self.steps.work > MAX_WORK {
            self.trouble(path, "steps that rewrite at most 512 MiB", "more");
            return Err(Full);
        }
        if self.steps.taken == 0 {
            if !step::is_small_enough(&self.end) {
                self.trouble(path, TOO_LARGE, "more");
                return Err(Full);
            }
            self.begin_steps();
        }
        let mut at = step.end().clone();
        at.refused.clear();
        at.check(&mut self.troubles);
        let before = (self.steps.taken == 0).then(|| self.end.clone());
        let (replaced, misfits) = step.apply(&mut self.end);
        if !step::is_small_enough(&self.end) {
            step::undo(&mut self.end, replaced);
            self.trouble(path, TOO_LARGE, "more");
            return Err(Full);
        }
        let steps = &mut self.steps;
        steps.taken += 1;
        steps.replaced = replaced;
        steps.at = [std::mem::take(&mut steps.at[1]), at];
        if let Some(before) = before {
            let [one, other] = steps.at.clone();
            steps.first = Some(Box::new([(one, before), (other, self.end.clone())]));
        }
        for misfit in misfits {
            self.trouble(path, format!("lines of the reading before of {misfit}"), "others");
        }
        Ok(())
    }

    /// Begins the steps of a recording over time with the first reading, whose time is in
    /// `host.toml`; that file comes before all steps in the archive.
    fn begin_steps(&mut self) {
        let text = self.manifest.as_deref().unwrap_or_default();
        // the problems of the manifest are noted when the recording is assembled
        let manifest = Manifest::parse(text, &mut Vec::new());
        if let Some(end) = manifest.ends.get("end") {
            for (path, entry) in end.refusals() {
                self.end.entry(path).or_insert(entry);
            }
            self.steps.at[1] = End { refused: Default::default(), ..end.clone() };
        }
    }

    /// Adds a file with the same contents as the earlier file `target`.
    pub(super) fn link(&mut self, path: &str, target: &[u8]) -> Result<(), Full> {
        let target = std::str::from_utf8(target).unwrap_or_default();
        let (files, rest) = self.files_of(target.strip_prefix("./").unwrap_or(target));
        let Some(Entry::File(bytes)) = files.get(&rest) else {
            self.trouble(
                path,
                "a link to a file that stands before it",
                "a link to something else",
            );
            return Ok(());
        };
        let bytes = bytes.clone();
        self.take(path, bytes)
    }

    /// The set of files that a path of the recording belongs to, and the path within this set.
    fn files_of(&mut self, path: &str) -> (&mut Files, String) {
        let (files, rest) = match path.split_once('/') {
            Some(("start", rest)) => (&mut self.start, rest),
            Some(("end", rest)) => (&mut self.end, rest),
            _ => (&mut self.bare, path),
        };
        (files, rest.replace(DOTS, ".."))
    }

    fn store(&mut self, path: &str, entry: Entry) {
        if path == FILE {
            if let Entry::File(bytes) = entry {
                self.manifest.get_or_insert(bytes);
            }
            return;
        }
        let (files, rest) = self.files_of(path);
        if files.insert(rest, entry).is_some() {
            self.trouble(path, "each file once", "a second one of the same name");
        }
    }

    /// The hosts of the recording; everything that was not used becomes a problem of the later one.
    pub(super) fn assemble(mut self, label: &str) -> Result<Ends, OpenError> {
        let is_copy = !self.has_recording();
        self.copy_linked();
        if is_copy {
            self.add_contained();
        }
        if let Some(found) = self.why_unusable() {
            return Err(OpenError::NoRecording { label: Name::from(label).to_string(), found });
        }
        self.put_archive_problems_first();
        let manifest = match self.manifest.take() {
            Some(bytes) => Manifest::parse(&bytes, &mut self.troubles),
            None => Manifest::default(),
        };
        let end = self.choose_end();
        let ends = self.into_recording(&manifest, end, label);
        Ok(if is_copy { Ends { end: ends.end.mark_as_copy(), ..ends } } else { ends })
    }

    /// The first reading of the recording and the steps after it, which are there if
    /// [`Parts::keeping_steps`] made the parts.
    pub(super) fn replay(mut self, label: &str) -> Result<Replay, OpenError> {
        let refused = self.steps.refused.map(|number| format!("step {number} cannot be used"));
        let broken = self.broken.as_ref().map(|why| format!("the file is not whole ({why})"));
        let early = broken.or(refused);
        let kept = self.steps.kept.take().unwrap_or_default();
        Ok(Replay::new(self.assemble(label)?, kept, early))
    }

    /// Moves the problems that concern the recording as a whole to the front, because only the
    /// first problems are kept.
    fn put_archive_problems_first(&mut self) {
        let mut whole = Vec::new();
        if let Some(why) = self.broken.take() {
            let path = if self.steps.taken > 0 { "steps" } else { "recording" };
            whole.push(PartProblem::file(path, "a whole archive", why.as_bytes()));
        }
        if let Some((first, count)) = self.denied.take() {
            let found = match count {
                1 => "permission denied".to_owned(),
                _ => format!("permission denied, and {} more so", count - 1),
            };
            whole.push(PartProblem::file(&first, "what you may read", found.as_bytes()));
        }
        if self.manifest.is_none() && self.has_ends() {
            whole.push(PartProblem::file(FILE, "the description of the recording", b"none"));
        }
        if self.collected.logs_left_out > 0 {
            let found = format!("more; {} left out", self.collected.logs_left_out);
            let expected = "at most 8 MiB in one log and 32 MiB in all logs";
            whole.push(PartProblem::file("recording", expected, found.as_bytes()));
        }
        if self.collected.links_left_out > 0 {
            let found = format!("{} to somewhere outside", self.collected.links_left_out);
            let expected = "links to files of the archive";
            whole.push(PartProblem::file("recording", expected, found.as_bytes()));
        }
        self.troubles.splice(0..0, whole);
    }

    /// Why the parts are not a recording; `None` if they are one.
    fn why_unusable(&self) -> Option<String> {
        let bare = self.bare.keys().any(|path| path.starts_with("proc/"));
        match &self.broken {
            _ if self.manifest.is_some() || self.has_ends() || bare => None,
            Some(why) if self.entries == 0 => Some(why.clone()),
            Some(why) => Some(format!("{why}, before any file of a host came")),
            None if self.entries == 0 && !self.has_entries => Some("no files".to_owned()),
            None => Some("neither host.toml nor proc".to_owned()),
        }
    }

    /// Whether the recording has files of a host at either end.
    fn has_ends(&self) -> bool {
        let of_host = |path: &String| path.starts_with("proc/") || path.starts_with("sys/");
        self.start.keys().chain(self.end.keys()).any(of_host)
    }

    /// Chooses the files of the later end. If they are missing, or there never were two ends,
    /// those of the other one are used. Returns the name of the end that is now the later one.
    fn choose_end(&mut self) -> &'static str {
        if self.end.is_empty() && !self.start.is_empty() {
            let (expected, found) = ("the files of the later end", "none: the earlier is shown");
            self.troubles.insert(0, PartProblem::file("end", expected, found.as_bytes()));
            self.end = std::mem::take(&mut self.start);
            return "start";
        }
        if self.end.is_empty() {
            self.end = std::mem::take(&mut self.bare);
        }
        "end"
    }

    fn into_recording(self, manifest: &Manifest, end: &str, label: &str) -> Ends {
        if self.steps.taken > 0 {
            return self.into_readings(manifest, label);
        }
        let host = |name: &str, mut files: Files| {
            if let Some(end) = manifest.ends.get(name) {
                for (path, entry) in end.refusals() {
                    files.entry(path).or_insert(entry);
                }
            }
            HostRoot::recorded(files, Name::from(label), manifest.facts(name))
        };
        let start = (!self.start.is_empty()).then(|| host("start", self.start));
        let end = host(end, self.end);
        report_problems(&self.troubles, &end);
        Ends { start, end, first: None }
    }

    /// The last two readings of a recording over time, and the first two.
    fn into_readings(self, manifest: &Manifest, label: &str) -> Ends {
        let host = |at: &End, files: Files| {
            let facts: Facts = at.facts(manifest.page_size);
            HostRoot::recorded(files, Name::from(label), facts)
        };
        let (steps, end) = (self.steps, self.end);
        let mut before = end.clone();
        step::undo(&mut before, steps.replaced);
        let first = steps.first.map(|both| Box::new(both.map(|(at, files)| host(&at, files))));
        let end = host(&steps.at[1], end);
        report_problems(&self.troubles, &end);
        Ends { start: Some(host(&steps.at[0], before)), end, first }
    }
}

/// Maximum number of files that are copied for one link.
const MAX_LINKED: usize = 1000;

const TOO_LARGE: &str = "readings of at most 20,000 files and 8 MiB";

/// Reports to the host which parts of its recording were not used.
fn report_problems(troubles: &[PartProblem], host: &HostRoot) {
    for trouble in troubles {
        let _: Reading<()> =
            host.report_garbled(trouble.source(), &trouble.expected, &trouble.found);
    }
}

/// The form in which a recording stores a path.
pub fn stored_path(path: &str) -> String {
    let parts: Vec<&str> =
        path.split('/').map(|part| if part == ".." { DOTS } else { part }).collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs no user other than root: root could read every file, so denials are noted by hand.
    #[test]
    fn what_may_not_be_read_is_denied_and_not_absent() {
        let manifest = "format = \"pagewise-recording/1\"\nname = \"host-1\"\nkernel = \"6.12\"\n";
        let mut parts = Parts::default();
        parts.take("host.toml", manifest.into()).unwrap();
        for path in ["end/proc/meminfo", "end/proc/vmstat", "end/sys"] {
            parts.deny(path).unwrap();
        }
        let end = parts.assemble("x").unwrap().end;
        assert!(matches!(end.bytes("proc/meminfo"), Err(Refusal::Denied(_))));
        let told: Vec<String> = end.take_problems().iter().map(ToString::to_string).collect();
        let expected = "end/proc/meminfo: expected what you may read, found \"permission denied, and 2 more so\"";
        assert_eq!(told, [expected]);
    }
}
