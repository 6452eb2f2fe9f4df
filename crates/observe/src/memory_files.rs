// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the usage of each tmpfs, and the deleted tmpfs files that processes keep open, into
//! [`MemoryFiles`].
//!
//! No file of the kernel lists either of them. The usage comes from `statfs`, called once for each memory-backed
//! file system mounted here; a recording stores the answer as `statfs/DEVICE`. A mount point below a file system
//! that is not known to be local is skipped, because resolving its path could block. Mounts in other mount
//! namespaces are not visible.
//!
//! Deleted files are found through the links in `/proc/PID/fd`. The link alone does not give the
//! size, so a recording stores for each file a line with its numbers and its kind, as
//! `proc/PID/fd`. A process may have any number of files open, so this is done only if shmem is a
//! considerable share of RAM, and at most [`OPEN_FILE_LINKS`] links are read. File names are
//! neither kept nor recorded.
//!
//! A file may also be mapped by a process that has no descriptor of it. `/proc/PID/maps` shows
//! device and inode, but not how much of the file exists: that is asked through the links in
//! `/proc/PID/map_files`, which need root. Both take the memory lock of the process, so only the
//! [`MAPPED_SEARCHED`] processes with the most shmem are searched, if a helper process could read the
//! beginning of their maps at once. A recording has the same lines as for open files, as
//! `proc/PID/map_files`. Shared anonymous memory (`/dev/zero`) and System V segments look like such
//! files and are left out.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;

use pagewise_model::{
    Bytes, DeletedFile, DeletedKind, Memory, MemoryFiles, Name, Process, Reading, Source,
    TmpfsMount,
};
use rustix::fs::{AtFlags, Dir, MemfdFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use crate::limits::{DELETED_FILES, MAPPED_SEARCHED, MEMORY_MOUNTS, OPEN_FILE_LINKS};
use crate::mounts::{Mount, Mounts};
use crate::{process, sysv};
use pagewise_hostfs::text::{Line, Text, number};
use pagewise_hostfs::{HostRoot, ReadHost, ReadValues, Refusal, absolute_path};

/// Deleted files are searched if shmem is at least this share of RAM.
const WORTH_PERCENT: f64 = 5.0;
/// Deleted files with fewer blocks of 512 bytes than this are ignored.
const LEAST_BLOCKS: u64 = (1 << 20) / 512;

/// At most this much of the text of one process's maps is read.
const MAPS_BYTES: u64 = 16 << 20;

const NOT_SEARCHED: &str = "more files are open than are searched";

pub(crate) fn read(
    host: &HostRoot,
    mounts: &Mounts,
    memory: &Memory,
    processes: &[Process],
) -> MemoryFiles {
    let all: Vec<&Mount> = mounts.memory_backed_mounts().collect();
    let remote = mounts.remote_mount_points();
    let asked = all.iter().take(MEMORY_MOUNTS);
    let mut files = MemoryFiles {
        mounts: asked.map(|mount| read_tmpfs(host, mount, &remote)).collect(),
        mounts_left_out: all.len().saturating_sub(MEMORY_MOUNTS) as u64,
        ..MemoryFiles::default()
    };
    files.mounts.sort_by_key(|mount| Reverse(mount.used.get()));
    let ramfs = mounts.of_ramfs().take(MEMORY_MOUNTS);
    files.ramfs = ramfs.map(|mount| Name::from(absolute_path(&mount.point).as_str())).collect();
    sysv::read(host, &mut files);
    if is_worth_it(memory) {
        let devices = all.iter().filter_map(|mount| device(&mount.device)).collect();
        search(host, devices, processes, &mut files);
    }
    files
}

fn is_worth_it(memory: &Memory) -> bool {
    let share = memory.shmem.get().zip(memory.total.get());
    let share = share.and_then(|(shmem, total)| shmem.percent_of(total));
    share.is_some_and(|share| share.get() >= WORTH_PERCENT)
}

fn read_tmpfs(host: &HostRoot, mount: &Mount, remote: &HashSet<&str>) -> TmpfsMount {
    let point = absolute_path(&mount.point);
    let source = Source::file(point.as_str());
    let answer = sizes(host, mount, remote);
    let figure = |pick: fn(&Sizes) -> u64| match &answer {
        Ok(sizes) => Reading::found(pick(sizes), source.clone()),
        Err(refusal) => refusal.clone().reading(source.clone()),
    };
    TmpfsMount {
        point: Name::from(point.as_str()),
        used: figure(|sizes| sizes.used.saturating_mul(sizes.block)).map(Bytes::new),
        limit: figure(|sizes| sizes.blocks.saturating_mul(sizes.block)).map(Bytes::new),
        files: figure(|sizes| sizes.files),
    }
}

/// Size and use of a file system, from `statfs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sizes {
    /// Block size of the file system in bytes.
    block: u64,
    /// Total number of blocks of the file system.
    blocks: u64,
    /// Number of blocks of the file system that are in use.
    used: u64,
    /// Number of files and folders (inodes in use).
    files: u64,
}

