// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--dump`: the pages that were looked at, one after the other, for `bench`. They hold whatever
//! those programs held, so that only their owner may read the file.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::Context;

use crate::output;

/// A file that all threads write pages to.
pub(super) struct Dump {
    path: PathBuf,
    file: Mutex<(BufWriter<File>, std::io::Result<()>)>,
}

impl Dump {
    pub(super) fn new(path: &Path) -> anyhow::Result<Self> {
        let file = BufWriter::new(output::new_file_to_fill(path)?);
        Ok(Self { path: path.to_owned(), file: Mutex::new((file, Ok(()))) })
    }

    /// After an error nothing more is written; [`Self::finish`] tells it.
    pub(super) fn page(&self, page: &[u8]) {
        let Ok(mut held) = self.file.lock() else { return };
        let (file, written) = &mut *held;
        if written.is_ok() {
            *written = file.write_all(page);
        }
    }

    pub(super) fn finish(self) -> anyhow::Result<()> {
        let shown = self.path.display().to_string();
        let Ok((mut file, written)) = self.file.into_inner() else {
            anyhow::bail!("{shown}: a thread that wrote to it ended early");
        };
        written.and_then(|()| file.flush()).and_then(|()| file.get_ref().sync_all()).context(shown)
    }
}
