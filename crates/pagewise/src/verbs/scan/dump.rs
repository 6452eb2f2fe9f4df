// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--dump`: writes the sampled pages, one after the other, to a file for `bench`. The pages may
//! hold secrets of the scanned programs, so only the owner may read the file. It gets its final
//! name once all of it is on the disk; until then, and after any failure, no file of that name
//! exists.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Mutex;

use crate::keeper::Keeper;

/// The dump file, to which all threads write pages.
pub(super) struct Dump {
    file: Mutex<(BufWriter<File>, std::io::Result<()>)>,
    keeper: Keeper,
}

impl Dump {
    /// Creates the file; call it before this process gives up its rights.
    pub(super) fn new(path: &Path) -> anyhow::Result<Self> {
        let (keeper, file) = Keeper::start(path)?;
        Ok(Self { file: Mutex::new((BufWriter::new(file), Ok(()))), keeper })
    }

    /// Adds a page. After an error nothing more is written; [`Self::finish`] returns the error.
    pub(super) fn add_page(&self, page: &[u8]) {
        let Ok(mut held) = self.file.lock() else { return };
        let (file, written) = &mut *held;
        if written.is_ok() {
            *written = file.write_all(page);
        }
    }

    pub(super) fn finish(self) -> anyhow::Result<()> {
        let Ok((mut file, written)) = self.file.into_inner() else {
            let ended = std::io::Error::other("a thread that wrote to it ended early");
            return Err(self.keeper.remove_file(&ended));
        };
        let written = written.and_then(|()| file.flush()).and_then(|()| file.get_ref().sync_all());
        match written {
            Ok(()) => self.keeper.name_file(),
            Err(error) => Err(self.keeper.remove_file(&error)),
        }
    }
}