impl Sizes {
    /// Parses the four numbers of a file system as a recording stores them (block size, blocks,
    /// used blocks, files): `4096 102400 1200 75`.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let numbers: Option<Vec<u64>> = pagewise_hostfs::text::words(bytes).map(number).collect();
        let [block, blocks, used, files] = numbers?.try_into().ok()?;
        Some(Self { block, blocks, used, files })
    }

    fn to_line(self) -> String {
        let Self { block, blocks, used, files } = self;
        format!("{block} {blocks} {used} {files}\n")
    }
}

fn sizes(host: &HostRoot, mount: &Mount, remote: &HashSet<&str>) -> Result<Sizes, Refusal> {
    let path = format!("statfs/{}", mount.device);
    let ancestors = mount.point.match_indices('/').map(|(at, _)| &mount.point[..at]);
    let answer = if ancestors.into_iter().any(|above| remote.contains(above)) {
        Err(Refusal::Absent("below a mount that may not answer".into()))
    } else {
        match host.live_folder(&mount.point, OFlags::PATH) {
            Some(folder) => folder.and_then(|folder| call_statfs(&folder, &mount.device)),
            None => host.bytes(&path),
        }
    };
    if host.is_live() {
        host.note(&path, &answer);
    }
    let garbled = || Refusal::Absent("garbled: expected four numbers".into());
    Sizes::parse(&answer?).ok_or_else(garbled)
}

/// Calls `statfs` for a mount's folder, if that still belongs to the expected device: another file
/// system may have been mounted over it.
fn call_statfs(folder: &OwnedFd, expected: &str) -> Result<Vec<u8>, Refusal> {
    let found = rustix::fs::fstat(folder).map_err(Refusal::from_errno)?;
    if device(expected) != Some(found.st_dev) {
        return Err(Refusal::Absent("another file system is mounted over it".into()));
    }
    let output = rustix::fs::fstatvfs(folder).map_err(Refusal::from_errno)?;
    let sizes = Sizes {
        block: output.f_frsize,
        blocks: output.f_blocks,
        used: output.f_blocks.saturating_sub(output.f_bfree),
        files: output.f_files.saturating_sub(output.f_ffree),
    };
    if sizes.blocks == 0 {
        return Err(Refusal::Absent(
            "mounted without a limit: the kernel counts nothing then".into(),
        ));
    }
    Ok(sizes.to_line().into_bytes())
}

/// Parses a device number: `0:28`.
fn device(numbers: &str) -> Option<u64> {
    let (major, minor) = numbers.split_once(':')?;
    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// A deleted file, as stored in a line of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    descriptor: u32,
    kind: DeletedKind,
    /// Device and inode number, which identify the file.
    identity: (u64, u64),
    blocks: u64,
}

const KINDS: [(DeletedKind, &str); 3] =
    [(DeletedKind::Tmpfs, "tmpfs"), (DeletedKind::Memfd, "memfd"), (DeletedKind::Object, "object")];

