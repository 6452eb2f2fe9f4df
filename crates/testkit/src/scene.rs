// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recorded host as its files, changed where a test says so, and replayed.
//!
//! A change is made where the kernel would show it: a file, a line of one, a counter at the later
//! end. The changed files are packed as an archive and read as one that a user sent, so that every
//! reader between the text and the finding is the real one.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pagewise_model::Interval;
use pagewise_observe::{Recording, Scope};

use crate::archive::{self, Files};

/// Both ends of an interval, as they are called in a recording.
pub const ENDS: [&str; 2] = ["start", "end"];

/// Where the recordings lie.
pub fn recordings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts")
}

/// The archive of this recording.
pub fn recording(slug: &str) -> PathBuf {
    recordings().join(format!("{slug}.tar"))
}

/// The names of all of them, sorted.
///
/// # Panics
/// Where anything but archives lies among them.
pub fn slugs() -> Vec<String> {
    let entries = std::fs::read_dir(recordings()).expect("fixtures/hosts");
    let slug = |entry: std::io::Result<std::fs::DirEntry>| {
        let name = entry.expect("an entry").file_name().into_string().expect("plain letters");
        let slug = name.strip_suffix(".tar").map(str::to_owned);
        slug.unwrap_or_else(|| panic!("{name}: `cargo xtask fixture pack` makes an archive of it"))
    };
    let mut slugs: Vec<String> = entries.map(slug).collect();
    slugs.sort_unstable();
    slugs
}

/// A host at two times, in memory.
#[derive(Debug, Clone)]
pub struct Scene {
    /// By path in the recording, as `end/proc/meminfo`.
    files: Files,
}

impl Scene {
    /// A recording as it is.
    pub fn load(slug: &str) -> Self {
        let path = recording(slug);
        let read = std::fs::read(&path).and_then(|bytes| archive::unpack(&bytes));
        let files = read.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(files.contains_key(archive::DESCRIPTION), "{slug} is no recording");
        Self { files }
    }

    /// A file with this text at both ends; a new one, or in the place of one.
    pub fn file(self, path: &str, text: impl AsRef<[u8]>) -> Self {
        ENDS.iter().fold(self, |scene, end| scene.file_at(end, path, text.as_ref()))
    }

    /// The same at one end.
    pub fn file_at(mut self, end: &str, path: &str, text: impl AsRef<[u8]>) -> Self {
        self.files.insert(format!("{end}/{path}"), text.as_ref().to_vec());
        self
    }

    /// Without a file, or without a folder and all in it, at both ends.
    pub fn without(mut self, path: &str) -> Self {
        let before = self.files.len();
        let gone = |stored: &str| {
            let inside = ENDS.iter().find_map(|end| stored.strip_prefix(end)?.strip_prefix('/'));
            inside
                .and_then(|inside| inside.strip_prefix(path))
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || path.ends_with('/'))
        };
        self.files.retain(|stored, _| !gone(stored));
        assert!(self.files.len() < before, "there is no {path} to take away");
        self
    }

    /// Without a folder and all in it, at one end.
    pub fn without_at(mut self, end: &str, folder: &str) -> Self {
        let before = self.files.len();
        let prefix = format!("{end}/{folder}/");
        self.files.retain(|stored, _| !stored.starts_with(&prefix));
        assert!(self.files.len() < before, "there is no {folder} to take away");
        self
    }

    /// The one line that begins with this word, replaced at both ends where the file is recorded.
    pub fn line(mut self, path: &str, key: &str, line: &str) -> Self {
        let mut replaced = 0;
        for end in ENDS {
            let Some(bytes) = self.files.get_mut(&format!("{end}/{path}")) else { continue };
            let text = String::from_utf8(bytes.clone()).expect("text");
            let is_it = |line: &str| line.split_whitespace().next() == Some(key);
            assert_eq!(text.lines().filter(|line| is_it(line)).count(), 1, "{path}: {key}");
            let changed = text.lines().map(|old| if is_it(old) { line } else { old });
            *bytes = changed.flat_map(|line| [line, "\n"]).collect::<String>().into_bytes();
            replaced += 1;
        }
        assert!(replaced > 0, "there is no {path}");
        self
    }

    /// A counter of `/proc/vmstat` that had this value at both ends.
    pub fn counter(self, name: &str, value: u64) -> Self {
        self.line("proc/vmstat", name, &format!("{name} {value}"))
    }

    /// A counter of `/proc/vmstat` that grew by exactly so much over the interval.
    pub fn grow(self, name: &str, by: u64) -> Self {
        let text = self.text("start", "proc/vmstat").expect("vmstat is recorded").to_owned();
        let find = |line: &str| line.strip_prefix(name)?.trim().parse::<u64>().ok();
        let before = text.lines().find_map(find).expect("the counter is recorded");
        let vmstat = self.text("end", "proc/vmstat").expect("vmstat is recorded");
        let line = |line: &str| match find(line) {
            Some(_) => format!("{name} {}\n", before + by),
            None => format!("{line}\n"),
        };
        let changed: String = vmstat.lines().map(line).collect();
        self.file_at("end", "proc/vmstat", changed)
    }

    /// What a file says at one end; `None` where it is not recorded.
    pub fn text(&self, end: &str, path: &str) -> Option<&str> {
        let bytes = self.files.get(&format!("{end}/{}", path.trim_start_matches('/')))?;
        Some(std::str::from_utf8(bytes).expect("text"))
    }

    /// Whether something of that name is recorded at the later end, be it a folder.
    pub fn has(&self, path: &str) -> bool {
        let stored = format!("end/{}", path.trim_start_matches('/'));
        let folder = format!("{stored}/");
        self.files.keys().any(|known| *known == stored || known.starts_with(&folder))
    }

    /// Its files, by path in the recording.
    pub fn into_files(self) -> BTreeMap<String, Vec<u8>> {
        self.files
    }

    /// What the readers make of it, at both ends.
    pub fn replay(&self) -> Interval {
        self.replay_as("scene")
    }

    /// The same, under another name.
    pub fn replay_as(&self, label: &str) -> Interval {
        interval(&self.recording(label))
    }

    /// As it is opened under this name.
    pub fn recording(&self, label: &str) -> Recording {
        Recording::from_archive(self.packed().as_slice(), label).expect("a recording")
    }

    fn packed(&self) -> Vec<u8> {
        archive::pack(&self.files).expect("memory is enough")
    }
}

/// Both ends, with all that the program looks at.
pub fn interval(recording: &Recording) -> Interval {
    let scope = Scope::everything(Duration::from_millis(200));
    let Ok(interval) = recording.interval(&scope, || Ok::<(), Infallible>(()));
    interval
}
