// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--dump`: the pages that were looked at, one after the other, for `bench`. They hold whatever
//! those programs held, so that only their owner may read the file. It gets its name once all of it
//! is on the disk; until then, and after any failure, there is no file of that name.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Mutex;

use crate::keeper::Keeper;

/// A file that all threads write pages to.
pub(super) struct Dump {
    file: Mutex<(BufWriter<File>, std::io::Result<()>)>,
    keeper: Keeper,
}

impl Dump {
    /// Before this process gives up its rights.
    pub(super) fn new(path: &Path) -> anyhow::Result<Self> {
        let (keeper, file) = Keeper::start(path)?;
        Ok(Self { file: Mutex::new((BufWriter::new(file), Ok(()))), keeper })
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
