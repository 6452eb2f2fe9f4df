// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--html FILE`: writes a web page to the file that the user named.
//!
//! The file is created before a recording is opened, because a process that has opened one can no
//! longer create files. A helper process gives it its final name once all data is on the disk; see
//! [`crate::keeper`].

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use pagewise_model::{Bytes, Name};
use pagewise_terminal::{Global, output};

use crate::keeper::Keeper;

/// A file for a web page, which is removed if no page is written.
#[derive(Debug)]
pub(super) struct NewPage {
    path: PathBuf,
    keeper: Keeper,
    file: File,
}

impl NewPage {
    /// Creates the file, readable by its owner alone, if one was named. An error if a file of this
    /// name exists.
    pub(super) fn start(path: Option<&Path>) -> anyhow::Result<Option<Self>> {
        let Some(path) = path else { return Ok(None) };
        let (keeper, file) = Keeper::start(path)?;
        Ok(Some(Self { path: path.to_owned(), keeper, file }))
    }

    /// Writes the page if a file was named; without one, and with `--json`, prints the answer.
    pub(super) fn write_or_print(
        page: Option<Self>,
        global: &Global,
        html: impl FnOnce() -> String,
        shown: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        let is_printed = global.json || page.is_none();
        if let Some(page) = page {
            page.write(global, &html())?;
        }
        if is_printed {
            output::print_answer(global, &shown())?;
        }
        Ok(())
    }

    /// Fills the file, gives it its final name, and prints that it was written.
    pub(super) fn write(self, global: &Global, page: &str) -> anyhow::Result<()> {
        let Self { path, keeper, mut file } = self;
        if let Err(error) = file.write_all(page.as_bytes()).and_then(|()| file.sync_all()) {
            return Err(keeper.remove_file(&error));
        }
        keeper.name_file()?;
        if global.json || global.quiet {
            return Ok(());
        }
        let path = Name::from(path.to_string_lossy().as_ref());
        let text = format!("{path}: a page of {}\n", Bytes::new(page.len() as u64));
        output::print_answer(global, &text).map(drop)
    }
}
