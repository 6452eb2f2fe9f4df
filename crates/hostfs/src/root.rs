// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a host's files come from: the live machine, a folder, or memory.
//!
//! Paths are given without the leading `/` (`proc/meminfo`); Readings show them with it. Files of a
//! folder may be hostile: every path is resolved inside it (`openat2`), only regular files are
//! read, and at most [`MAX_FILE`] of each.
//!
//! A root can remember everything that is read ([`HostRoot::start_remembering`]). A recording consists of
//! exactly what `observe` read, including refusals, and therefore gives exactly the same results.

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::os::fd::OwnedFd;

use pagewise_model::{Name, PartRead, Problem, Reading, Source};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use crate::answer::{Entry, Facts, Files, Refusal, absolute_path};
use crate::near::Near;
use crate::open_file::OpenFile;
use crate::pieces::Pieces;
use crate::read::ReadHost;
use crate::stored;

/// Maximum number of problems that are kept for one reading of a host.
pub const PROBLEMS: usize = 100;

/// Maximum number of records that are read from a queue such as the kernel log.
pub const RECORDS: usize = 262_144;

/// Maximum number of bytes that are read from one file.
pub const MAX_FILE: usize = 8 << 20;

#[derive(Debug)]
enum Backing {
    /// The open folder `/` of the machine that we run on.
    Live(OwnedFd),
    /// A folder that stands for `/` of the host; not trusted.
    Folder(OwnedFd),
    /// The files of a recording.
    Memory(Files),
}

/// The files of a host, and the problems found while reading them.
#[derive(Debug)]
pub struct HostRoot {
    backing: Backing,
    /// Whether somebody copied some files of the host: what is missing may have been on the host.
    is_copy: bool,
    /// Files of the host that were found inside of texts of a collection; they are used if the
    /// collection lacks the file.
    contained: Files,
    label: Name,
    facts: Option<Facts>,
    bytes_read: Cell<u64>,
    problems: RefCell<Vec<Problem>>,
    memory: Option<RefCell<Files>>,
    kept: OnceCell<Box<dyn Any + Send>>,
    near: RefCell<Near>,
    /// Values of settings of the live machine: a snapshot reads a hundred of them twice or more and
    /// must get the same value each time, as from a recording.
    told: RefCell<HashMap<String, Result<Vec<u8>, Refusal>>>,
    /// The buffer for reads, so that it is not allocated and cleared for each of a thousand files.
    scratch: RefCell<Vec<u8>>,
}

