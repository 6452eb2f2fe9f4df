// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a host is asked for its files: [`ReadHost`].
//!
//! It is a trait so that a crate must depend on this one to read files of a host. `pagewise-observe` hands
//! [`HostRoot`](crate::HostRoot) on without it: whoever gets a host from there can only ask for nouns.

use std::any::Any;
use std::os::fd::OwnedFd;

use pagewise_model::{Problem, Reading, Source};
use rustix::fs::OFlags;

use crate::answer::{Entry, Facts, Files, Refusal};
use crate::open_file::OpenFile;
use crate::pieces::Pieces;

/// Questions for a host's files. Paths are given below `/` without it.
pub trait ReadHost: Sized {
    /// Remembers from now on every file asked for and what it answered.
    fn remembering(self) -> Self;

    /// Everything remembered, by path; empty unless [`ReadHost::remembering`] was called.
    fn remembered(self) -> Files;

    /// Clock and page size: of this moment for the live machine, as stored for a recording.
    fn facts(&self) -> Facts;

    /// The bytes of a file, at most [`MAX_FILE`](crate::MAX_FILE); a longer one is refused with a [`Problem`].
    fn bytes(&self, path: &str) -> Result<Vec<u8>, Refusal>;

    /// A small file that will be read often, not remembered; `None` if it cannot be opened or this is not the
    /// live machine.
    fn stay_open(&self, path: &str) -> Option<OpenFile>;

    /// A file of which no more than `keep` leaves may be used or recorded. Applied to its own answer,
    /// `keep` must change nothing, so that a recording replays.
    fn excerpt(&self, path: &str, keep: impl FnOnce(&[u8]) -> Vec<u8>) -> Result<Vec<u8>, Refusal>;

    /// A file that is a queue of records: `take` gets a record at a time from the live machine, all of
    /// them at once from a recording. Nothing is remembered: the caller says what may be.
    ///
    /// A record that was overwritten before it was read is left out. Each read gives one record, the
    /// queue may be written to faster than it is read, and so the number of reads is limited.
    fn records(&self, path: &str, take: impl FnMut(&[u8])) -> Result<(), Refusal>;

    /// The first `length` bytes of a file that is costly to read to its end; fewer where it is
    /// shorter.
    fn head(&self, path: &str, length: usize) -> Result<Vec<u8>, Refusal>;

    /// Whether `mark` stands at `offset` of a file. A device may be asked: nothing else of it is kept
    /// or recorded, a recording holds zeros and, where it was found, the mark.
    fn carries(&self, path: &str, offset: usize, mark: &[u8]) -> Result<bool, Refusal>;

    /// A regular file of which pieces are asked for, whatever its size. Nothing of it is remembered: the
    /// caller says what may be.
    fn pieces(&self, path: &str) -> Result<Pieces<'_>, Refusal>;

    /// Counts and remembers what `path` answered to a helper process.
    fn note(&self, path: &str, answer: &Result<Vec<u8>, Refusal>);

    /// Whether there is such a file or folder. Says nothing about the right to read it.
    fn exists(&self, path: &str) -> bool;

    /// Whether a file is there, or why not, without opening it: for files that act when they are
    /// read, or cannot be. A folder that we may not enter is a denial, not an absence.
    fn presence(&self, path: &str) -> Result<(), Refusal>;

    /// Names in a folder, sorted; empty where it cannot be listed. Names that are not UTF-8 are
    /// left out: the kernel makes none in the folders that are listed here.
    fn names(&self, folder: &str) -> Vec<String>;

    /// Names of the folders in a folder, sorted, links not followed; else as
    /// [`ReadHost::names`]. In a recording these are the names with files below them.
    fn folders(&self, folder: &str) -> Vec<String>;

    /// A folder of the live machine, opened with `flags`; `None` for a recording, which holds in its
    /// place what the caller [noted](ReadHost::note).
    fn live_folder(&self, path: &str, flags: OFlags) -> Option<Result<OwnedFd, Refusal>>;

    /// Says that several files right in `folder` will be asked for: on the live machine the way to
    /// it is then gone once and not for each. Changes no answer.
    fn hold(&self, folder: &str);

    /// Lets go of the folders that are held open on the live machine and of what its settings said:
    /// before a snapshot, which is to tell of its own time, and after it.
    fn let_go(&self);

    /// Notes that something is not as the kernel writes it, and answers the absence to go on with.
    fn garbled<T>(&self, source: Source, expected: &str, found: &[u8]) -> Reading<T>;

    /// As [`ReadHost::garbled`], where nothing goes on.
    fn problem(&self, source: &Source, expected: &str, found: &[u8]);

    /// Takes the problems met so far.
    fn take_problems(&self) -> Vec<Problem>;

    /// Takes the number of bytes read so far.
    fn take_bytes_read(&self) -> u64;

    /// Remembers `entry` as what `path` answered, unless its bytes are known already.
    fn remember(&self, path: &str, entry: impl FnOnce() -> Entry);

    /// What a reader makes of this host once, because it does not change while the kernel runs. A host keeps one
    /// such thing: `None` for a second type.
    fn kept<T: Any + Send>(&self, read: impl FnOnce(&Self) -> T) -> Option<&T>;
}