impl Found {
    /// Parses `7 memfd 1 1033 524288`.
    fn parse(line: &Line<'_>) -> Option<Self> {
        let mut words = line.words();
        let descriptor = number(words.next()?)?;
        let kind = words.next()?;
        let kind = KINDS.iter().find(|(_, word)| word.as_bytes() == kind)?.0;
        let identity = (number(words.next()?)?, number(words.next()?)?);
        Some(Self { descriptor, kind, identity, blocks: number(words.next()?)? })
    }

    fn to_line(&self) -> String {
        let Self { descriptor, kind, identity: (device, inode), blocks } = self;
        let kind = KINDS.iter().find(|(known, _)| known == kind).map_or("", |(_, word)| word);
        format!("{descriptor} {kind} {device} {inode} {blocks}\n")
    }
}

/// Searches processes for deleted tmpfs files, those with the most shmem mapped first, so that the
/// limit on links cuts the others.
fn search(host: &HostRoot, devices: HashSet<u64>, processes: &[Process], all: &mut MemoryFiles) {
    let mut order: Vec<&Process> = processes.iter().collect();
    order.sort_by_key(|process| (Reverse(process.rss_shmem.get()), process.pid));
    let mut searcher = Searcher { devices, objects: object_device(), left: OPEN_FILE_LINKS };
    let mut known: HashMap<(u64, u64), usize> = HashMap::new();
    let mut found: Vec<(DeletedFile, u32)> = Vec::new();
    // a recording has at most as many lines as links were read
    let (mut open_left, mut mapped_left) = (OPEN_FILE_LINKS, OPEN_FILE_LINKS);
    let most_shmem = order.iter().filter(|process| process.rss_shmem.get() > Some(Bytes::new(0)));
    let with_shmem: Vec<u32> =
        most_shmem.take(MAPPED_SEARCHED).map(|process| process.pid).collect();
    let answering = process::select_with_readable_maps(host, &with_shmem);
    for process in order {
        let text = match searcher.open_files(host, process.pid) {
            Ok(text) => text,
            Err(Refusal::Denied(_)) => {
                all.processes_denied += 1;
                continue;
            }
            Err(Refusal::Absent(why)) => {
                all.processes_left_out += u64::from(why == NOT_SEARCHED);
                continue;
            }
        };
        all.processes_searched += 1;
        let understood = |line: Line<'_>| {
            line.check_parsed(host, "a deleted file in five columns", Found::parse(&line))
        };
        let mapped =
            answering.contains(&process.pid).then(|| searcher.mapped_files(host, process.pid));
        let mapped = mapped.and_then(Result::ok);
        let open = text.first_lines(host, open_left).inspect(|_| open_left -= 1);
        let open = open.filter_map(understood);
        let mapped = mapped.iter().flat_map(|text| text.first_lines(host, mapped_left));
        let mapped: Vec<Line<'_>> = mapped.collect();
        mapped_left -= mapped.len();
        let mapped = mapped.into_iter();
        let mapped = mapped.filter_map(understood).map(|file| (file, true));
        for (file, is_mapped) in open.map(|file| (file, false)).chain(mapped) {
            match known.get(&file.identity).and_then(|&at| found.get_mut(at)) {
                // the process has the file open more than once, or maps it too
                Some((_, last)) if *last == process.pid => {}
                Some((known, last)) => {
                    known.others += 1;
                    *last = process.pid;
                }
                None => {
                    known.insert(file.identity, found.len());
                    found.push((describe_deleted(process, &file, is_mapped), process.pid));
                }
            }
        }
    }
    let mut files: Vec<DeletedFile> = found.into_iter().map(|(file, _)| file).collect();
    files.sort_by_key(|file| (Reverse(file.bytes.get()), file.pid));
    files.truncate(DELETED_FILES);
    all.deleted = files;
}

fn describe_deleted(process: &Process, file: &Found, mapped: bool) -> DeletedFile {
    let (pid, bytes) = (process.pid, Bytes::new(file.blocks.saturating_mul(512)));
    let source = Source::file(if mapped {
        format!("/proc/{pid}/map_files")
    } else {
        format!("/proc/{pid}/fd/{}", file.descriptor)
    });
    DeletedFile {
        kind: file.kind,
        bytes: Reading::found(bytes, source),
        pid,
        process: process.name.clone(),
        others: 0,
        mapped,
    }
}