impl HostRoot {
    /// A host whose files are those of the machine that we run on.
    ///
    /// # Errors
    /// If `/` cannot be opened.
    pub fn live() -> std::io::Result<Self> {
        let root = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self::with_backing(Backing::Live(root), Name::from("live"), None))
    }

    /// A host whose files are in a folder that contains `proc` and `sys`.
    ///
    /// # Errors
    /// If the folder cannot be opened.
    pub fn folder(path: &std::path::Path) -> std::io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())?;
        let label = Name::from_bytes(path.as_os_str().as_encoded_bytes());
        let facts = Facts::unknown(None);
        Ok(Self::with_backing(Backing::Folder(root), label, Some(facts)))
    }

    /// Files held in memory, for tests and recordings. The page size is 4 KiB.
    pub fn memory(files: impl IntoIterator<Item = (String, Entry)>) -> Self {
        let facts = Facts::unknown(Some(4096));
        Self::recorded(files.into_iter().collect(), Name::from("memory"), facts)
    }

    pub(crate) fn recorded(files: Files, label: Name, facts: Facts) -> Self {
        Self::with_backing(Backing::Memory(files), label, Some(facts))
    }

    /// The files of a recording; empty for other hosts.
    pub(crate) fn into_files(self) -> Files {
        match self.backing {
            Backing::Memory(files) => files,
            Backing::Live(_) | Backing::Folder(_) => Files::default(),
        }
    }

    /// The same files, marked as a copy of some files of a host; see [`HostRoot::is_copy`].
    pub(crate) fn mark_as_copy(self) -> Self {
        Self { is_copy: true, ..self }
    }

    /// The same host; `contained` is used for files that it lacks.
    pub(crate) fn with_contained(self, contained: Files) -> Self {
        Self { contained, ..self }
    }

    /// Whether these are copies of some files of a host that somebody else collected, so that a
    /// file that is missing may have been on the host.
    pub fn is_copy(&self) -> bool {
        self.is_copy
    }

    fn with_backing(backing: Backing, label: Name, facts: Option<Facts>) -> Self {
        Self {
            is_copy: matches!(backing, Backing::Folder(_)),
            backing,
            contained: Files::default(),
            label,
            facts,
            bytes_read: Cell::new(0),
            problems: RefCell::default(),
            memory: None,
            kept: OnceCell::new(),
            near: RefCell::default(),
            told: RefCell::default(),
            scratch: RefCell::default(),
        }
    }

    /// `live`, or the recording's path.
    pub fn label(&self) -> &Name {
        &self.label
    }

    /// Whether this host is the machine that we run on.
    pub fn is_live(&self) -> bool {
        matches!(self.backing, Backing::Live(_))
    }

    /// Opens a file of a folder or of the live machine, to be read in pieces also when this host is
    /// dropped.
    ///
    /// # Errors
    /// If the file cannot be opened, is not a regular file, or is in memory only.
    pub fn open_pieces(&self, path: &str) -> Result<Pieces<'static>, Refusal> {
        let opened = match &self.backing {
            Backing::Memory(_) => Err(Errno::NOENT),
            Backing::Live(root) => self.open_live(root, path, READ),
            Backing::Folder(root) => open_inside(root, path, READ),
        };
        Ok(Pieces::of_file(opened.and_then(check_regular).map_err(Refusal::from_errno)?))
    }

    /// Some bytes from the middle of a file, which are not remembered.
    fn slice(&self, path: &str, offset: usize, length: usize) -> Result<Vec<u8>, Refusal> {
        let opened = match &self.backing {
            Backing::Memory(files) => {
                return stored::bytes(files, path)
                    .map_err(|refusal| self.refusal_of_stored(refusal))
                    .map(|bytes| bytes.into_iter().skip(offset).take(length).collect());
            }
            Backing::Live(root) => self.open_live(root, path, READ),
            Backing::Folder(root) => open_inside(root, path, READ).and_then(check_regular),
        };
        let bytes = opened.and_then(|file| read_slice(&file, offset, length));
        self.count(bytes.as_ref().map_or(0, Vec::len));
        bytes.map_err(|errno| self.refusal(errno))
    }

    /// The refusal that an error means for a file of this host.
    fn refusal(&self, errno: Errno) -> Refusal {
        match self.backing {
            Backing::Folder(_) => Refusal::from_errno_of_copy(errno),
            Backing::Live(_) | Backing::Memory(_) => Refusal::from_errno(errno),
        }
    }

    /// The refusal that this host gives for a file that is missing in memory: in a copy of some
    /// files, the host may have had it.
    fn refusal_of_stored(&self, refusal: Refusal) -> Refusal {
        if self.is_copy && refusal.is_missing() {
            Refusal::from_errno_of_copy(Errno::NOENT)
        } else {
            refusal
        }
    }

    fn open_live(&self, root: &OwnedFd, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let mut near = self.near.borrow_mut();
        let (from, name) = near.split_at_open_folder(root, path)?;
        rustix::fs::openat(from, name, flags | OFlags::CLOEXEC, Mode::empty())
    }

    fn stat_live(&self, root: &OwnedFd, path: &str) -> Result<Stat, Errno> {
        let mut near = self.near.borrow_mut();
        let (from, name) = near.split_at_open_folder(root, path)?;
        rustix::fs::statat(from, name, AtFlags::empty())
    }

    /// The names of the subfolders of a folder on the live machine. A folder with a link count of
    /// two has none: its second link is its own `.`, and the `..` of each subfolder would be
    /// another. This avoids listing the fifty files of every leaf in the cgroup tree. File systems
    /// without such counts (btrfs) always have a count of one.
    fn folders_live(&self, root: &OwnedFd, folder: &str) -> Result<Vec<String>, Errno> {
        match self.stat_live(root, folder)?.st_nlink {
            2 => Ok(Vec::new()),
            _ => folders_in(&self.open_live(root, folder, LIST)?),
        }
    }

    fn add(&self, problem: Problem) {
        let mut problems = self.problems.borrow_mut();
        if problems.len() < PROBLEMS {
            problems.push(problem);
        }
    }

    fn count(&self, bytes: usize) {
        self.bytes_read.set(self.bytes_read.get().saturating_add(bytes as u64));
    }

    /// The bytes of a file, which count as read. A setting is read only once; later calls get the
    /// same bytes.
    fn read_once(&self, path: &str) -> Result<Vec<u8>, Refusal> {
        let is_kept = self.is_live() && is_setting(path);
        if let Some(answer) = self.told.borrow().get(path).filter(|_| is_kept) {
            return answer.clone();
        }
        let answer = self.fetch(path);
        self.count(answer.as_ref().map_or(0, Vec::len));
        if is_kept && answer.as_ref().map_or(0, Vec::len) < FIRST {
            self.told.borrow_mut().insert(path.to_owned(), answer.clone());
        }
        answer
    }

    fn fetch(&self, path: &str) -> Result<Vec<u8>, Refusal> {
        let answer = self.fetch_file(path);
        match answer {
            Err(refusal) if refusal.is_missing() => {
                stored::bytes(&self.contained, path).map_err(|_| refusal)
            }
            answer => answer,
        }
    }

    fn fetch_file(&self, path: &str) -> Result<Vec<u8>, Refusal> {
        let read = match &self.backing {
            Backing::Memory(files) => {
                return stored::bytes(files, path)
                    .map_err(|refusal| self.refusal_of_stored(refusal));
            }
            Backing::Live(root) => self
                .open_live(root, path, READ)
                .and_then(|file| self.read_capped(&file, is_returned_whole(path))),
            Backing::Folder(root) => open_inside(root, path, READ)
                .and_then(check_regular)
                .and_then(|file| self.read_capped(&file, false)),
        };
        let bytes = read.map_err(|errno| self.refusal(errno))?;
        if bytes.len() <= MAX_FILE {
            return Ok(bytes);
        }
        self.problem(&Source::file(absolute_path(path)), "at most 8 MiB in one file", b"more");
        Err(Refusal::Absent("larger than any file of its kind".into()))
    }
}

