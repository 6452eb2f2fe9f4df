// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `/proc/kpagecount` and `/proc/kpageflags` → how often a page frame is mapped, and what kind of page it is.
//!
//! Only root may read them; for everybody else all answers are "not known".

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::open;

/// Bit of `/proc/kpageflags`: KSM merged it.
const KSM: u32 = 21;
/// It is part of a transparent huge page.
const THP: u32 = 22;
/// It is the page of zeros, small or huge.
const ZERO_PAGE: u32 = 24;

/// What the kernel says of each frame, to root.
#[derive(Debug, Default)]
pub struct Frames {
    counts: Option<File>,
    flags: Option<File>,
}

/// A transparent huge page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Huge {
    /// It is the kernel's huge page of zeros.
    pub of_zeros: bool,
}

impl Frames {
    /// Opens both files as far as we may.
    pub fn open() -> Self {
        Self { counts: open::of_proc("kpagecount").ok(), flags: open::of_proc("kpageflags").ok() }
    }

    /// How often it is mapped.
    pub fn mappings(&self, frame: u64) -> Option<u64> {
        word(self.counts.as_ref()?, frame).filter(|count| *count > 0)
    }

    /// Whether KSM merged it.
    pub fn is_merged(&self, frame: u64) -> bool {
        self.flags(frame).is_some_and(|flags| flags >> KSM & 1 == 1)
    }

    /// Whether flags of frames can be read at all.
    pub fn tells_flags(&self) -> bool {
        self.flags.is_some()
    }

    /// The transparent huge page that this frame is a part of.
    pub fn huge(&self, frame: u64) -> Option<Huge> {
        let flags = self.flags(frame).filter(|flags| flags >> THP & 1 == 1)?;
        Some(Huge { of_zeros: flags >> ZERO_PAGE & 1 == 1 })
    }

    fn flags(&self, frame: u64) -> Option<u64> {
        self.flags.as_ref().and_then(|flags| word(flags, frame))
    }
}

fn word(file: &File, index: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, index.checked_mul(8)?).ok()?;
    Some(u64::from_ne_bytes(bytes))
}
