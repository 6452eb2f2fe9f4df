// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file to swap to: the one thing lent that outlives a boot.
//!
//! After a boot its file system may not be mounted yet. Then the folder that stands in its place is
//! another one, with another number, and the file is not taken for gone.

use pagewise_model::{Bytes, Name};

use crate::error::{Doing, Error};
use crate::hands::{Deed, Hands};
use crate::journal::Loan;
use crate::loan::{OURS, is_ours};
use crate::outcome::Outcome;

/// Of the room in the file system this share stays free: a sixteenth.
const SPARE: u64 = 16;

/// Swap is found again by the path that the kernel prints, so it has to be one that prints plainly.
pub(crate) fn plain(folder: &str) -> Result<(), Error> {
    if Name::from(folder).as_str() == folder {
        return Ok(());
    }
    let why = "expected a path without control characters";
    Err(Error::Absent { what: Name::from(folder).as_str().to_owned(), why })
}

/// What the journal must know before the file is made.
pub(crate) fn announced(
    hands: &dyn Hands,
    folder: &str,
    loan: u64,
    size: Bytes,
) -> Result<Loan, Error> {
    let found = hands.room(folder).doing(|| folder.to_owned())?;
    if size.get() > found.get() - found.get() / SPARE {
        return Err(Error::NoSpace { folder: folder.to_owned(), wanted: size, found });
    }
    let stem = format!("{}/{OURS}swap-{}", folder.trim_end_matches('/'), hands.pid());
    let names = (loan..).map(|n| format!("{stem}-{n}"));
    let path = names.into_iter().find(|path| !hands.exists(path)).unwrap_or(stem);
    Ok(Loan::SwapFile { path, folder_inode: hands.inode(folder).doing(|| folder.to_owned())? })
}

pub(crate) fn make(hands: &mut dyn Hands, path: &str, size: Bytes) -> Result<(), Error> {
    hands.act(&Deed::MakeFile { path, size }).doing(|| format!("{path} ({size})"))
}

pub(crate) fn give_back(hands: &mut dyn Hands, path: &str) -> Result<Outcome, Error> {
    if !is_ours(path) || !hands.exists(path) {
        return Ok(Outcome::Gone);
    }
    hands.act(&Deed::RemoveFile(path)).doing(|| path.to_owned())?;
    Ok(Outcome::Returned)
}

pub(crate) fn give_back_after_boot(
    hands: &mut dyn Hands,
    path: &str,
    folder_inode: u64,
) -> Result<Outcome, Error> {
    let folder = path.rsplit_once('/').map_or("/", |(folder, _)| folder);
    let is_mounted = hands.inode(folder).is_ok_and(|inode| inode == folder_inode);
    if !hands.exists(path) && !is_mounted {
        let why = "the folder is not the one it was: its file system may not be mounted";
        return Err(Error::Absent { what: path.to_owned(), why });
    }
    give_back(hands, path)
}
