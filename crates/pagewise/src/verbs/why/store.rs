// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where readings over time come from: the record of `pagewise monitor`, or a recording ([`Store`]).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use pagewise_model::{Name, Refusal};
use pagewise_observe::{Replay, open_replay, unpack_replay};
use pagewise_record::{ReadingSummary, Shelf, StoredFile, Unwhole};
use pagewise_sandbox::Confinement;
use pagewise_terminal::output;

use super::times;
use crate::verbs::monitor::record_folder;

/// The record of the systemd service. This link leads to a folder that only root may enter.
const SERVICE_LINK: &str = "/var/lib/pagewise-monitor";
const SERVICE: &str = "/var/lib/private/pagewise-monitor/record";

/// Where the readings are.
pub(in crate::verbs) enum Store {
    /// The files of a ring, the oldest first.
    Ring(Shelf, Vec<StoredFile>),
    Recording(PathBuf),
}

impl Store {
    /// A recording.
    pub(in crate::verbs) fn recording(path: &Path) -> Self {
        Self::Recording(path.to_owned())
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
        matches!(self, Self::Recording(_))
    }

    /// The path of the record or recording.
    pub(in crate::verbs) fn path(&self) -> Name {
        let path = match self {
            Self::Ring(shelf, _) => shelf.path(),
            Self::Recording(path) => path,
        };
        Name::from(path.to_string_lossy().as_ref())
    }

    /// The time and two counters of each reading, in the order in which they were taken. They come
    /// from the indexes of the files, or from the readings if a file has no index.
    pub(in crate::verbs) fn summaries(&self) -> anyhow::Result<Vec<ReadingSummary>> {
        let mut all = Vec::new();
        match self {
            Self::Recording(_) => {
                self.for_each_replay(f64::NEG_INFINITY, f64::INFINITY, &mut |replay| {
                    add_summaries(replay, &mut all);
                    Ok(())
                })?;
            }
            Self::Ring(shelf, files) => {
                for file in files {
                    match shelf.summaries(file.name) {
                        Ok(Some(summaries)) => all.extend(summaries),
                        Ok(None) => for_replay_of_file(shelf, file, &mut |replay| {
                            add_summaries(replay, &mut all);
                            Ok(())
                        })?,
                        // the monitor has removed this file meanwhile
                        Err(_) => {}
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
        match self {
            Self::Recording(path) => {
                let confine = |is_folder| _ = Confinement::for_recording(is_folder).enter();
                // opening it again gives back no rights
                look(&mut open_replay(path, confine)?)
            }
            Self::Ring(shelf, files) => {
                for file in files {
                    let is_later = file.name.unix_seconds as f64 > to;
                    // file systems may store the time of the last change in whole seconds
                    let is_earlier = (file.changed_unix_seconds as f64 + 1.0) < from;
                    if !is_later && !is_earlier {
                        for_replay_of_file(shelf, file, look)?;
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

fn for_replay_of_file(
    shelf: &Shelf,
    file: &StoredFile,
    look: &mut dyn FnMut(&mut Replay) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    // an error means that the monitor has removed this file meanwhile
    let Ok((bytes, unwhole)) = shelf.recording(file.name) else { return Ok(()) };
    if let Some(Unwhole::Damaged | Unwhole::NoMagic) = unwhole {
        report_damage(shelf, file);
    }
    match unpack_replay(&bytes[..], &file.name.to_string()) {
        Ok(mut replay) => look(&mut replay),
        Err(_) => Ok(()),
    }
}

/// Says that a file is damaged, once for each file.
fn report_damage(shelf: &Shelf, file: &StoredFile) {
    static REPORTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let name = file.name.to_string();
    if REPORTED.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone()) {
        let path = shelf.path().join(name);
        output::print_message(format_args!(
            "{}: a part of it is damaged, and the readings from there on cannot be read: what they \
             recorded is missing below",
            Name::from(path.to_string_lossy().as_ref())
        ));
    }
}

/// The record in a folder, and when it was last written, in seconds since 1970.
fn open(folder: &Path) -> Result<(i64, Store), pagewise_record::ShelfError> {
    let shelf = Shelf::open(folder)?;
    let files = shelf.files()?;
    let changed = files.iter().map(|file| file.changed_unix_seconds).max();
    Ok((changed.unwrap_or(i64::MIN), Store::Ring(shelf, files)))
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn is_link(path: &str) -> bool {
    Path::new(path).symlink_metadata().is_ok()
}
