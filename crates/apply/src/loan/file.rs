// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Creates and removes a swap file, the only kind of loan that survives a reboot.
//!
//! After a reboot its file system may not be mounted yet. Then the folder at its mount point has
//! another inode number, so the file is not taken for removed.

use std::io::ErrorKind;

use pagewise_model::{Bytes, Name};

use crate::error::{Doing, Error};
use crate::host_ops::{HostChange, HostOps, folder_of};
use crate::journal::{Identity, NewSwapFile};
use crate::loan::run::{Boot, OURS, Run, is_ours};
use pagewise_model::undo::Outcome;

/// Part of the name of a swap file that says what kind of file it is.
pub(crate) const KIND: &str = "swap-";

/// Divisor of the free space that must stay free: one sixteenth.
const SPARE: u64 = 16;

/// Refuses a folder whose path needs escapes: swap is found again by the path that the kernel
/// prints.
pub(crate) fn refuse_escapes(folder: &str) -> Result<(), Error> {
    if Name::from(folder).as_str() == folder {
        return Ok(());
    }
    let why = "expected a path without control characters";
    Err(Error::Absent { what: Name::from(folder).as_str().to_owned(), why })
}

/// The record of a new swap file for the journal, written before the file is created.
pub(crate) fn new_file(
    host: &dyn HostOps,
    folder: &str,
    loan: u64,
    size: Bytes,
) -> Result<NewSwapFile, Error> {
    let stem = format!("{}/{OURS}{KIND}{}", folder.trim_end_matches('/'), host.pid());
    let names = (loan..).map(|n| format!("{stem}-{n}"));
    let path = names.into_iter().find(|path| !host.exists(path)).unwrap_or(stem);
    new_file_at(host, &path, size)
}

/// The record for the journal of a file whose path is fixed by a plan.
pub(crate) fn new_file_at(
    host: &dyn HostOps,
    path: &str,
    size: Bytes,
) -> Result<NewSwapFile, Error> {
    let folder = folder_of(path);
    let found = host.free_space(folder).doing(|| folder.to_owned())?;
    if size.get() > found.get() - found.get() / SPARE {
        return Err(Error::NoSpace { folder: folder.to_owned(), requested: size, found });
    }
    let folder_inode = host.inode(folder).doing(|| folder.to_owned())?;
    Ok(NewSwapFile { path: path.to_owned(), folder_inode })
}

/// Creates an empty swap file, which is to be filled later.
pub(crate) fn make(host: &mut dyn HostOps, path: &str) -> Result<Identity, Error> {
    host.make_change(&HostChange::MakeFile(path)).doing(|| path.to_owned())?;
    Ok(host.entry(path).doing(|| path.to_owned())?.identity)
}

/// Fills the swap file with zeros, after the journal has recorded its identity.
pub(crate) fn fill(
    host: &mut dyn HostOps,
    path: &str,
    identity: Identity,
    size: Bytes,
) -> Result<(), Error> {
    host.make_change(&HostChange::FillFile { path, identity, size })
        .doing(|| format!("{path} ({size})"))
}

/// Removes the swap file if it has the identity that the journal recorded.
pub(crate) fn undo(
    host: &mut dyn HostOps,
    file: &NewSwapFile,
    made: Option<Identity>,
    run: Run,
) -> Result<Outcome, Error> {
    let NewSwapFile { path, folder_inode } = file;
    let uncertain =
        |why: &str| Err(Error::Uncertain { what: path.to_owned(), why: why.to_owned() });
    if !is_ours(path, KIND) {
        return uncertain("no run gives a swap file such a name");
    }
    let folder = folder_of(path);
    let is_mounted = host.inode(folder).is_ok_and(|inode| inode == *folder_inode);
    let found = match host.entry(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            if !is_mounted && run.boot != Boot::This {
                let why = "the folder is not the one it was: its file system may not be mounted";
                return Err(Error::Absent { what: path.to_owned(), why });
            }
            return Ok(Outcome::Gone);
        }
        Err(source) => return Err(Error::Kernel { doing: path.to_owned(), source }),
    };
    if !found.is_own_file {
        return uncertain("it is no plain file of ours any more");
    }
    let is_it = match made {
        // a disk may get another device number at the next boot
        Some(made) => {
            found.identity.inode == made.inode
                && (run.boot != Boot::This || found.identity.device == made.device)
        }
        // the file is filled only after the journal has recorded its identity; early versions did
        // not record it
        None => is_mounted && (found.size == 0 || run.is_early),
    };
    if !is_it {
        return uncertain("it is not the file that the run made");
    }
    let identity = found.identity;
    host.make_change(&HostChange::RemoveFile { path, identity }).doing(|| path.to_owned())?;
    Ok(Outcome::Returned)
}
