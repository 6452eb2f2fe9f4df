// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the allocator of a command's program, as far as its file shows it.
//!
//! The file is searched for marks: the names of libraries, Go's build information, and symbols that
//! only one allocator has, in case it is linked statically. A script does not show which programs
//! it starts, so it is treated as a dynamically linked program: the variables for glibc and the
//! other allocators do no harm.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use memchr::memmem;

/// Maximum bytes that are read of a program's file.
const MOST: u64 = 256 << 20;

/// The allocator from which a program gets its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Allocator {
    Jemalloc,
    Mimalloc,
    Tcmalloc,
    Go,
    Jvm,
    /// The allocator of glibc, or a script, which may start any program.
    Glibc,
    /// A statically linked program, with an unknown allocator.
    Static,
}

impl Allocator {
    pub(in super::super) const fn name(self) -> &'static str {
        match self {
            Self::Jemalloc => "jemalloc",
            Self::Mimalloc => "mimalloc",
            Self::Tcmalloc => "tcmalloc",
            Self::Go => "Go",
            Self::Jvm => "the JVM",
            Self::Glibc => "glibc",
            Self::Static => "an allocator of its own",
        }
    }
}

/// The program to start.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Program {
    pub(in super::super) allocator: Allocator,
}

pub(in super::super) fn inspect(command: &[String]) -> Program {
    let preloaded = std::env::var("LD_PRELOAD").unwrap_or_default();
    let file = command.first().and_then(|name| find(name)).and_then(|path| read_head(&path));
    let allocator = find_name(preloaded.as_bytes());
    let allocator = allocator.or_else(|| file.as_deref().map(detect_allocator));
    Program { allocator: allocator.unwrap_or(Allocator::Glibc) }
}

/// The file that a shell would start for this name.
fn find(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| is_executable(path))
}

#[expect(clippy::disallowed_methods, reason = "a program that the user named, not the host")]
fn is_executable(path: &Path) -> bool {
    let file = std::fs::File::open(path).and_then(|file| file.metadata());
    file.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[expect(clippy::disallowed_methods, reason = "a program that the user named, not the host")]
fn read_head(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(MOST).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn detect_allocator(file: &[u8]) -> Allocator {
    if !file.starts_with(b"\x7fELF") {
        return Allocator::Glibc;
    }
    let has = |mark: &[u8]| memmem::find(file, mark).is_some();
    if has(b"\xff Go buildinf:") {
        Allocator::Go
    } else if has(b"libjli.so") || has(b"libjvm.so\0") {
        Allocator::Jvm
    } else {
        find_name(file).unwrap_or(if has(b"ld-linux") || has(b"ld-musl") {
            Allocator::Glibc
        } else {
            Allocator::Static
        })
    }
}

/// Recognises an allocator by the names of its library or of symbols that no other allocator has.
fn find_name(bytes: &[u8]) -> Option<Allocator> {
    const MARKS: [(&[u8], Allocator); 6] = [
        (b"libjemalloc.so", Allocator::Jemalloc),
        (b"libmimalloc.so", Allocator::Mimalloc),
        (b"libtcmalloc", Allocator::Tcmalloc),
        (b"<jemalloc>: ", Allocator::Jemalloc),
        (b"mi_heap_malloc_aligned\0", Allocator::Mimalloc),
        (b"TCMALLOC_SAMPLE_PARAMETER\0", Allocator::Tcmalloc),
    ];
    MARKS.iter().find(|(mark, _)| memmem::find(bytes, mark).is_some()).map(|(_, found)| *found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_tell_allocators_apart() {
        let elf = |text: &[u8]| detect_allocator(&[b"\x7fELF...", text].concat());
        assert_eq!(elf(b"/lib64/ld-linux-x86-64.so.2\0libc.so.6\0"), Allocator::Glibc);
        assert_eq!(elf(b"ld-linux-x86-64.so.2\0libjemalloc.so.2\0"), Allocator::Jemalloc);
        assert_eq!(elf(b"nothing"), Allocator::Static);
        assert_eq!(elf(b"\xff Go buildinf:"), Allocator::Go);
        assert_eq!(elf(b"ld-linux libjli.so"), Allocator::Jvm);
        assert_eq!(detect_allocator(b"#!/bin/sh\n"), Allocator::Glibc);
    }

    #[test]
    fn our_own_program_is_found_and_judged() {
        let own = std::env::current_exe().unwrap();
        let program = inspect(&[own.to_str().unwrap().to_owned()]);
        // this test program contains the marks of every allocator as text, so any of them may be
        // found; the test is that inspecting it does not panic
        assert!(!program.allocator.name().is_empty());
        assert!(find("sh").is_some() && find("no-such-program-anywhere").is_none());
    }
}
