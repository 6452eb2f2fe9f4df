// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Locks the code of running programs into memory for as long as a [`CodePin`] exists.
//!
//! The page cache has one page for each part of a file, whichever process maps it. If this process
//! maps and locks a page, the page therefore stays in memory for all programs that map it. Only
//! pages that a program has already mapped are locked. They are in memory, so that nothing is read
//! and memory does not grow; but the kernel can no longer reclaim them.
//!
//! The locked pages are executable pages of files, and read-only pages of the same files
//! (constants, tables). They are opened through `/proc/PID/map_files`, which leads to the mapped
//! file itself, even if another file has its path now (in a container, or after an upgrade).
//! Private copies of such pages (relocated or patched) belong to the program alone and are not
//! locked. The kernel unlocks everything when this process exits, for whatever reason.

mod part;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use pagewise_model::{Bytes, PinnedCode, PinnedFile};
use pagewise_procmem::backing::{Backing, Filesystem, Mapping};
use pagewise_procmem::open::{read_mapped_name, text_of_process};
use pagewise_procmem::pagemap::Pagemap;
use pagewise_procmem::served::MountTable;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use part::{Part, PartKey};

/// The kernel's error if a process does not exist (ESRCH).
const ENDED: i32 = rustix::io::Errno::SRCH.raw_os_error();

/// The code of some processes, locked into memory.
#[derive(Debug)]
pub struct CodePin {
    targets: Vec<(u32, OwnedFd)>,
    budget: Bytes,
    page: u64,
    parts: BTreeMap<PartKey, Part>,
    refused: Option<String>,
    opens_served: bool,
}

impl CodePin {
    /// Creates a pin for those of these processes that are running. Nothing is locked before the
    /// first [`refresh`](Self::refresh).
    ///
    /// # Errors
    /// ESRCH if all processes have exited; otherwise the kernel's error.
    pub fn new(pids: &[u32], budget: Bytes) -> io::Result<Self> {
        let mut targets = Vec::new();
        for &pid in pids {
            match open_pidfd(pid) {
                Ok(process) => targets.push((pid, process)),
                Err(error) if error.raw_os_error() == Some(ENDED) => {}
                Err(error) => return Err(error),
            }
        }
        if targets.is_empty() {
            return Err(io::Error::from_raw_os_error(ENDED));
        }
        let page = rustix::param::page_size() as u64;
        Ok(Self {
            targets,
            budget,
            page,
            parts: BTreeMap::new(),
            refused: None,
            opens_served: false,
        })
    }

    /// Allows to open files that a server provides (NFS, SMB, FUSE), too. If the server does not
    /// answer, this process waits for it and cannot be killed.
    #[must_use]
    pub fn with_served_files(self, opens_served: bool) -> Self {
        Self { opens_served, ..self }
    }

    /// Locks the code that the processes have mapped since the last call, within the budget, and
    /// unlocks the code that no process maps any more.
    ///
    /// # Errors
    /// If the mappings of a running process cannot be read.
    pub fn refresh(&mut self) -> io::Result<PinnedCode> {
        self.targets.retain(|(_, process)| is_running(process));
        self.refused = None;
        let mut mapped = BTreeSet::new();
        let pids: Vec<u32> = self.targets.iter().map(|(pid, _)| *pid).collect();
        for (at, pid) in pids.iter().enumerate() {
            match self.record_mapped_pages(*pid, &mut mapped) {
                Err(error) if self.targets.get(at).is_some_and(|(_, it)| is_running(it)) => {
                    return Err(error);
                }
                // the process has exited in the meantime
                Err(_) | Ok(()) => {}
            }
        }
        self.parts.retain(|key, _| mapped.contains(key));
        self.lock();
        Ok(self.state(pids))
    }

    /// Waits until one of the processes exits or the time is over. A signal ends the wait early.
    pub fn wait(&self, time: Duration) {
        let mut ends: Vec<PollFd<'_>> =
            self.targets.iter().map(|(_, it)| PollFd::new(it, PollFlags::IN)).collect();
        let time = Timespec::try_from(time).ok();
        // whatever ended the wait, the caller checks the state of the processes afterwards
        let _ = poll(&mut ends, time.as_ref());
    }

