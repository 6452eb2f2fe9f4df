// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes the files of a recording from a [`Capture`], as a list or as a `.tar.zst` archive.
//!
//! A file that is the same at both ends of the interval is stored once: the files of the later end
//! come first, and the file of the earlier end is a hard link to it.

use std::collections::BTreeMap;
use std::io::{Error, Write};

use tar::{Builder, EntryType, Header};
use zstd::zstd_safe::CParameter;

use super::Capture;
use pagewise_hostfs::recording::{
    End, MAX_STEP, MAX_SUM, Manifest, Step, refusal_text, stored_path,
};
use pagewise_hostfs::{Entry, Files};

/// zstd's compression level. It is sufficient for text; higher levels take seconds of CPU time and
/// save only a few percent.
const LEVEL: i32 = 9;
/// Base-2 logarithms of the sizes of zstd's tables. With [`LEVEL`] alone, the tables would take 40
/// MiB, which is more than a small machine has when a recording is useful. With these sizes they
/// take 1.5 MiB, and a recording of 1 MB becomes 6 % larger (25 instead of 23.6 KB).
const TABLES: [CParameter; 3] =
    [CParameter::WindowLog(18), CParameter::HashLog(16), CParameter::ChainLog(17)];

impl Capture {
    /// Returns all files of the recording by their path in it, `host.toml` first.
    ///
    /// A file of which only the existence is known is left out if there are files below its path,
    /// because it is a folder then.
    pub fn entries(&self) -> impl Iterator<Item = (String, Vec<u8>)> + '_ {
        let stored = self.stored_files().map(|(path, bytes)| (stored_path(path), bytes.clone()));
        [self.description()].into_iter().chain(stored)
    }

    fn description(&self) -> (String, Vec<u8>) {
        ("host.toml".to_owned(), self.manifest.to_toml().into_bytes())
    }

    fn stored_files(&self) -> impl Iterator<Item = (&String, &Vec<u8>)> {
        self.files.iter().filter(|(path, bytes)| !(bytes.is_empty() && self.has_files_below(path)))
    }

    fn has_files_below(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        self.files.range(folder.clone()..).next().is_some_and(|(next, _)| next.starts_with(&folder))
    }

    /// Writes the recording as `.tar.zst`.
    ///
    /// # Errors
    /// If writing to `out` fails.
    pub fn pack(&self, out: impl Write) -> Result<(), Error> {
        Stream::begin(self, out)?.finish()
    }

    /// Returns the path of the same file at the later end, if it is equal to this file at the
    /// earlier end. Empty files are not linked, because a link takes the same space.
    fn find_twin(&self, path: &str, bytes: &[u8]) -> Option<String> {
        let twin = format!("end/{}", path.strip_prefix("start/")?);
        let same = self.files.get(&twin).is_some_and(|other| other == bytes);
        (same && !bytes.is_empty()).then_some(twin)
    }

    /// Returns the time of the later end, in whole seconds since 1970.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    pub fn unix_seconds(&self) -> u64 {
        self.manifest.ends.get("end").map_or(0, |end| end.unix_seconds as u64)
    }
}

/// A `.tar.zst` archive that is written in pieces. After each piece, everything so far is in `out`,
/// so that a truncated archive can be read up to its last complete piece.
pub struct Stream<'a> {
    builder: Builder<zstd::Encoder<'static, Box<dyn Write + 'a>>>,
    mtime: u64,
    steps: usize,
    unpacked: usize,
}

impl<'a> Stream<'a> {
    /// Begins an archive with the files of the first reading.
    ///
    /// # Errors
    /// If writing to `out` fails.
    pub fn begin(capture: &Capture, out: impl Write + 'a) -> Result<Self, Error> {
        let out: Box<dyn Write + 'a> = Box::new(out);
        let mut stream = Self {
            builder: Builder::new(encoder(out)?),
            mtime: capture.unix_seconds(),
            steps: 0,
            unpacked: 0,
        };
        let (path, text) = capture.description();
        stream.add_file(&path, text.as_slice())?;
        for (path, bytes) in capture.stored_files() {
            let at = stored_path(path);
            match capture.find_twin(path, bytes) {
                Some(twin) => stream.add_link(&at, &stored_path(&twin))?,
                None => stream.add_file(&at, bytes)?,
            }
        }
        Ok(stream)
    }

