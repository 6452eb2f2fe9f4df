// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses a line of `/proc/PID/maps` into a [`Mapping`], and determines what kind of memory it is
//! backed by.
//!
//! `pagewise-sample` reads only mappings that certainly consist of memory. All others are left out,
//! because reading through a mapping of a device may access the device's registers, which can have
//! effects. A mapping must therefore be recognised as memory by one of these rules:
//!
//! - anonymous: a mapping without a file that has no name, or a name that is used for heap, stacks
//!   and memory named by programs;
//! - shmem: a file on tmpfs, or on the kernel's internal file system for shared memory (memfd,
//!   System V, shared anonymous memory);
//! - file: a file on a file system that stores files; its private copies are anonymous;
//! - everything else (devices, hugetlb, secret memory, io_uring, the vDSO) is left out.
//!
//! The name of a mapping is examined here, but never printed.

use std::collections::HashMap;

use pagewise_model::text::number;

use crate::maps::{Columns, parse_hexadecimal, split_columns};

/// A mapping: a part of a process's address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    /// First address of the mapping.
    pub start: u64,
    /// First address after the mapping.
    pub end: u64,
    /// Offset in the file at which the mapping starts, in bytes.
    pub offset: u64,
    /// Major and minor device number of the file system.
    pub device: (u32, u32),
    /// Inode number of the mapped file; 0 without a file.
    pub inode: u64,
    /// Whether the process may execute code in the mapping.
    pub executable: bool,
    /// Whether the process may write to the mapping.
    pub writable: bool,
    shared: bool,
    label: Label,
}

/// What the name of a mapping shows about its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    /// No name, or a name that the kernel gives only to memory.
    Memory,
    /// A name that the kernel gives to mappings that are not memory, such as `[vvar]`.
    Kernel,
    /// A private mapping of `/dev/zero`, which is an old way to allocate anonymous memory.
    Zero,
    /// The path of a mapped file.
    File { in_dev: bool, deleted: bool },
}

/// The kind of memory that backs the pages of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backing {
    /// Anonymous memory, which can be reclaimed only by swapping.
    Anonymous,
    /// Shared memory: a file on tmpfs, a memfd, System V or shared anonymous memory.
    Shmem,
    /// A file that a file system stores, so that its pages can be read again.
    File,
    /// Unknown or not memory. Such a mapping must not be read.
    Other,
}

/// The kind of file system that has a certain device number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filesystem {
    /// tmpfs, or the kernel's internal file system for shared memory.
    Shmem,
    /// A file system that stores the data of its files.
    Files,
    /// A file system whose files are not memory.
    Other,
}

impl Mapping {
    /// Parses a line of `/proc/PID/maps`; `None` if the kernel does not write such lines.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let Columns { start, end, rights, offset, device, inode, name } = split_columns(line)?;
        let (major, minor) = device_numbers(device)?;
        let shared = rights.get(3) == Some(&b's');
        let writable = rights.get(1) == Some(&b'w');
        let executable = rights.get(2) == Some(&b'x');
        let label = label_of_name(name, shared);
        let (offset, inode) = (whole_hexadecimal(offset)?, number(inode)?);
        Some(Self {
            start,
            end,
            offset,
            device: (major, minor),
            inode,
            executable,
            writable,
            shared,
            label,
        })
    }

    /// Returns what backs the mapping, if that does not depend on the file system.
    fn backing_without_file_system(&self) -> Option<Backing> {
        match self.label {
            Label::Memory | Label::Zero if self.inode == 0 || self.label == Label::Zero => {
                Some(Backing::Anonymous)
            }
            Label::Kernel => Some(Backing::Other),
            Label::File { in_dev: true, .. } => Some(Backing::Other),
            _ => None,
        }
    }

    /// Returns what backs the mapping. `known` returns the kind of the file system; it is called
    /// only if the result depends on it.
    pub fn backing(&self, known: impl FnOnce() -> Option<Filesystem>) -> Backing {
        if let Some(certain) = self.backing_without_file_system() {
            return certain;
        }
        match known() {
            Some(Filesystem::Shmem) => Backing::Shmem,
            Some(Filesystem::Files) => Backing::File,
            Some(Filesystem::Other) => Backing::Other,
            // the file system is in another mount namespace; the kernel prints files on its
            // internal mounts as deleted
            None => match self.label {
                Label::File { deleted: false, .. } if !self.shared => Backing::File,
                _ => Backing::Other,
            },
        }
    }

    /// Number of the page in the file that is mapped at an address. The same page of a file has the
    /// same number in all mappings.
    pub fn page_of_file(&self, address: u64, page_size: u64) -> u64 {
        self.offset.wrapping_add(address.wrapping_sub(self.start)) / page_size
    }

    /// Whether the file itself must be examined to determine whether it is a device.
    pub fn might_be_device(&self) -> bool {
        self.inode != 0 && matches!(self.label, Label::File { .. })
    }
}