/// The device number of the kernel's internal tmpfs mount (memfd, shared mappings), which is not in
/// the mount table: determined from a memfd created here.
fn object_device() -> Option<u64> {
    let file = rustix::fs::memfd_create("pagewise", MemfdFlags::CLOEXEC).ok()?;
    Some(rustix::fs::fstat(&file).ok()?.st_dev)
}

struct Searcher {
    devices: HashSet<u64>,
    objects: Option<u64>,
    /// The number of links of open files that may still be read.
    left: usize,
}

impl Searcher {
    /// The deleted tmpfs files that a process has open, one line each.
    fn open_files(&mut self, host: &HostRoot, pid: u32) -> Result<Text, Refusal> {
        let path = format!("proc/{pid}/fd");
        let Some(folder) = host.live_folder(&path, OFlags::RDONLY) else { return host.text(&path) };
        let answer = match self.left {
            0 => Err(Refusal::Absent(NOT_SEARCHED.into())),
            _ => folder.and_then(|folder| self.list(&folder)),
        };
        host.note(&path, &answer);
        answer.map(|bytes| Text::new(&absolute_path(&path), bytes))
    }

    fn list(&mut self, folder: &OwnedFd) -> Result<Vec<u8>, Refusal> {
        let entries = Dir::read_from(folder).map_err(Refusal::from_errno)?;
        let mut lines = String::new();
        for entry in entries.flatten() {
            let Some(descriptor) = number(entry.file_name().to_bytes()) else { continue };
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            // in a folder that may be listed, the links themselves may be denied
            let found = match self.deleted_file(folder, descriptor) {
                Err(errno @ (Errno::ACCESS | Errno::PERM)) => {
                    return Err(Refusal::from_errno(errno));
                }
                other => other.ok().flatten(),
            };
            lines.extend(found.filter(|it| it.blocks >= LEAST_BLOCKS).map(|it| it.to_line()));
        }
        Ok(lines.into_bytes())
    }

    /// What kind of file in memory a deleted file with this path is; `None` if it is on a disk.
    fn kind(&self, device: u64, path: &[u8]) -> Option<DeletedKind> {
        if self.objects == Some(device) {
            let is_memfd = path.starts_with(b"/memfd:");
            Some(if is_memfd { DeletedKind::Memfd } else { DeletedKind::Object })
        } else {
            let is_tmpfs = self.devices.contains(&device) || path.starts_with(b"/dev/shm/");
            is_tmpfs.then_some(DeletedKind::Tmpfs)
        }
    }

    /// The deleted files in memory that a process maps, one line each, with 0 as the descriptor.
    fn mapped_files(&self, host: &HostRoot, pid: u32) -> Result<Text, Refusal> {
        let path = format!("proc/{pid}/map_files");
        let Some(folder) = host.live_folder(&path, OFlags::PATH) else { return host.text(&path) };
        let answer =
            folder.and_then(|folder| self.list_mapped(&folder).map_err(Refusal::from_errno));
        host.note(&path, &answer);
        answer.map(|bytes| Text::new(&absolute_path(&path), bytes))
    }

