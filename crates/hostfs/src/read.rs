// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The interface for reading files of a host: [`ReadHost`].
//!
//! This is a trait so that only crates which depend on this one can read files of a host. `pagewise-observe`
//! re-exports [`HostRoot`](crate::HostRoot) without the trait: code that gets a host from there can only ask for
//! parsed values.

use std::any::Any;
use std::os::fd::OwnedFd;

use pagewise_model::{PartRead, Problem, Reading, Source};
use rustix::fs::OFlags;

use crate::answer::{Entry, Facts, Files, Refusal};
use crate::open_file::OpenFile;
use crate::pieces::Pieces;

/// Reads a host's files. Paths are given without the leading `/`.
pub trait ReadHost: Sized {
    /// This host, which from now on remembers each file that is read, and the result of reading it.
    fn start_remembering(self) -> Self;

    /// The results of reading by path of the file; empty unless [`ReadHost::start_remembering`] was called.
    fn into_remembered_files(self) -> Files;

    /// Clock and page size of the host: current for the live machine, stored for a recording.
    fn facts(&self) -> Facts;

    /// The bytes of a file, at most [`MAX_FILE`](crate::MAX_FILE); a longer one is refused with a
    /// [`Problem`].
    fn bytes(&self, path: &str) -> Result<Vec<u8>, Refusal>;

    /// Opens a small file that will be read often; it is not remembered. `None` if it cannot be
    /// opened or this is not the live machine.
    fn stay_open(&self, path: &str) -> Option<OpenFile>;

    /// Reads a file of which only what `keep` returns may be used or recorded. Applied to its own
    /// result, `keep` must change nothing, so that a recording gives the same result.
    fn excerpt(&self, path: &str, keep: impl FnOnce(&[u8]) -> Vec<u8>) -> Result<Vec<u8>, Refusal>;

    /// Reads a file that is a queue of records: `take` is called with each record on the live
    /// machine, and with all of them at once for a recording. Nothing is remembered: the caller
    /// decides what may be recorded.
    ///
    /// A record that was overwritten before it was read is left out. Each read returns one record,
    /// and the queue may be written faster than it is read, so the number of reads is limited.
    fn records(&self, path: &str, take: impl FnMut(&[u8])) -> Result<(), Refusal>;

    /// The first `length` bytes of a file that is expensive to read completely; fewer if it is
    /// shorter.
    fn head(&self, path: &str, length: usize) -> Result<Vec<u8>, Refusal>;

    /// Whether the file or device at `path` contains `mark` at `offset`. Nothing else of its contents
    /// is kept: a recording has zeros there, and the mark only if it was found.
    fn has_mark_at(&self, path: &str, offset: usize, mark: &[u8]) -> Result<bool, Refusal>;

    /// Opens a regular file of any size to read parts of it. Nothing is remembered: the caller
    /// decides what may be recorded.
    fn pieces(&self, path: &str) -> Result<Pieces<'_>, Refusal>;

    /// Counts and remembers a result that a helper process obtained for `path`.
    fn note(&self, path: &str, answer: &Result<Vec<u8>, Refusal>);

    /// Whether a file or folder exists, even if we may not read it.
    fn exists(&self, path: &str) -> bool;

    /// Whether a file exists, or why not, without opening it: for files that trigger an action when
    /// they are read, or cannot be read. If we may not enter its folder, this is a denial, not an
    /// absence.
    fn presence(&self, path: &str) -> Result<(), Refusal>;

    /// Names in a folder, sorted; empty if it cannot be listed. Names that are not UTF-8 are left
    /// out: the kernel does not create any in the folders that are listed here.
    fn names(&self, folder: &str) -> Vec<String>;

    /// Names of the subfolders of a folder, sorted, links not followed; otherwise as
    /// [`ReadHost::names`]. In a recording these are the names with files below them.
    fn folders(&self, folder: &str) -> Vec<String>;

    /// Opens a folder of the live machine with `flags`; `None` for a recording, which instead
    /// contains what the caller [noted](ReadHost::note).
    fn live_folder(&self, path: &str, flags: OFlags) -> Option<Result<OwnedFd, Refusal>>;

    /// Announces that several files in `folder` will be read, so that on the live machine its path
    /// is resolved only once. Changes no result.
    fn keep_folder_open(&self, folder: &str);

    /// Closes the folders that are kept open on the live machine and forgets cached settings:
    /// before a snapshot, which must not contain older values, and after it.
    fn close_held_folders(&self);

    /// Records that something is not as the kernel writes it, and returns an absence to use
    /// instead.
    fn report_garbled<T>(&self, source: Source, expected: &str, found: &[u8]) -> Reading<T>;

    /// Notes a problem with a file as [`ReadHost::report_garbled`] does, if no value is needed.
    fn problem(&self, source: &Source, expected: &str, found: &[u8]);

    /// Notes that `things` are `found` in number, of which only `read` were read.
    fn beyond_limit(&self, source: &Source, things: &str, found: u64, read: u64, part: PartRead);

    /// Takes the problems noted so far, and leaves none.
    fn take_problems(&self) -> Vec<Problem>;

    /// Takes the number of bytes read so far, and starts again at 0.
    fn take_bytes_read(&self) -> u64;

    /// Remembers `entry` as the result for `path`, unless one is remembered already.
    fn remember(&self, path: &str, entry: impl FnOnce() -> Entry);

    /// A value that a reader computes once for this host, because it does not change while the
    /// kernel runs. A host keeps only one such value: `None` for a second type.
    fn get_or_compute<T: Any + Send>(&self, read: impl FnOnce(&Self) -> T) -> Option<&T>;
}