impl ReadHost for HostRoot {
    fn start_remembering(mut self) -> Self {
        self.memory = Some(RefCell::default());
        self
    }

    fn into_remembered_files(self) -> Files {
        self.memory.map(RefCell::into_inner).unwrap_or_default()
    }

    fn facts(&self) -> Facts {
        self.facts.unwrap_or_else(live_facts)
    }

    fn bytes(&self, path: &str) -> Result<Vec<u8>, Refusal> {
        let answer = self.read_once(path);
        self.remember(path, || Entry::from_answer(&answer));
        answer
    }

    fn excerpt(&self, path: &str, keep: impl FnOnce(&[u8]) -> Vec<u8>) -> Result<Vec<u8>, Refusal> {
        let answer = self.fetch(path);
        self.count(answer.as_ref().map_or(0, Vec::len));
        let answer = answer.map(|whole| keep(&whole));
        self.remember(path, || Entry::from_answer(&answer));
        answer
    }

    fn records(&self, path: &str, mut take: impl FnMut(&[u8])) -> Result<(), Refusal> {
        let Backing::Live(root) = &self.backing else {
            let whole = self.fetch(path)?;
            self.count(whole.len());
            take(&whole);
            return Ok(());
        };
        let file = self.open_live(root, path, READ).map_err(Refusal::from_errno)?;
        let counted = |raw: &[u8]| {
            self.count(raw.len());
            take(raw);
        };
        if !read_records(&file, counted).map_err(Refusal::from_errno)? {
            self.problem(&Source::file(absolute_path(path)), "fewer than 262,144 records", b"more");
        }
        Ok(())
    }

    fn head(&self, path: &str, length: usize) -> Result<Vec<u8>, Refusal> {
        let answer = self.slice(path, 0, length);
        self.remember(path, || Entry::from_answer(&answer));
        answer
    }

    fn has_mark_at(&self, path: &str, offset: usize, mark: &[u8]) -> Result<bool, Refusal> {
        let answer = self.slice(path, offset, mark.len()).map(|found| found == mark);
        self.remember(path, || match &answer {
            Ok(true) => Entry::File([vec![0; offset.min(MAX_OFFSET)].as_slice(), mark].concat()),
            Ok(false) => Entry::File(vec![0]),
            Err(refusal) => Entry::Refused(refusal.clone()),
        });
        answer
    }