    /// Begins an archive with the files of a single reading.
    pub(super) fn begin_at(
        manifest: &Manifest,
        at: &End,
        files: &Files,
        out: impl Write + 'a,
    ) -> Result<Self, Error> {
        let mut refused = BTreeMap::new();
        for (path, entry) in files {
            if let Entry::Refused(refusal) = entry {
                refused.insert(path.clone(), refusal_text(refusal));
            }
        }
        let end = End { refused, ..*at };
        let manifest =
            Manifest { ends: BTreeMap::from([(END_NAME.to_owned(), end)]), ..manifest.clone() };
        let capture = Capture { manifest, ..Capture::default() };
        let mut stream = Self::begin(&capture, out)?;
        let mut entries = files.iter().peekable();
        while let Some((path, entry)) = entries.next() {
            let Entry::File(bytes) = entry else { continue };
            let below = entries.peek().filter(|_| bytes.is_empty());
            let is_folder = below.is_some_and(|_| has_files_below(files, path));
            if !is_folder {
                stream.add_file(&stored_path(&format!("{END_NAME}/{path}")), bytes)?;
            }
        }
        stream.flush()?;
        Ok(stream)
    }

    /// Adds the files that changed up to the next reading. Returns `false` and adds nothing if the
    /// recording would become too large to be opened.
    ///
    /// # Errors
    /// If writing to `out` fails.
    pub fn add_step(&mut self, step: &Step) -> Result<bool, Error> {
        let document = step.to_json();
        let is_too_large = document.len() > MAX_STEP
            || self.unpacked + stored_size(document.len()) + END > MAX_SUM;
        if is_too_large {
            return Ok(false);
        }
        self.steps += 1;
        self.add_file(&Step::path(self.steps), &document)?;
        self.flush()?;
        Ok(true)
    }

    /// Writes out all buffered data.
    ///
    /// # Errors
    /// If writing to `out` fails.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.builder.get_mut().flush()
    }

    /// Ends the archive and writes out all data.
    ///
    /// # Errors
    /// If writing to `out` fails.
    pub fn finish(self) -> Result<(), Error> {
        self.builder.into_inner()?.finish()?.flush()
    }

    fn add_file(&mut self, path: &str, bytes: &[u8]) -> Result<(), Error> {
        self.unpacked += stored_size(bytes.len());
        let mut head = self.head(EntryType::Regular, bytes.len());
        self.builder.append_data(&mut head, path, bytes)
    }

    fn add_link(&mut self, path: &str, target: &str) -> Result<(), Error> {
        self.unpacked += stored_size(0);
        let mut head = self.head(EntryType::Link, 0);
        self.builder.append_link(&mut head, path, target)
    }

    fn head(&self, kind: EntryType, size: usize) -> Header {
        let mut head = Header::new_gnu();
        head.set_entry_type(kind);
        head.set_mode(0o600);
        head.set_mtime(self.mtime);
        head.set_size(size as u64);
        head
    }
}

impl std::fmt::Debug for Stream<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("steps", &self.steps).finish_non_exhaustive()
    }
}

fn encoder<W: Write>(out: W) -> Result<zstd::Encoder<'static, W>, Error> {
    let mut encoder = zstd::Encoder::new(out, LEVEL)?;
    for table in TABLES {
        encoder.set_parameter(table)?;
    }
    Ok(encoder)
}

/// The name of the only snapshot in a recording that begins with a single reading.
const END_NAME: &str = "end";

/// Whether there are files below a path, which means that it is a folder.
fn has_files_below(files: &Files, path: &str) -> bool {
    let folder = format!("{path}/");
    let mut next = files.range(folder.clone()..).take_while(|(it, _)| it.starts_with(&folder));
    next.any(|(_, entry)| matches!(entry, Entry::File(_)))
}

/// Returns an upper bound of the bytes that a file takes in an archive, including its headers. A
/// long path takes two additional blocks.
const fn stored_size(bytes: usize) -> usize {
    BLOCK * 3 + bytes.next_multiple_of(BLOCK)
}

const BLOCK: usize = 512;
/// Number of bytes that the end marker of an archive takes, with its padding.
const END: usize = 64 << 10;