    #[expect(clippy::disallowed_methods, reason = "a recording has what is kept of the text")]
    fn list_mapped(&self, folder: &OwnedFd) -> Result<Vec<u8>, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let maps = File::from(rustix::fs::openat(folder, "../maps", flags, Mode::empty())?);
        let mut maps = BufReader::new(maps.take(MAPS_BYTES));
        let (mut lines, mut seen) = (String::new(), HashSet::new());
        let mut line = Vec::new();
        while maps.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            let mapping = Mapping::parse(line.trim_ascii_end());
            line.clear();
            let Some(mapping) = mapping else { continue };
            let kind = self.kind(mapping.identity.0, &mapping.path);
            let Some(kind) = kind.filter(|kind| *kind != DeletedKind::Object) else { continue };
            if !seen.insert(mapping.identity) {
                continue;
            }
            let requested = StatxFlags::BLOCKS | StatxFlags::NLINK;
            let file = rustix::fs::statx(
                folder,
                mapping.range.as_str(),
                AtFlags::STATX_DONT_SYNC,
                requested,
            );
            let output = match file {
                // without root no link can be followed
                Err(errno @ (Errno::ACCESS | Errno::PERM)) => return Err(errno),
                // it was unmapped a moment ago
                Err(_) => continue,
                Ok(output) => output,
            };
            if output.stx_nlink == 0 && output.stx_blocks >= LEAST_BLOCKS {
                let (identity, blocks) = (mapping.identity, output.stx_blocks);
                lines += &Found { descriptor: 0, kind, identity, blocks }.to_line();
            }
        }
        Ok(lines.into_bytes())
    }

    /// `statx` uses the attributes that the kernel has cached, so that a network server is never
    /// contacted.
    fn deleted_file(&self, folder: &OwnedFd, descriptor: u32) -> Result<Option<Found>, Errno> {
        let name = descriptor.to_string();
        let link = rustix::fs::readlinkat(folder, name.as_str(), Vec::new())?;
        let Some(path) = link.to_bytes().strip_suffix(b" (deleted)") else { return Ok(None) };
        let requested = StatxFlags::INO | StatxFlags::BLOCKS | StatxFlags::NLINK;
        let output = rustix::fs::statx(folder, name.as_str(), AtFlags::STATX_DONT_SYNC, requested)?;
        // an existing file may have a name that ends in "(deleted)"
        if output.stx_nlink > 0 {
            return Ok(None);
        }
        let device = rustix::fs::makedev(output.stx_dev_major, output.stx_dev_minor);
        let Some(kind) = self.kind(device, path) else { return Ok(None) };
        let identity = (device, output.stx_ino);
        Ok(Some(Found { descriptor, kind, identity, blocks: output.stx_blocks }))
    }
}

/// A mapping of a file without a path, from a line of `/proc/PID/maps`.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    /// The name of its link in `/proc/PID/map_files`.
    range: String,
    /// Device and inode number of the file.
    identity: (u64, u64),
    /// The path that the file had.
    path: Vec<u8>,
}