    fn stay_open(&self, path: &str) -> Option<OpenFile> {
        let Backing::Live(root) = &self.backing else { return None };
        self.open_live(root, path, READ).ok().map(OpenFile)
    }

    fn pieces(&self, path: &str) -> Result<Pieces<'_>, Refusal> {
        let opened = match &self.backing {
            Backing::Memory(files) => {
                let stored = stored::borrow(files, path).map(Pieces::of_bytes);
                return stored.map_err(|refusal| self.refusal_of_stored(refusal));
            }
            Backing::Live(root) => self.open_live(root, path, READ),
            Backing::Folder(root) => open_inside(root, path, READ),
        };
        let opened = opened.and_then(check_regular).map_err(Refusal::from_errno)?;
        Ok(Pieces::of_file(opened))
    }

    fn note(&self, path: &str, answer: &Result<Vec<u8>, Refusal>) {
        self.count(answer.as_ref().map_or(0, Vec::len));
        self.remember(path, || Entry::from_answer(answer));
    }

    fn exists(&self, path: &str) -> bool {
        let exists = match &self.backing {
            Backing::Live(root) => self.stat_live(root, path).is_ok(),
            Backing::Folder(root) => open_inside(root, path, OFlags::PATH).is_ok(),
            Backing::Memory(files) => stored::exists(files, path),
        };
        let exists = exists || stored::exists(&self.contained, path);
        if exists {
            self.remember(path, || Entry::File(Vec::new()));
        }
        exists
    }

    fn presence(&self, path: &str) -> Result<(), Refusal> {
        let answer = match &self.backing {
            Backing::Live(root) => {
                self.stat_live(root, path).map(drop).map_err(Refusal::from_errno)
            }
            Backing::Folder(root) => {
                open_inside(root, path, OFlags::PATH).map(drop).map_err(Refusal::from_errno_of_copy)
            }
            Backing::Memory(files) => {
                stored::presence(files, path).map_err(|refusal| self.refusal_of_stored(refusal))
            }
        };
        let answer = match answer {
            Err(refusal) if refusal.is_missing() => {
                stored::presence(&self.contained, path).map_err(|_| refusal)
            }
            answer => answer,
        };
        self.remember(path, || match &answer {
            Ok(()) => Entry::File(Vec::new()),
            Err(refusal) => Entry::Refused(refusal.clone()),
        });
        answer
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let mut names = match &self.backing {
            Backing::Live(root) => list_names(self.open_live(root, folder, LIST)),
            Backing::Folder(root) => list_names(open_inside(root, folder, LIST)),
            Backing::Memory(files) => stored::names(files, folder),
        };
        if !self.contained.is_empty() {
            names.extend(stored::names(&self.contained, folder));
        }
        names.sort_unstable();
        names.dedup();
        names
    }

    fn folders(&self, folder: &str) -> Vec<String> {
        let listed = match &self.backing {
            Backing::Live(root) => self.folders_live(root, folder),
            Backing::Folder(root) => open_inside(root, folder, LIST).and_then(|it| folders_in(&it)),
            Backing::Memory(files) => Ok(stored::folders(files, folder)),
        };
        let mut names = listed.unwrap_or_default();
        if !self.contained.is_empty() {
            names.extend(stored::folders(&self.contained, folder));
        }
        names.sort_unstable();
        names.dedup();
        names
    }

    fn live_folder(&self, path: &str, flags: OFlags) -> Option<Result<OwnedFd, Refusal>> {
        match &self.backing {
            Backing::Live(root) => Some(
                self.open_live(root, path, flags | OFlags::DIRECTORY).map_err(Refusal::from_errno),
            ),
            Backing::Folder(_) | Backing::Memory(_) => None,
        }
    }

    fn keep_folder_open(&self, folder: &str) {
        if let Backing::Live(root) = &self.backing {
            self.near.borrow_mut().hold(root, folder);
        }
    }

    fn close_held_folders(&self) {
        self.near.borrow_mut().forget();
        self.told.borrow_mut().clear();
    }

    fn report_garbled<T>(&self, source: Source, expected: &str, found: &[u8]) -> Reading<T> {
        let problem = Problem::new(&source, expected, found);
        let why = format!("garbled: expected {expected}, found \"{}\"", problem.found);
        self.add(problem);
        Reading::absent(why, source)
    }

    fn problem(&self, source: &Source, expected: &str, found: &[u8]) {
        self.add(Problem::new(source, expected, found));
    }

    fn beyond_limit(&self, source: &Source, things: &str, found: u64, read: u64, part: PartRead) {
        self.add(Problem::beyond_limit(source, things, found, read, part));
    }

    fn take_problems(&self) -> Vec<Problem> {
        self.problems.take()
    }

    fn take_bytes_read(&self) -> u64 {
        self.bytes_read.take()
    }

    fn remember(&self, path: &str, entry: impl FnOnce() -> Entry) {
        let Some(memory) = &self.memory else { return };
        let mut memory = memory.borrow_mut();
        let known_bytes = matches!(memory.get(path), Some(Entry::File(bytes)) if !bytes.is_empty());
        if !known_bytes {
            memory.insert(path.to_owned(), entry());
        }
    }

    fn get_or_compute<T: Any + Send>(&self, read: impl FnOnce(&Self) -> T) -> Option<&T> {
        self.kept.get_or_init(|| Box::new(read(self))).downcast_ref()
    }
}

