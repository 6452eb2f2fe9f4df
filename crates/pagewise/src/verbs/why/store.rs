// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where readings over time come from: the record of `pagewise monitor`, or a recording ([`Store`]).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pagewise_model::{Name, Refusal, UnreadFile};
use pagewise_observe::{Replay, open_replay, unpack_replay};
use pagewise_record::{FileName, ReadingSummary, Shelf, ShelfError, StoredFile, Unwhole};
use pagewise_sandbox::Confinement;

use super::times;
use crate::verbs::monitor::record_folder;

/// The record of the systemd service. This link leads to a folder that only root may enter.
const SERVICE_LINK: &str = "/var/lib/pagewise-monitor";
const SERVICE: &str = "/var/lib/private/pagewise-monitor/record";

/// Readings over time.
pub(in crate::verbs) struct Store {
    source: Source,
    /// The files of which a part could not be read so far, by path.
    unread: RefCell<BTreeMap<Name, UnreadFile>>,
    /// The time of the last reading of each file, as far as [`Self::summaries`] has read it.
    last_reading: RefCell<BTreeMap<FileName, f64>>,
}

/// Where the readings are.
enum Source {
    /// The files of a ring, the oldest first.
    Ring(Shelf, Vec<StoredFile>),
    /// A recording, once it is open. It is opened only once: root gives up the right to open it again.
    Recording(PathBuf, RefCell<Option<Box<Replay>>>),
}

impl Store {
    /// A recording.
    pub(in crate::verbs) fn recording(path: &Path) -> Self {
        Self::new(Source::Recording(path.to_owned(), RefCell::default()))
    }

    fn new(source: Source) -> Self {
        Self { source, unread: RefCell::default(), last_reading: RefCell::default() }
    }

    /// Opens the record in the given folder. If none is given, opens the record with the newest
    /// reading among those that exist and may be read.
    pub(in crate::verbs) fn record(given: Option<&PathBuf>) -> anyhow::Result<Self> {
        let own = record_folder(given)?;
        let candidates = match given {
            Some(_) => vec![own],
            None => vec![own, PathBuf::from(SERVICE)],
        };
        let mut newest: Option<(i64, Self)> = None;
        let mut refused = None;
        for folder in candidates {
            match open(&folder) {
                Ok((changed, store)) => {
                    if newest.as_ref().is_none_or(|(time, _)| changed > *time) {
                        newest = Some((changed, store));
                    }
                }
                Err(error) => _ = refused.get_or_insert(error),
            }
        }
        if let Some((_, store)) = newest {
            // root reads files that the service's user wrote, so this process first gives up all
            // rights but reading files
            Confinement::for_recording(true).enter();
            return Ok(store);
        }
        let is_service_hidden = given.is_none() && !is_root() && is_link(SERVICE_LINK);
        let why =
            refused.map_or_else(String::new, |error| format!(": {:#}", anyhow::Error::new(error)));
        if is_service_hidden {
            let what = format!(
                "there is no record that you may read{why}; that of the service pagewise-monitor is in \
                 {SERVICE}, which only root may read"
            );
            anyhow::bail!(Refusal::with_advice(what, "run the same command with sudo"));
        }
        let next = "`pagewise monitor` keeps one from now on; `pagewise oom` reads kills from the log, and \
                    `pagewise why --root FILE` a recording of `pagewise capture --every`";
        Err(Refusal::with_advice(format!("there is no record that may be read{why}"), next).into())
    }

    pub(in crate::verbs) const fn is_recording(&self) -> bool {
        matches!(self.source, Source::Recording(..))
    }

    /// The files of which a part could not be read, as far as this was noticed: a file is read only
    /// if it may have readings of the time that was asked for, or if it has no index.
    pub(in crate::verbs) fn unread(&self) -> Vec<UnreadFile> {
        self.unread.borrow().values().cloned().collect()
    }

    /// The path of the record or recording.
    pub(in crate::verbs) fn path(&self) -> Name {
        name_path(match &self.source {
            Source::Ring(shelf, _) => shelf.path(),
            Source::Recording(path, _) => path,
        })
    }

    /// The time and two counters of each reading, in the order in which they were taken. They come
    /// from the indexes of the files, or from the readings if a file has no index.
    pub(in crate::verbs) fn summaries(&self) -> anyhow::Result<Vec<ReadingSummary>> {
        let mut all = Vec::new();
        match &self.source {
            Source::Recording(..) => {
                self.for_each_replay(f64::NEG_INFINITY, f64::INFINITY, &mut |replay| {
                    add_summaries(replay, &mut all);
                    Ok(())
                })?;
            }
            Source::Ring(shelf, files) => {
                for file in files {
                    let before = all.len();
                    match shelf.summaries(file.name) {
                        Ok(Some((summaries, unwhole))) => {
                            let last = summaries.last().map(|it| it.unix_seconds);
                            self.note_damage(shelf, file, unwhole, last);
                            all.extend(summaries);
                        }
                        Ok(None) => self.for_replay_of_file(shelf, file, &mut |replay| {
                            add_summaries(replay, &mut all);
                            Ok(())
                        })?,
                        Err(error) => self.note_error(shelf, file, &error),
                    }
                    if let Some(last) =
                        all[before..].iter().map(|it| it.unix_seconds).reduce(f64::max)
                    {
                        self.last_reading.borrow_mut().insert(file.name, last);
                    }
                }
            }
        }
        if all.is_empty() {
            let what = "the record has no reading that can be read";
            let next = "is `pagewise monitor` running? it reads every 10 s";
            anyhow::bail!(Refusal::with_advice(what, next));
        }
        Ok(all)
    }

