// SPDX-License-Identifier: Apache-2.0 OR MIT
//! [`Capture`] → the files of a recording, as a list or as a `.tar.zst`.
//!
//! What reads the same at both ends is stored once: the later end comes first, and the earlier one has a
//! hard link to it.

use std::io::{Error, Write};

use tar::{Builder, EntryType, Header};

use super::Capture;
use pagewise_files::recording::stored_path;

/// Enough for text; more costs seconds of CPU for a few per cent.
const LEVEL: i32 = 12;

impl Capture {
    /// Every file of the recording by its path in it; `host.toml` first.
    ///
    /// A file that is only known to be there is left out where other files lie below its path: it
    /// is the folder of those.
    pub fn entries(&self) -> impl Iterator<Item = (String, Vec<u8>)> + '_ {
        let stored = self.stored().map(|(path, bytes)| (stored_path(path), bytes.clone()));
        [self.description()].into_iter().chain(stored)
    }

    fn description(&self) -> (String, Vec<u8>) {
        ("host.toml".to_owned(), self.manifest.to_toml().into_bytes())
    }

    fn stored(&self) -> impl Iterator<Item = (&String, &Vec<u8>)> {
        self.files.iter().filter(|(path, bytes)| !(bytes.is_empty() && self.has_below(path)))
    }

    fn has_below(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        self.files.range(folder.clone()..).next().is_some_and(|(next, _)| next.starts_with(&folder))
    }

    /// The recording as `.tar.zst`.
    ///
    /// # Errors
    /// What `out` says.
    pub fn pack(&self, out: impl Write) -> Result<(), Error> {
        let mut builder = Builder::new(zstd::Encoder::new(out, LEVEL)?);
        let (path, text) = self.description();
        builder.append_data(
            &mut self.head(EntryType::Regular, text.len()),
            path,
            text.as_slice(),
        )?;
        for (path, bytes) in self.stored() {
            let at = stored_path(path);
            match self.twin(path, bytes) {
                Some(twin) => {
                    let mut head = self.head(EntryType::Link, 0);
                    builder.append_link(&mut head, at, stored_path(&twin))?;
                }
                None => {
                    let mut head = self.head(EntryType::Regular, bytes.len());
                    builder.append_data(&mut head, at, bytes.as_slice())?;
                }
            }
        }
        builder.into_inner()?.finish()?.flush()
    }

    fn head(&self, kind: EntryType, size: usize) -> Header {
        let mut head = Header::new_gnu();
        head.set_entry_type(kind);
        head.set_mode(0o600);
        head.set_mtime(self.unix_seconds());
        head.set_size(size as u64);
        head
    }

    /// The same file of the later end, where it reads as this one of the earlier end. Of an empty file a
    /// link would take as much.
    fn twin(&self, path: &str, bytes: &[u8]) -> Option<String> {
        let twin = format!("end/{}", path.strip_prefix("start/")?);
        let same = self.files.get(&twin).is_some_and(|other| other == bytes);
        (same && !bytes.is_empty()).then_some(twin)
    }

    /// When the later end was taken, in whole seconds since 1970.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    pub fn unix_seconds(&self) -> u64 {
        self.manifest.ends.get("end").map_or(0, |end| end.unix_seconds as u64)
    }
}