/// The largest offset of a mark that a recording stores with the zeros before it: the end of a 64
/// KiB page.
const MAX_OFFSET: usize = 64 << 10;

/// Buffer size for one record of a queue, in bytes: longer than any record of the kernel,
/// including its escapes and dictionary.
const MAX_RECORD: usize = 16 << 10;

const READ: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

const LIST: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

fn live_facts() -> Facts {
    let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let monotonic = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let awake = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Facts {
        unix_seconds: unix.map_or(0.0, |elapsed| elapsed.as_secs_f64()),
        monotonic_seconds: monotonic.tv_sec as f64 + monotonic.tv_nsec as f64 / 1e9,
        page_size: Some(rustix::param::page_size() as u64),
        awake_seconds: Some(awake.tv_sec as f64 + awake.tv_nsec as f64 / 1e9),
    }
}

fn open_inside(root: &OwnedFd, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}

fn check_regular(file: OwnedFd) -> Result<OwnedFd, Errno> {
    match FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(file),
        _ => Err(Errno::INVAL),
    }
}

/// Calls `take` with each record that is in a queue now; returns false if there are more than are
/// read. The file must be non-blocking.
pub fn read_records(file: &OwnedFd, mut take: impl FnMut(&[u8])) -> Result<bool, Errno> {
    let mut buffer = vec![0; MAX_RECORD];
    for _ in 0..RECORDS {
        match rustix::io::read(file, &mut buffer) {
            Ok(0) | Err(Errno::AGAIN) => return Ok(true),
            Ok(length) => take(buffer.get(..length).unwrap_or_default()),
            // overwritten, or longer than any record of the kernel: the next read continues after
            // it
            Err(Errno::PIPE | Errno::INTR | Errno::INVAL) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(false)
}

/// Reads `length` bytes from `offset`, without readahead of what comes after them on a device.
fn read_slice(file: &OwnedFd, offset: usize, length: usize) -> Result<Vec<u8>, Errno> {
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Random);
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        match rustix::io::pread(file, &mut bytes[filled..], (offset + filled) as u64) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Size of the first read of a file, in bytes. The kernel allocates as much as is requested, and
/// one byte more for a sysctl: a request of 1 MiB costs a hundred times one of 4 KiB.
pub const FIRST: usize = 4095;

/// Size in bytes above which a buffer is not kept for the next file.
const MOST_KEPT: usize = 64 << 10;

impl HostRoot {
    /// Reads a file to its end, or to one byte beyond [`MAX_FILE`].
    fn read_capped(&self, file: &OwnedFd, comes_whole: bool) -> Result<Vec<u8>, Errno> {
        let mut buffer = self.scratch.borrow_mut();
        if buffer.is_empty() {
            buffer.resize(FIRST, 0);
        }
        let filled = fill(file, &mut buffer, comes_whole)?;
        let bytes = buffer.get(..filled).unwrap_or_default().to_vec();
        if buffer.len() > MOST_KEPT {
            *buffer = Vec::new();
        }
        Ok(bytes)
    }
}

/// Reads into `buffer`, which grows; returns the number of bytes. With `comes_whole`, a read that
/// returns less than requested is the last; otherwise only one that returns nothing.
fn fill(file: &OwnedFd, buffer: &mut Vec<u8>, comes_whole: bool) -> Result<usize, Errno> {
    let mut filled = 0;
    while filled <= MAX_FILE {
        if filled == buffer.len() {
            buffer.resize((filled * 2).min(MAX_FILE + 1), 0);
        }
        match rustix::io::read(file, &mut buffer[filled..]) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno),
        }
        if comes_whole && filled < buffer.len() {
            break;
        }
    }
    Ok(filled)
}