    /// Records which pages of its code a process has mapped into its page tables.
    fn record_mapped_pages(&mut self, pid: u32, mapped: &mut BTreeSet<PartKey>) -> io::Result<()> {
        let pagemap = Pagemap::open(pid)?;
        let text = text_of_process(pid, "maps")?;
        let (mut mounts, opens_served) = (None, self.opens_served);
        for mapping in find_code(&text) {
            let key = PartKey::new(&mapping, self.page);
            let part = match self.parts.entry(key) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    match Self::open_part(opens_served, pid, &mapping, &key, &mut mounts) {
                        Ok(Some(part)) => new.insert(part),
                        // the mapping is not of a regular file
                        Ok(None) => continue,
                        Err(error) => {
                            self.refused
                                .get_or_insert_with(|| format!("a file of process {pid}: {error}"));
                            continue;
                        }
                    }
                }
            };
            mapped.insert(key);
            part.note_used(&pagemap, mapping.start / self.page)?;
        }
        Ok(())
    }

    /// Opens a part of a file, unless a server would have to answer first.
    fn open_part(
        opens_served: bool,
        pid: u32,
        mapping: &Mapping,
        key: &PartKey,
        mounts: &mut Option<MountTable>,
    ) -> io::Result<Option<Part>> {
        if !opens_served {
            let mounts = mounts.get_or_insert_with(|| MountTable::read_for(pid));
            if let Some(server) = mounts.find_server(pid, mapping) {
                let name = read_mapped_name(pid, mapping)?;
                return Err(io::Error::other(format!(
                    "{name} is not opened: it is in {server}, and a server might not answer \
                     (--served opens it and waits)"
                )));
            }
        }
        Part::open(pid, mapping, key)
    }

    /// Locks used pages until the budget is reached, beginning with the part that has the most used
    /// pages.
    fn lock(&mut self) {
        let held: u64 = self.parts.values().map(Part::locked_pages).sum();
        let mut left = (self.budget.get() / self.page).saturating_sub(held);
        let mut parts: Vec<&mut Part> = self.parts.values_mut().collect();
        parts.sort_by_key(|part| std::cmp::Reverse(part.used_pages()));
        for part in parts {
            if let Err(error) = part.lock(&mut left) {
                self.refused.get_or_insert_with(|| format!("{}: {error}", part.name));
            }
        }
    }

    fn state(&self, processes: Vec<u32>) -> PinnedCode {
        let mut files: BTreeMap<&str, PinnedFile> = BTreeMap::new();
        for part in self.parts.values() {
            let name = part.name.as_str();
            let file = files.entry(name).or_insert_with(|| PinnedFile {
                name: part.name.clone(),
                in_use: Bytes::default(),
                locked: Bytes::default(),
            });
            file.in_use = file.in_use.saturating_add(Bytes::new(part.used_pages() * self.page));
            file.locked = file.locked.saturating_add(Bytes::new(part.locked_pages() * self.page));
        }
        let mut files: Vec<PinnedFile> =
            files.into_values().filter(|it| it.in_use.get() > 0).collect();
        files.sort_by_key(|file| std::cmp::Reverse(file.in_use));
        let sum =
            |of: fn(&PinnedFile) -> Bytes| Bytes::new(files.iter().map(|it| of(it).get()).sum());
        let (in_use, locked) = (sum(|it| it.in_use), sum(|it| it.locked));
        let is_full = locked < in_use && self.refused.is_none();
        let enough = in_use.get().div_ceil(1 << 20);
        let full = || format!("the budget is used up; --budget {enough}M would hold all of it");
        let left_out = self.refused.clone().or_else(|| is_full.then(full));
        PinnedCode { budget: self.budget, locked, in_use, processes, files, left_out }
    }
}

/// Returns the mappings that contain code: mappings that are not writable, of files that have an
/// executable mapping.
fn find_code(maps: &[u8]) -> Vec<Mapping> {
    let lines = maps.split(|&byte| byte == b'\n').filter_map(Mapping::parse);
    let is_file = |it: &Mapping| it.backing(|| Some(Filesystem::Files)) == Backing::File;
    let mut all: Vec<Mapping> =
        lines.filter(|it| it.might_be_device() && is_file(it) && !it.writable).collect();
    let file = |it: &Mapping| (it.device, it.inode);
    let programs: BTreeSet<_> = all.iter().filter(|it| it.executable).map(file).collect();
    all.retain(|it| programs.contains(&file(it)));
    all
}

fn open_pidfd(pid: u32) -> io::Result<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

fn is_running(process: &OwnedFd) -> bool {
    let mut end = [PollFd::new(process, PollFlags::IN)];
    matches!(poll(&mut end, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_what_a_program_or_library_has_and_nobody_writes() {
        let maps =
            b"1000-3000 r--p 00000000 fe:01 7 /bin/a\n3000-5000 r-xp 00002000 fe:01 7 /bin/a\n\
            5000-6000 rw-p 00004000 fe:01 7 /bin/a\n6000-7000 r--p 00000000 fe:01 8 /data\n\
            7000-8000 r-xp 00000000 00:00 0 [vdso]\n8000-9000 r-xp 00000000 00:05 9 /dev/x\n\
            9000-a000 r-xp 00000000 00:00 0 \na000-b000 r-xp 00000000 fe:01 9 /lib/b (deleted)\n";
        let starts: Vec<u64> = find_code(maps).iter().map(|it| it.start).collect();
        assert_eq!(starts, [0x1000, 0x3000, 0xa000]);
    }

    #[test]
    fn our_own_code_is_locked_within_the_budget_and_nothing_of_a_process_that_has_ended() {
        let pid = std::process::id();
        let budget = Bytes::new(256 << 10);
        let mut pin = CodePin::new(&[pid], budget).unwrap();
        match pin.refresh() {
            Ok(held) if rustix::process::geteuid().is_root() => {
                assert_eq!((held.locked, held.processes), (budget, vec![pid]));
                let enough = held.in_use.get().div_ceil(1 << 20);
                let advice = format!("--budget {enough}M");
                assert!(
                    held.in_use > budget && held.left_out.is_some_and(|it| it.contains(&advice))
                );
                // refreshing again locks no more pages
                assert_eq!(pin.refresh().unwrap().locked, budget);
            }
            // only root may open the files
            Ok(held) => assert_eq!(held.locked, Bytes::default()),
            Err(error) => panic!("{error}"),
        }
        let ended = i32::MAX.unsigned_abs();
        assert_eq!(CodePin::new(&[ended], budget).unwrap_err().raw_os_error(), Some(ENDED));
        assert_eq!(CodePin::new(&[ended, pid], budget).unwrap().targets.len(), 1);
    }
}
