// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of a recorded host, which a test changes and replays.
//!
//! A test changes what the kernel printed: a file, a line of it, or a counter at the end of the
//! interval. The changed files are packed as an archive and opened like an archive from a user, so
//! that all code between the text and the finding is the program's own.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pagewise_model::Interval;
use pagewise_observe::{Recording, Scope};

use crate::archive::{self, Files};

/// Names of the two snapshots of an interval, as in a recording.
pub const ENDS: [&str; 2] = ["start", "end"];

/// The folder that contains the recordings.
pub fn recordings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts")
}

/// Returns the path of the archive of the recording with this name.
pub fn recording(slug: &str) -> PathBuf {
    recordings().join(format!("{slug}.tar"))
}

/// The names of all recordings, sorted.
///
/// # Panics
/// If the folder contains anything but archives.
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

/// The files of a host at two times, in memory.
#[derive(Debug, Clone)]
pub struct Scene {
    /// Contents of the files by path in the recording, such as `end/proc/meminfo`.
    files: Files,
}

impl Scene {
    /// Loads the recording with this name, without changes.
    pub fn load(slug: &str) -> Self {
        let path = recording(slug);
        let read = std::fs::read(&path).and_then(|bytes| archive::unpack(&bytes));
        let files = read.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(files.contains_key(archive::DESCRIPTION), "{slug} is no recording");
        Self { files }
    }

    /// Sets the contents of a file in both snapshots; creates the file if it does not exist.
    pub fn file(self, path: &str, text: impl AsRef<[u8]>) -> Self {
        ENDS.iter().fold(self, |scene, end| scene.file_at(end, path, text.as_ref()))
    }

    /// Sets the contents of a file in one snapshot of the interval.
    pub fn file_at(mut self, end: &str, path: &str, text: impl AsRef<[u8]>) -> Self {
        self.files.insert(format!("{end}/{path}"), text.as_ref().to_vec());
        self
    }

    /// Removes a file, or a folder with its contents, from both snapshots of the interval.
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

    /// Removes a folder with its contents from one snapshot of the interval.
    pub fn without_at(mut self, end: &str, folder: &str) -> Self {
        let before = self.files.len();
        let prefix = format!("{end}/{folder}/");
        self.files.retain(|stored, _| !stored.starts_with(&prefix));
        assert!(self.files.len() < before, "there is no {folder} to take away");
        self
    }

    /// Replaces the only line that begins with `key`, in each snapshot that contains the file.
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

    /// Sets a counter of `/proc/vmstat` in both snapshots.
    pub fn counter(self, name: &str, value: u64) -> Self {
        self.line("proc/vmstat", name, &format!("{name} {value}"))
    }

    /// Sets a counter of `/proc/vmstat` so that it grows by exactly `by` over the interval.
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

    /// Returns the contents of a file in one snapshot of the interval; `None` if the file is not
    /// recorded.
    pub fn text(&self, end: &str, path: &str) -> Option<&str> {
        let bytes = self.files.get(&format!("{end}/{}", path.trim_start_matches('/')))?;
        Some(std::str::from_utf8(bytes).expect("text"))
    }

    /// Whether the later snapshot contains a file or folder with this path.
    pub fn has(&self, path: &str) -> bool {
        let stored = format!("end/{}", path.trim_start_matches('/'));
        let folder = format!("{stored}/");
        self.files.keys().any(|known| *known == stored || known.starts_with(&folder))
    }

    /// Returns the files of the scene by their path in the recording.
    pub fn into_files(self) -> BTreeMap<String, Vec<u8>> {
        self.files
    }

    /// Reads both snapshots with the program's own readers.
    pub fn replay(&self) -> Interval {
        self.replay_as("scene")
    }

    /// Reads both snapshots with the program's own readers, from a recording with this label.
    pub fn replay_as(&self, label: &str) -> Interval {
        interval(&self.recording(label))
    }

    /// Returns the scene as an opened recording with this label.
    pub fn recording(&self, label: &str) -> Recording {
        Recording::from_archive(self.pack().as_slice(), label).expect("a recording")
    }

    /// Returns the scene in the format that `pagewise capture` writes.
    pub fn pack(&self) -> Vec<u8> {
        archive::pack(&self.files).expect("memory is enough")
    }
}

/// Reads both snapshots of a recording, with everything that the program reads.
pub fn interval(recording: &Recording) -> Interval {
    let scope = Scope::everything(Duration::from_millis(200));
    let Ok(interval) = recording.interval(&scope, || Ok::<(), Infallible>(()));
    interval
}