/// Whether a path is that of a setting of the kernel or of a device. Settings of cgroups are not
/// included, because each is read only once.
fn is_setting(path: &str) -> bool {
    match path.split_once('/') {
        Some(("proc", rest)) => rest.starts_with("sys/"),
        Some(("sys", rest)) => !rest.starts_with("fs/") && !rest.starts_with("kernel/debug/"),
        _ => false,
    }
}

/// Whether the kernel returns the whole file in one read: settings, attributes, and files about one
/// process. Of files that are sequences of records (zoneinfo, swaps, debugfs) it returns those that
/// fit into one of its pages, so a short read may not be the end.
pub fn is_returned_whole(path: &str) -> bool {
    let of_process = |rest: &str| {
        let (pid, file) = rest.split_once('/').unwrap_or_default();
        pid.bytes().all(|byte| byte.is_ascii_digit())
            && matches!(file, "status" | "cgroup" | "stat" | "statm")
    };
    match path.split_once('/') {
        Some(("proc", rest)) => rest.starts_with("sys/") || of_process(rest),
        Some(("sys", rest)) => !rest.starts_with("kernel/debug/"),
        _ => false,
    }
}

fn list_names(folder: Result<OwnedFd, Errno>) -> Vec<String> {
    let Ok(entries) = folder.and_then(Dir::new) else { return Vec::new() };
    let names =
        entries.flatten().filter_map(|entry| entry.file_name().to_str().map(str::to_owned).ok());
    names.filter(|name| name != "." && name != "..").collect()
}

fn folders_in(folder: &OwnedFd) -> Result<Vec<String>, Errno> {
    let entries = Dir::read_from(folder)?;
    let folders = entries.flatten().filter(|entry| match entry.file_type() {
        FileType::Unknown => is_folder(folder, entry.file_name()),
        kind => kind == FileType::Directory,
    });
    let names = folders.filter_map(|entry| entry.file_name().to_str().map(str::to_owned).ok());
    Ok(names.filter(|name| name != "." && name != "..").collect())
}