/// Returns what the name of a mapping shows. Programs may give memory any name, even with brackets;
/// the kernel prints such names as `[anon:…]`.
fn label_of_name(name: &[u8], shared: bool) -> Label {
    const MEMORY: [&[u8]; 4] = [b"[heap]", b"[stack", b"[anon:", b"[anon_shmem:"];
    if name.is_empty() || MEMORY.iter().any(|known| name.starts_with(known)) {
        return Label::Memory;
    }
    if name == b"/dev/zero" && !shared {
        return Label::Zero;
    }
    if name.first() != Some(&b'/') {
        return Label::Kernel;
    }
    let deleted = name.ends_with(b" (deleted)");
    Label::File { in_dev: is_in_dev(name, shared, deleted), deleted }
}

/// Whether the path is that of a device: below `/dev`, or below `dev` of another root folder. Two
/// paths are excluded: shared memory in `/dev/shm`, and `/dev/zero (deleted)`, as which the kernel
/// prints shared anonymous memory.
fn is_in_dev(name: &[u8], shared: bool, deleted: bool) -> bool {
    let holds = |part: &[u8]| name.windows(part.len()).any(|window| window == part);
    let in_dev = name.starts_with(b"/dev/") || (shared && holds(b"/dev/"));
    in_dev && !holds(b"/dev/shm/") && !(deleted && name.starts_with(b"/dev/zero "))
}

/// Parses a device number, major and minor, from a form such as `fe:01`.
fn device_numbers(word: &[u8]) -> Option<(u32, u32)> {
    let (major, rest) = parse_hexadecimal(word)?;
    let minor = whole_hexadecimal(rest.strip_prefix(b":")?)?;
    Some((major.try_into().ok()?, minor.try_into().ok()?))
}

fn whole_hexadecimal(word: &[u8]) -> Option<u64> {
    parse_hexadecimal(word).filter(|(_, rest)| rest.is_empty()).map(|(number, _)| number)
}

/// Returns the kinds of the file systems in `/proc/PID/mountinfo`, by device number.
pub fn filesystems(mountinfo: &[u8]) -> HashMap<(u32, u32), Filesystem> {
    let lines = mountinfo.split(|&byte| byte == b'\n').filter_map(parse_mount);
    lines.map(|mount| (mount.device, kind_of_filesystem(mount.kind))).collect()
}

/// A line of `/proc/PID/mountinfo`.
pub(crate) struct Mount<'a> {
    pub(crate) number: u64,
    pub(crate) device: (u32, u32),
    /// The type of the file system.
    pub(crate) kind: &'a str,
}

pub(crate) fn parse_mount(line: &[u8]) -> Option<Mount<'_>> {
    let text = std::str::from_utf8(line).ok()?;
    let mut words = text.split(' ');
    let number = words.next()?.parse().ok()?;
    let (major, minor) = words.nth(1)?.split_once(':')?;
    let kind = text.split_once(" - ")?.1.split(' ').next()?;
    Some(Mount { number, device: (major.parse().ok()?, minor.parse().ok()?), kind })
}

