// SPDX-License-Identifier: Apache-2.0 OR MIT
//! [`Capture`] → the files of a recording, as a list or as a `.tar.zst`.

use std::io::{Error, Write};

use tar::{Builder, EntryType, Header};

use super::Capture;
use crate::record::stored_path;

/// Enough for text; more costs seconds of CPU for a few per cent.
const LEVEL: i32 = 12;

impl Capture {
    /// Every file of the recording by its path in it; `host.toml` first.
    ///
    /// A file that is only known to be there is left out where other files lie below its path: it
    /// is the folder of those.
    pub fn entries(&self) -> impl Iterator<Item = (String, Vec<u8>)> + '_ {
        let manifest = ("host.toml".to_owned(), self.manifest.to_toml().into_bytes());
        let files =
            self.files.iter().filter(|(path, bytes)| !(bytes.is_empty() && self.has_below(path)));
        let stored = files.map(|(path, bytes)| (stored_path(path), bytes.clone()));
        [manifest].into_iter().chain(stored)
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
        for (path, bytes) in self.entries() {
            let mut header = Header::new_gnu();
            header.set_entry_type(EntryType::Regular);
            header.set_mode(0o600);
            header.set_mtime(self.unix_seconds());
            header.set_size(bytes.len() as u64);
            builder.append_data(&mut header, &path, bytes.as_slice())?;
        }
        builder.into_inner()?.finish()?.flush()
    }

    /// When the later end was taken, in whole seconds since 1970.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    pub fn unix_seconds(&self) -> u64 {
        self.manifest.ends.get("end").map_or(0, |end| end.unix_seconds as u64)
    }
}
