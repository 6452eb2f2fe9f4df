// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads how often a page frame is mapped and what kind of page it is, from `/proc/kpagecount` and
//! `/proc/kpageflags`.
//!
//! Only root may read these files; for other users, all results are "not known".

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::open;

/// Bit of an entry of `/proc/kpageflags`: the page was merged by KSM.
const KSM: u32 = 21;
/// Bit of an entry of `/proc/kpageflags`: the page is part of a transparent huge page.
const THP: u32 = 22;
/// Bit of an entry of `/proc/kpageflags`: the page is the zero page, small or huge.
const ZERO_PAGE: u32 = 24;

/// The open files with the kernel's description of page frames, if we may read them.
#[derive(Debug, Default)]
pub struct Frames {
    counts: Option<File>,
    flags: Option<File>,
}

/// Describes the transparent huge page that a frame is a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Huge {
    /// Whether the page is the kernel's huge zero page.
    pub of_zeros: bool,
}

impl Frames {
    /// Opens `/proc/kpagecount` and `/proc/kpageflags`, if we may read them.
    pub fn open() -> Self {
        Self {
            counts: open::open_in_proc("kpagecount").ok(),
            flags: open::open_in_proc("kpageflags").ok(),
        }
    }

    /// How often the page in this frame is mapped; `None` if this is not known.
    pub fn mappings(&self, frame: u64) -> Option<u64> {
        word(self.counts.as_ref()?, frame).filter(|count| *count > 0)
    }

    /// Whether KSM merged the page in this frame.
    pub fn is_merged(&self, frame: u64) -> bool {
        self.flags(frame).is_some_and(|flags| flags >> KSM & 1 == 1)
    }

    /// Whether the flags of page frames can be read.
    pub fn can_read_flags(&self) -> bool {
        self.flags.is_some()
    }

    /// The transparent huge page that this frame is a part of; `None` if it is not part of one.
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