fn is_folder(parent: &OwnedFd, name: &std::ffi::CStr) -> bool {
    rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> HostRoot {
        let file = |path: &str| (path.to_owned(), Entry::File(b"1".to_vec()));
        HostRoot::memory(["g/file", "g/b/file", "g/a/c/file", "gx/file"].map(file))
    }

    /// A folder on disk with the same contents as [`tree`].
    fn tree_on_disk() -> (tempfile::TempDir, HostRoot) {
        let root = tempfile::tempdir().unwrap();
        for path in ["g/a/c", "g/b", "gx"] {
            std::fs::create_dir_all(root.path().join(path)).unwrap();
        }
        std::os::unix::fs::symlink("..", root.path().join("g/loop")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            root.path().join("g/file"),
            FileType::RegularFile,
            Mode::RUSR,
            0,
        )
        .unwrap();
        let host = HostRoot::folder(root.path()).unwrap();
        (root, host)
    }

    #[test]
    fn folders_are_told_from_files_and_links_are_not_followed() {
        let (_kept, on_disk) = tree_on_disk();
        for host in [tree(), on_disk] {
            assert_eq!(host.folders("g"), ["a", "b"], "{}", host.label());
            assert_eq!(host.folders("g/a"), ["c"]);
            assert!(host.folders("g/b").is_empty());
            assert!(host.folders("none").is_empty());
        }
    }

    #[test]
    fn files_of_a_held_folder_answer_what_the_whole_path_would() {
        let host = HostRoot::live().unwrap();
        let paths = ["proc/sys/vm/swappiness", "proc/sys/vm/none", "proc/sys/kernel/osrelease"];
        let before = paths.map(|path| host.bytes(path));
        host.keep_folder_open("proc/sys/vm");
        host.keep_folder_open("proc/none");
        assert_eq!(paths.map(|path| host.bytes(path)), before);
        assert!(before[0].is_ok() && before[1].is_err());
        assert_eq!(host.folders("proc/sys/vm"), HostRoot::live().unwrap().folders("proc/sys/vm"));
        assert!(!host.exists("proc/none/x") && host.exists("proc/sys/vm"));
        assert!(host.presence("proc/sys/vm/swappiness").is_ok());
    }

    /// A setting that differs each time it is read has the same value until the snapshot is
    /// complete.
    #[test]
    fn a_setting_says_the_same_throughout_a_snapshot() {
        let host = HostRoot::live().unwrap();
        let path = "proc/sys/kernel/random/uuid";
        let first = host.bytes(path).unwrap();
        assert_eq!(host.bytes(path).unwrap(), first);
        assert_eq!(host.take_bytes_read(), first.len() as u64);
        assert_eq!(host.bytes("proc/sys/kernel/none"), host.bytes("proc/sys/kernel/none"));
        host.close_held_folders();
        assert_ne!(host.bytes(path).unwrap(), first);
    }

    #[test]
    fn sequences_of_records_are_read_to_their_end() {
        for path in ["proc/zoneinfo", "proc/swaps", "proc/7/smaps", "proc/self/mountinfo"] {
            assert!(!is_returned_whole(path), "{path}");
        }
        assert!(!is_returned_whole("sys/kernel/debug/zsmalloc/zram0/classes"));
        for path in ["proc/sys/vm/swappiness", "proc/7/status", "sys/kernel/mm/ksm/run"] {
            assert!(is_returned_whole(path), "{path}");
        }
    }

    /// The file is larger than the first read, and than the buffer that is kept.
    #[test]
    fn long_files_are_read_to_their_end_and_the_next_is_not_spoiled() {
        let folder = tempfile::tempdir().unwrap();
        let long = (0..200_000u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>();
        for (name, bytes) in [("long", &long[..]), ("exact", &long[..FIRST]), ("short", b"x")] {
            let flags = OFlags::WRONLY | OFlags::CREATE;
            let file = rustix::fs::open(folder.path().join(name), flags, Mode::RUSR).unwrap();
            let mut rest = bytes;
            while !rest.is_empty() {
                rest = &rest[rustix::io::write(&file, rest).unwrap()..];
            }
        }
        let host = HostRoot::folder(folder.path()).unwrap();
        for _ in 0..2 {
            assert!(host.bytes("long").unwrap() == long);
            assert!(host.bytes("exact").unwrap() == long[..FIRST]);
            assert_eq!(host.bytes("short").unwrap(), b"x");
        }
    }

    /// If a folder has copies of some files, a file that is missing in it may have been on the
    /// host.
    #[test]
    fn a_file_that_a_folder_lacks_is_not_absent() {
        let folder = tempfile::tempdir().unwrap();
        let host = HostRoot::folder(folder.path()).unwrap();
        let lacking = Refusal::Denied("not in this recording".into());
        assert_eq!(host.bytes("proc/swaps"), Err(lacking.clone()));
        assert_eq!(host.head("proc/swaps", 4), Err(lacking.clone()));
        assert_eq!(host.presence("proc/swaps"), Err(lacking.clone()));
        assert!(lacking.is_missing());
        let known = HostRoot::memory([]);
        assert_eq!(known.bytes("proc/swaps"), Err(Refusal::Absent(crate::NO_SUCH_FILE.into())));
    }

    /// The shortcut with the link count agrees with examining every entry.
    #[test]
    fn live_folders_are_the_names_that_can_be_listed() {
        let host = HostRoot::live().unwrap();
        for folder in ["sys", "sys/kernel", "sys/kernel/mm", "sys/fs/cgroup"] {
            let naive: Vec<String> = host
                .names(folder)
                .into_iter()
                .filter(|name| {
                    std::fs::symlink_metadata(format!("/{folder}/{name}")).unwrap().is_dir()
                })
                .collect();
            assert_eq!(host.folders(folder), naive, "{folder}");
        }
    }
}