fn kind_of_filesystem(kind: &str) -> Filesystem {
    match kind {
        "tmpfs" => Filesystem::Shmem,
        "sysfs" | "proc" | "devtmpfs" | "hugetlbfs" | "debugfs" | "tracefs" | "securityfs"
        | "pstore" | "efivarfs" | "configfs" | "cgroup" | "cgroup2" | "bpf" | "resctrl" => {
            Filesystem::Other
        }
        _ => Filesystem::Files,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn backing(line: &str, known: Option<Filesystem>) -> Backing {
        Mapping::parse(line.as_bytes()).unwrap().backing(|| known)
    }

    #[test]
    fn a_line_is_addresses_rights_and_a_file() {
        let line = b"7f2b7f200000-7f2b7f400000 r-xp 00028000 fe:01 247741                     /usr/bin/a b";
        let mapping = Mapping::parse(line).unwrap();
        assert_eq!((mapping.start, mapping.end), (0x7f2b_7f20_0000, 0x7f2b_7f40_0000));
        assert_eq!((mapping.offset, mapping.device), (0x28000, (0xfe, 1)));
        assert_eq!(mapping.inode, 247_741);
        assert!(mapping.executable && !mapping.writable);
        assert_eq!(mapping.page_of_file(0x7f2b_7f20_1000, 4096), 0x29);
    }

    #[test]
    fn memory_without_a_file_is_anonymous() {
        for name in ["", "[heap]", "[stack]", "[stack:12]", "[anon:jit /dev/x]"] {
            let line = format!("1000-3000 rw-p 00000000 00:00 0        {name}");
            assert_eq!(backing(&line, None), Backing::Anonymous, "{name}");
        }
        let zero = "1000-3000 rw-p 00000000 00:06 5                 /dev/zero";
        assert_eq!(backing(zero, Some(Filesystem::Other)), Backing::Anonymous);
    }

    #[test]
    fn what_may_be_no_memory_is_left_out() {
        for name in ["[vdso]", "[vvar]", "[vvar_vclock]", "anon_inode:[io_uring]", "[uprobes]"] {
            let line = format!("1000-3000 rw-p 00000000 00:00 0        {name}");
            assert_eq!(backing(&line, None), Backing::Other, "{name}");
        }
        for (kind, name) in [
            ("rw-s", "/dev/mem"),
            ("rw-p", "/dev/mem"),
            ("rw-s", "/srv/root/dev/dri/card0"),
            ("rw-s", "/dev/hugepages/x"),
            ("rw-s", "/secretmem (deleted)"),
            ("rw-p", "/anon_hugepage (deleted)"),
            ("rw-s", "/sys/bus/pci/devices/x/resource0"),
        ] {
            let line = format!("1000-3000 {kind} 00000000 00:0f 99        {name}");
            assert_eq!(backing(&line, None), Backing::Other, "{name}");
        }
    }

    #[test]
    fn shared_memory_is_what_its_file_system_says() {
        for name in
            ["/dev/shm/x", "/memfd:a (deleted)", "/SYSV00000000 (deleted)", "/dev/zero (deleted)"]
        {
            let line = format!("1000-3000 rw-s 00000000 00:01 99        {name}");
            assert_eq!(backing(&line, Some(Filesystem::Shmem)), Backing::Shmem, "{name}");
        }
    }

    #[test]
    fn programs_in_a_folder_called_dev_are_files() {
        let line = "1000-3000 r-xp 00000000 fe:01 99        /home/u/dev/program";
        assert_eq!(backing(line, Some(Filesystem::Files)), Backing::File);
        assert_eq!(backing(line, None), Backing::File, "of another mount namespace");
    }

    #[test]
    fn file_systems_are_known_by_their_device() {
        let known = filesystems(
            b"23 27 0:22 / /sys rw,relatime - sysfs sysfs rw\n25 24 0:23 / /dev/shm rw - tmpfs tmpfs rw\n\
              27 1 254:0 / / rw,relatime - ext4 /dev/root rw\nx 1:2\n\n30 1 0:x / / - a b c\n",
        );
        assert_eq!(known.get(&(0, 22)), Some(&Filesystem::Other));
        assert_eq!(known.get(&(0, 23)), Some(&Filesystem::Shmem));
        assert_eq!(known.get(&(254, 0)), Some(&Filesystem::Files));
        assert_eq!(known.len(), 3);
    }

    #[test]
    fn our_own_maps_are_understood() {
        let text = crate::open::text_of_process(std::process::id(), "maps").unwrap();
        let lines: Vec<&[u8]> =
            text.split(|&byte| byte == b'\n').filter(|l| !l.is_empty()).collect();
        assert!(lines.len() > 5);
        assert!(lines.iter().all(|line| Mapping::parse(line).is_some()));
    }

    proptest! {
        #[test]
        fn garbage_is_no_mapping(line: Vec<u8>, digits in "[0-9a-f]{0,40}") {
            let _ = Mapping::parse(&line).map(|mapping| mapping.backing(|| None));
            let _ = Mapping::parse(format!("{digits}-{digits} rw-p {digits} 0:0 0").as_bytes());
            let _ = filesystems(&line);
        }
    }
}
