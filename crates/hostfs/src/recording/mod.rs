// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings: a folder or a `.tar.zst` file that stands for a host at two times.
//!
//! ```text
//! host.toml             what was recorded, and which files were refused
//! start/proc/meminfo …  the files at the earlier end of the interval
//! end/proc/meminfo …    the files at the later end
//! ```
//!
//! A recording over time additionally has `steps/00001.json` and so on: the changes from each reading to the next;
//! the first step starts from `end` (`step.rs`). [`open`] returns its last two readings; [`open_replay`] returns
//! all of them (`replay.rs`).
//!
//! In an archive, a file with the same contents at both ends is stored once: its second entry is a
//! hard link to the first, so that `tar` unpacks both. A link to anything but an earlier file of
//! the same archive is refused. In a folder, both files are stored.
//!
//! A folder without `host.toml` that contains `proc` stands for one time; its files are read on demand. An archive
//! of such a folder, also inside of one other folder, is read in the same way (`collected.rs`): a file that it
//! lacks was not collected. Files of the host that are inside of other texts, as in a supportconfig, are read from
//! there (`texts.rs`). All other recordings are read into memory first, within limits (`limits.rs`).
//!
//! A recording may come from an untrusted source. What cannot be used is left out and becomes a
//! [`Problem`](pagewise_model::Problem) of the later end; only if nothing can be used is the result an
//! [`OpenError`]. Recordings are written by `pagewise-capture`.

mod archive;
mod collected;
mod ends;
mod error;
mod folder;
mod limits;
mod manifest;
mod parts;
mod problem;
mod replay;
mod step;
mod texts;

use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};

use crate::kind::kind;
use crate::read::ReadHost;
use crate::root::HostRoot;
use parts::Parts;
use texts::{find_contained, may_contain};

pub use collected::is_log;
pub use ends::Ends;
pub use error::OpenError;
pub use limits::{MAX_ENTRIES, MAX_FILE, MAX_SUM};
pub use manifest::{End, FORMAT, Manifest, refusal_text};
pub use parts::stored_path;
pub use replay::Replay;
pub use step::{MAX_STEP, MAX_WORK, Step, is_small_enough};

/// Opens an archive (tar, also packed with zstd, gzip or xz, distinguished by its first bytes);
/// `label` is its name in messages.
///
/// # Errors
/// If nothing in it can be used.
pub fn unpack(bytes: impl Read, label: &str) -> Result<Ends, OpenError> {
    archive::unpack(bytes, Parts::default()).assemble(label)
}

/// Opens an archive as [`unpack`] does, for going from one reading to the next.
///
/// # Errors
/// If nothing in it can be used.
pub fn unpack_replay(bytes: impl Read, label: &str) -> Result<Replay, OpenError> {
    archive::unpack(bytes, Parts::keeping_steps()).replay(label)
}

/// Opens a folder or an archive. `opened` is called after opening and before anything is read; its argument is
/// whether it is a folder, whose files are opened later.
///
/// # Errors
/// If it cannot be opened or is not a recording.
pub fn open(path: &Path, opened: impl FnOnce(bool)) -> Result<Ends, OpenError> {
    let label = path.display().to_string();
    match open_any(path, opened)? {
        Opened::Archive(file) => unpack(file, &label),
        Opened::Folder(folder) => open_folder(path, &folder, &label),
    }
}

/// Opens a folder or an archive as [`open`] does, for going from one reading to the next.
///
/// # Errors
/// The errors of [`open`].
pub fn open_replay(path: &Path, opened: impl FnOnce(bool)) -> Result<Replay, OpenError> {
    let label = path.display().to_string();
    match open_any(path, opened)? {
        Opened::Archive(file) => unpack_replay(file, &label),
        Opened::Folder(folder) => {
            let ends = open_folder(path, &folder, &label)?;
            Ok(Replay::new(ends, Vec::new(), None))
        }
    }
}

/// A recording's opened file or folder.
enum Opened {
    Archive(std::fs::File),
    Folder(OwnedFd),
}

fn open_any(path: &Path, before_reading: impl FnOnce(bool)) -> Result<Opened, OpenError> {
    let trouble =
        |errno: rustix::io::Errno| OpenError::Io { path: path.to_owned(), source: errno.into() };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = rustix::fs::open(path, flags, Mode::empty()).map_err(trouble)?;
    match FileType::from_raw_mode(rustix::fs::fstat(&opened).map_err(trouble)?.st_mode) {
        FileType::RegularFile => {
            before_reading(false);
            Ok(Opened::Archive(opened.into()))
        }
        FileType::Directory => {
            before_reading(true);
            Ok(Opened::Folder(opened))
        }
        other => Err(OpenError::WrongKind { path: path.to_owned(), found: kind(other) }),
    }
}

fn open_folder(path: &Path, opened: &OwnedFd, label: &str) -> Result<Ends, OpenError> {
    if folder::has_entry(opened, manifest::FILE) {
        return folder::load(opened).assemble(label);
    }
    let end =
        HostRoot::folder(path).map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
    let end = with_contained(end);
    if !folder::has_entry(opened, "proc") && !end.exists("proc/meminfo") {
        return Err(OpenError::NoHost { path: path.to_owned() });
    }
    Ok(Ends { start: None, end, first: None })
}

/// Folder of an sosreport with what programs about the kernel printed.
const SOS_KERNEL: &str = "sos_commands/kernel";

/// How many files of a folder are searched for files of the host.
const MAX_TEXTS: usize = 200;

/// Adds to the folder the files of the host that are inside of its texts.
fn with_contained(host: HostRoot) -> HostRoot {
    let at_top = host.names(".").into_iter();
    let of_sos = host.names(SOS_KERNEL).into_iter().map(|name| format!("{SOS_KERNEL}/{name}"));
    let paths = at_top.chain(of_sos).filter(|path| may_contain(path)).take(MAX_TEXTS);
    let mut left = MAX_SUM;
    let mut texts = Vec::new();
    for path in paths {
        let Ok(bytes) = host.bytes(&path) else { continue };
        let Some(rest) = left.checked_sub(bytes.len()) else { break };
        left = rest;
        texts.push((path, bytes));
    }
    let found = find_contained(texts.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice())));
    host.take_problems();
    host.with_contained(found)
}