impl Mapping {
    /// Parses `7f0000000000-7f0000200000 rw-s 00000000 00:1a 1033    /dev/shm/pool (deleted)`;
    /// `None` for all other mappings.
    fn parse(line: &[u8]) -> Option<Self> {
        let line = line.strip_suffix(b" (deleted)")?;
        let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
        let mut words = pagewise_hostfs::text::words(line);
        let mut word = || std::str::from_utf8(words.next()?).ok();
        let (start, end) = word()?.split_once('-')?;
        // maps pads the addresses with zeros, and the links do not
        let range = format!("{:x}-{:x}", hexadecimal(start)?, hexadecimal(end)?);
        let (major, minor) = word().and(word()).and(word())?.split_once(':')?;
        let number_of = |text: &str| u32::from_str_radix(text, 16).ok();
        let device = rustix::fs::makedev(number_of(major)?, number_of(minor)?);
        let inode = word()?.parse().ok()?;
        let path = line.iter().position(|&byte| byte == b'/').and_then(|at| line.get(at..))?;
        Some(Self { range, identity: (device, inode), path: path.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use proptest::prelude::*;

    use super::*;
    use crate::mounts;
    use crate::testing::{denied_entry, file, host, mangle};

    const MOUNTS: &str = "22 1 0:21 / / rw - ext4 /dev/vda rw\n\
        23 22 0:24 / /dev/shm rw - tmpfs tmpfs rw\n\
        24 22 0:25 / /run rw - tmpfs tmpfs rw\n\
        25 24 0:24 / /run/shm rw - tmpfs tmpfs rw\n\
        26 22 0:30 / /home rw - nfs4 server:/home rw\n\
        27 26 0:31 / /home/bob/cache rw - tmpfs tmpfs rw\n";

    /// With a total of 1000 kB, 50 kB of shmem is the threshold of 5 %.
    fn memory(shmem: u64) -> Memory {
        let kib = |kib| Reading::found(Bytes::from_kib(kib).unwrap(), Source::none());
        Memory { total: kib(1000), shmem: kib(shmem), ..Memory::default() }
    }

    fn process(pid: u32) -> Process {
        Process { pid, name: Name::from("sh"), ..Process::default() }
    }

    fn read_of(host: &HostRoot, memory: &Memory, pids: &[u32]) -> MemoryFiles {
        let processes: Vec<Process> = pids.iter().copied().map(process).collect();
        read(host, &mounts::read(host), memory, &processes)
    }

    #[test]
    fn file_systems_in_memory_are_listed_once_and_the_fullest_first() {
        let host = host([
            ("proc/self/mountinfo", MOUNTS),
            ("statfs/0:24", "4096 1000 10 3\n"),
            ("statfs/0:25", "4096 500 200 40\n"),
            ("statfs/0:31", "4096 500 200 40\n"),
        ]);
        let files = read_of(&host, &memory(1), &[]);
        let lines: Vec<_> = files
            .mounts
            .iter()
            .map(|mount| {
                (mount.point.as_str(), mount.used.get().map(Bytes::get), mount.files.get())
            })
            .collect();
        assert_eq!(
            lines,
            [
                ("/run", Some(200 << 12), Some(40)),
                ("/dev/shm", Some(10 << 12), Some(3)),
                ("/home/bob/cache", None, None)
            ]
        );
        assert_eq!(files.mounts[0].limit.get(), Some(Bytes::new(500 << 12)));
        assert_eq!(files.mounts[0].used.source.to_string(), "/run");
        // resolving its path leads through a server that may not answer
        assert!(format!("{:?}", files.mounts[2].used).contains("may not answer"));
        assert_eq!(files.mounts_left_out, 0);
    }

    #[test]
    fn a_recording_without_the_answer_says_so() {
        let host = host([("proc/self/mountinfo", MOUNTS), ("statfs/0:25", "garbage\n")]);
        let files = read_of(&host, &memory(1), &[]);
        assert!(files.mounts.iter().all(|mount| mount.used.value().is_none()));
        assert!(files.mounts.iter().any(|mount| format!("{:?}", mount.used).contains("garbled")));
    }

    const OPEN: &str = "3 tmpfs 24 7 4096\n4 memfd 1 9 2048\n5 tmpfs 24 7 4096\n";

    #[test]
    fn deleted_files_are_counted_once_and_given_to_the_first_that_has_them_open() {
        let entries = [
            file("proc/7/fd", OPEN),
            file("proc/8/fd", "11 tmpfs 24 7 4096\n"),
            file("proc/9/fd", ""),
            denied_entry("proc/10/fd"),
        ];
        let files = read_of(&HostRoot::memory(entries), &memory(50), &[7, 8, 9, 10, 11]);
        let lines: Vec<_> = files
            .deleted
            .iter()
            .map(|file| (file.pid, file.kind, file.bytes.get().map(Bytes::get), file.others))
            .collect();
        assert_eq!(
            lines,
            [(7, DeletedKind::Tmpfs, Some(2 << 20), 1), (7, DeletedKind::Memfd, Some(1 << 20), 0)]
        );
        assert_eq!(files.deleted[0].bytes.source.to_string(), "/proc/7/fd/3");
        assert_eq!((files.processes_searched, files.processes_denied), (3, 1));
    }

    #[test]
    fn a_file_that_is_mapped_and_open_is_counted_once() {
        let entries = [
            file("proc/7/fd", "3 tmpfs 24 7 4096\n"),
            file("proc/7/map_files", "0 tmpfs 24 7 4096\n0 memfd 1 9 6144\n"),
            file("proc/8/fd", ""),
            file("proc/8/map_files", "0 memfd 1 9 6144\n0 tmpfs 24 7 4096\n"),
            file("proc/9/fd", ""),
            denied_entry("proc/9/map_files"),
        ];
        let host = HostRoot::memory(entries);
        let with_shmem = |pid| Process {
            rss_shmem: Reading::found(Bytes::new(1 << 20), Source::none()),
            ..process(pid)
        };
        let processes = [7, 8, 9].map(with_shmem);
        let files = read(&host, &mounts::read(&host), &memory(50), &processes);
        let told: Vec<_> = files
            .deleted
            .iter()
            .map(|it| (it.pid, it.kind, it.bytes.get().map(Bytes::get), it.others, it.mapped))
            .collect();
        assert_eq!(
            told,
            [
                (7, DeletedKind::Memfd, Some(3 << 20), 1, true),
                (7, DeletedKind::Tmpfs, Some(2 << 20), 1, false)
            ]
        );
        assert_eq!(files.deleted[0].bytes.source.to_string(), "/proc/7/map_files");
        assert_eq!((files.processes_searched, files.processes_denied), (3, 0));
        assert_eq!(host.take_problems(), []);
    }

    #[test]
    fn a_mapping_is_known_by_device_and_inode() {
        let line = b"00400000-7f0000200000 rw-s 00000000 00:1a 1033    /dev/shm/a pool (deleted)";
        let expected = Mapping {
            range: "400000-7f0000200000".to_owned(),
            identity: (rustix::fs::makedev(0, 26), 1033),
            path: b"/dev/shm/a pool".to_vec(),
        };
        assert_eq!(Mapping::parse(line), Some(expected));
        for other in [
            "7f0000000000-7f0000200000 rw-s 00000000 00:1a 1033 /dev/shm/pool",
            "7f0000000000-7f0000200000 rw-p 00000000 00:00 0 ",
            "7f0000000000-7f0000200000 rw-s 00000000 00:xx 1033 /dev/shm/pool (deleted)",
            " (deleted)",
        ] {
            assert_eq!(Mapping::parse(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn they_are_not_looked_for_where_there_is_little_shmem() {
        let root = host([("proc/7/fd", OPEN)]);
        let files = read_of(&root, &memory(49), &[7]);
        assert_eq!((files.deleted.len(), files.processes_searched), (0, 0));
    }

    /// Files of this process, as the kernel shows them; runs as any user.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test makes the files that are found")]
    fn a_deleted_file_of_ours_is_found_with_its_size_and_one_with_such_a_name_is_not() {
        const BYTES: u64 = 3 << 20;
        let made = |file: OwnedFd| {
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, BYTES).unwrap();
            file
        };
        let memfd = made(rustix::fs::memfd_create("x", MemfdFlags::CLOEXEC).unwrap());
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let open = |name: &str| {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
            rustix::fs::open(folder.path().join(name), flags, Mode::RUSR).unwrap()
        };
        let deleted = made(open("gone"));
        rustix::fs::unlink(folder.path().join("gone")).unwrap();
        let there = made(open("there (deleted)"));

        let live = HostRoot::live().unwrap().start_remembering();
        let own = rustix::process::getpid().as_raw_nonzero().get().unsigned_abs();
        let files = read_of(&live, &memory(500), &[own]);
        let find = |file: &OwnedFd| {
            let path = format!("/proc/{own}/fd/{}", file.as_raw_fd());
            files.deleted.iter().find(|found| found.bytes.source.path() == path)
        };
        let (memfd, deleted) = (find(&memfd).unwrap(), find(&deleted).unwrap());
        assert_eq!((memfd.kind, memfd.bytes.get()), (DeletedKind::Memfd, Some(Bytes::new(BYTES))));
        assert_eq!(
            (deleted.kind, deleted.bytes.get()),
            (DeletedKind::Tmpfs, Some(Bytes::new(BYTES)))
        );
        assert!(find(&there).is_none());
        let shm = files.mounts.iter().find(|mount| mount.point.as_str() == "/dev/shm");
        if let Some(shm) = shm.and_then(|mount| mount.used.get()) {
            // the usage counts deleted open files as well as named ones
            assert!(shm >= Bytes::new(2 * BYTES), "{shm}");
        }
        assert_eq!(live.take_problems(), []);

        // replaying the recording gives the same result
        let recorded = HostRoot::memory(live.into_remembered_files());
        let replayed = read_of(&recorded, &memory(500), &[own]);
        assert_eq!(format!("{replayed:?}"), format!("{files:?}"));
    }

    /// Deleted files that this process maps and has closed. Root may follow the links of the kernel;
    /// whether we may is asked with one of them.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test makes the files that are found")]
    fn a_deleted_file_that_we_map_and_closed_is_found_if_we_may_follow_links() {
        const BYTES: u64 = 5 << 20;
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = folder.path().join("pool");
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let named = rustix::fs::open(&path, flags, Mode::RUSR).unwrap();
        rustix::fs::unlink(&path).unwrap();
        let memfd = rustix::fs::memfd_create("pool", MemfdFlags::CLOEXEC).unwrap();
        let inodes = [&named, &memfd].map(|file| {
            rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, BYTES).unwrap();
            crate::calls::map_shared(file, usize::try_from(BYTES).unwrap());
            rustix::fs::fstat(file).unwrap().st_ino
        });
        drop((named, memfd));

        let maps = std::fs::read("/proc/self/maps").unwrap();
        let ours = maps.split(|&byte| byte == b'\n').filter_map(Mapping::parse);
        let ours: Vec<Mapping> = ours.filter(|it| inodes.contains(&it.identity.1)).collect();
        assert_eq!(ours.len(), 2, "{ours:?}");
        let may_follow =
            std::fs::metadata(format!("/proc/self/map_files/{}", ours[0].range)).is_ok();

        let live = HostRoot::live().unwrap().start_remembering();
        let own = rustix::process::getpid().as_raw_nonzero().get().unsigned_abs();
        let rss_shmem = Reading::found(Bytes::new(2 * BYTES), Source::none());
        let processes = [Process { rss_shmem, ..process(own) }];
        let files = read(&live, &mounts::read(&live), &memory(500), &processes);
        let mapped = files
            .deleted
            .iter()
            .filter(|it| it.mapped && it.bytes.get() == Some(Bytes::new(BYTES)));
        let kinds: Vec<DeletedKind> = mapped.map(|it| it.kind).collect();
        if may_follow {
            assert_eq!(kinds.len(), 2, "{files:?}");
            assert!(kinds.contains(&DeletedKind::Tmpfs) && kinds.contains(&DeletedKind::Memfd));
        } else {
            assert!(kinds.is_empty(), "{files:?}");
        }
        assert_eq!(live.take_problems(), []);
        let recorded = HostRoot::memory(live.into_remembered_files());
        let replayed = read(&recorded, &mounts::read(&recorded), &memory(500), &processes);
        assert_eq!(format!("{replayed:?}"), format!("{files:?}"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            sizes in mangle("4096 1000 10 3\n"),
            open in mangle(OPEN),
            mountinfo in mangle(MOUNTS),
            maps in mangle("7f00-7f20 rw-s 00000000 00:1a 1033 /dev/shm/pool (deleted)\n"),
        ) {
            maps.split(|&byte| byte == b'\n').for_each(|line| drop(Mapping::parse(line)));
            let entries = [
                file("proc/self/mountinfo", mountinfo),
                file("statfs/0:24", sizes),
                file("proc/7/fd", open),
            ];
            read_of(&HostRoot::memory(entries), &memory(500), &[7]);
        }

        /// A printed line of a recording is parsed back unchanged.
        #[test]
        fn a_printed_line_reads_back(descriptor: u32, kind in 0usize..3, inode: u64, blocks: u64) {
            let found = Found { descriptor, kind: KINDS[kind].0, identity: (24, inode), blocks };
            let text = Text::new("/proc/7/fd", found.to_line().into_bytes());
            prop_assert_eq!(text.lines().next().and_then(|line| Found::parse(&line)), Some(found));
        }
    }
}