    /// Calls `look` for each file that may have readings between these times, the oldest file
    /// first.
    pub(in crate::verbs) fn for_each_replay(
        &self,
        from: f64,
        to: f64,
        look: &mut dyn FnMut(&mut Replay) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        match &self.source {
            Source::Recording(path, open) => {
                let mut open = open.borrow_mut();
                let replay = match open.take() {
                    Some(replay) => replay,
                    None => Box::new(self.open_recording(path)?),
                };
                let replay = open.insert(replay);
                while replay.backward() {}
                look(replay)
            }
            Source::Ring(shelf, files) => {
                for file in files {
                    let is_later = file.name.unix_seconds as f64 > to;
                    // the time of the last change is that of the copy if the record was copied; file systems may
                    // store it in whole seconds
                    let last = self.last_reading.borrow().get(&file.name).copied();
                    let is_earlier = last.unwrap_or(file.changed_unix_seconds as f64 + 1.0) < from;
                    if !is_later && !is_earlier {
                        self.for_replay_of_file(shelf, file, look)?;
                    }
                }
                Ok(())
            }
        }
    }

    /// An error that says that no reading is near the requested time.
    pub(in crate::verbs) fn refuse_time(summaries: &[ReadingSummary]) -> Refusal {
        let times = || summaries.iter().map(|it| it.unix_seconds);
        let first = times().fold(f64::INFINITY, f64::min);
        let last = times().fold(f64::NEG_INFINITY, f64::max);
        let [first, last] = [first, last].map(times::describe);
        let what =
            format!("the record has readings from {first} to {last} UTC, none near that time");
        Refusal::with_advice(what, "times are in UTC; pagewise why --worst looks at all of them")
    }

    fn open_recording(&self, path: &Path) -> anyhow::Result<Replay> {
        let confine = |is_folder| _ = Confinement::for_recording(is_folder).enter();
        let replay = open_replay(path, confine)?;
        if let Some(why) = replay.early() {
            let last = replay.times().last().map(|it| it.unix_seconds);
            self.note(path, format!("the recording ends early: {why}"), last);
        }
        Ok(replay)
    }

    fn for_replay_of_file(
        &self,
        shelf: &Shelf,
        file: &StoredFile,
        look: &mut dyn FnMut(&mut Replay) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let (bytes, unwhole) = match shelf.recording(file.name) {
            Ok(read) => read,
            Err(error) => {
                self.note_error(shelf, file, &error);
                return Ok(());
            }
        };
        let replay = unpack_replay(&bytes[..], &file.name.to_string());
        let last = replay.as_ref().ok().and_then(|it| Some(it.times().last()?.unix_seconds));
        self.note_damage(shelf, file, unwhole, last);
        match replay {
            Ok(mut replay) => look(&mut replay),
            Err(error) => {
                // a file that was just begun has no frame yet
                if !bytes.is_empty() {
                    let why = format!("{:#}", anyhow::Error::new(error));
                    self.note(&shelf.path().join(file.name.to_string()), why, None);
                }
                Ok(())
            }
        }
    }

    /// Notes that a file is damaged. That its last frame is incomplete is usual: the monitor writes
    /// it, or it was killed.
    fn note_damage(
        &self,
        shelf: &Shelf,
        file: &StoredFile,
        unwhole: Option<Unwhole>,
        last: Option<f64>,
    ) {
        let why = match unwhole {
            None | Some(Unwhole::Cut) => return,
            Some(Unwhole::Damaged) => {
                "a part of it is damaged, and the readings from there on are missing"
            }
            Some(Unwhole::NoMagic) => "it is damaged: it does not begin as a file of a record does",
        };
        self.note(&shelf.path().join(file.name.to_string()), why.to_owned(), last);
    }

    /// Notes that a file cannot be read, unless the monitor has removed it meanwhile.
    fn note_error(&self, shelf: &Shelf, file: &StoredFile, error: &ShelfError) {
        if let ShelfError::Read { source, .. } = error {
            if source.kind() != std::io::ErrorKind::NotFound {
                self.note(&shelf.path().join(file.name.to_string()), source.to_string(), None);
            }
        }
    }

    fn note(&self, path: &Path, why: String, last: Option<f64>) {
        let path = name_path(path);
        let file = UnreadFile { path: path.clone(), why, readable_until_unix_seconds: last };
        self.unread.borrow_mut().entry(path).or_insert(file);
    }
}

fn name_path(path: &Path) -> Name {
    Name::from(path.to_string_lossy().as_ref())
}

fn add_summaries(replay: &mut Replay, all: &mut Vec<ReadingSummary>) {
    loop {
        let at = replay.times()[replay.at()].unix_seconds;
        all.push(ReadingSummary::from_host(at, replay.host()));
        if !replay.forward() {
            return;
        }
    }
}

/// The record in a folder, and when it was last written, in seconds since 1970.
fn open(folder: &Path) -> Result<(i64, Store), pagewise_record::ShelfError> {
    let shelf = Shelf::open(folder)?;
    let files = shelf.files()?;
    let changed = files.iter().map(|file| file.changed_unix_seconds).max();
    Ok((changed.unwrap_or(i64::MIN), Store::new(Source::Ring(shelf, files))))
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn is_link(path: &str) -> bool {
    Path::new(path).symlink_metadata().is_ok()
}
