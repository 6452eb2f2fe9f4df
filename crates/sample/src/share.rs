// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A page that several places show → the part of it that one of them accounts for.
//!
//! A fork leaves parent and child with the same private pages, at the same addresses. A population of
//! places would count such a page once for each process, though swap takes it once. So each place that
//! is drawn is given 1/k of its page, where k places of the population show it.
//!
//! With frames (root) the other processes of the target are asked what they show at the same address:
//! a process outside the target changes nothing, since swap takes the page once all the same.
//! `/proc/kpagecount` has the number of all mappings, so that no more are looked for than there are;
//! it alone counts for pages that KSM merged, which may be at any address.
//!
//! Without frames, `smaps` tells of each mapping how much is shared, and the proportional size of it:
//! their quotient is the mean part of its shared pages. That is right for the sum where all sharers
//! are in the target; those outside take their part away.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;

use crate::identity::Identity;
use crate::pagemap::{Entry, Pagemap};
use crate::smaps::{self, Proportions};
use crate::spans::Spans;
use crate::work::locked;
use crate::{PageKind, Sharing, open};

/// Processes that are asked whether they show a page, at most; of more, so many are taken for all.
const MOST_ASKED: usize = 64;
/// Processes that are kept open.
const MOST_OPEN: usize = 256;
/// Bit of `/proc/kpageflags`: KSM merged it.
const KSM: u32 = 21;

/// What all threads use to tell who shares a page.
#[derive(Debug)]
pub(crate) struct Sharers<'a> {
    sharing: Sharing,
    identities: &'a [Identity],
    spans: &'a [Spans],
    kernel: &'a Frames,
    proportions: &'a Mutex<HashMap<usize, Proportions>>,
}

/// What the kernel says of each frame, to root.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    counts: Option<File>,
    flags: Option<File>,
}

impl Frames {
    pub(crate) fn open() -> Self {
        Self { counts: open::of_proc("kpagecount").ok(), flags: open::of_proc("kpageflags").ok() }
    }

    /// How often it is mapped.
    fn mappings(&self, frame: u64) -> Option<u64> {
        word(self.counts.as_ref()?, frame).filter(|count| *count > 0)
    }

    fn is_merged(&self, frame: u64) -> bool {
        let flags = self.flags.as_ref().and_then(|flags| word(flags, frame));
        flags.is_some_and(|flags| flags >> KSM & 1 == 1)
    }
}

fn word(file: &File, index: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, index.checked_mul(8)?).ok()?;
    Some(u64::from_ne_bytes(bytes))
}

/// Processes that one thread has open, by their part.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    open: HashMap<usize, Option<Pagemap>>,
    entries: Vec<Entry>,
    bytes: Vec<u8>,
}

impl Neighbours {
    fn entry(&mut self, part: usize, pid: u32, page: u64) -> Entry {
        if self.open.len() >= MOST_OPEN && !self.open.contains_key(&part) {
            self.open.clear();
        }
        let pagemap = self.open.entry(part).or_insert_with(|| Pagemap::open(pid).ok());
        self.entries.clear();
        let read = pagemap
            .as_ref()
            .and_then(|pagemap| pagemap.read(page, 1, &mut self.entries, &mut self.bytes).ok());
        read.and(self.entries.first()).copied().unwrap_or_default()
    }
}

impl<'a> Sharers<'a> {
    pub(crate) fn new(
        sharing: Sharing,
        identities: &'a [Identity],
        spans: &'a [Spans],
        kernel: &'a Frames,
        proportions: &'a Mutex<HashMap<usize, Proportions>>,
    ) -> Self {
        Self { sharing, identities, spans, kernel, proportions }
    }

    /// What a private page of a part accounts for, which is not exclusively its.
    pub(crate) fn share(
        &self,
        part: usize,
        page: u64,
        frame: Option<u64>,
        neighbours: &mut Neighbours,
    ) -> f64 {
        match (self.sharing, frame) {
            (Sharing::Weighed, Some(frame)) => {
                1.0 / self.places(part, page, frame, neighbours).max(1.0)
            }
            (Sharing::Proportional, _) => self.proportion(part, page),
            _ => 1.0,
        }
    }

    /// Places of the population that show a frame, as far as they have the same address.
    fn places(&self, part: usize, page: u64, frame: u64, neighbours: &mut Neighbours) -> f64 {
        let mappings = self.kernel.mappings(frame);
        let most = mappings.unwrap_or(u64::MAX);
        let candidates: Vec<usize> = (0..self.spans.len())
            .filter(|other| {
                *other != part
                    && self.spans.get(*other).is_some_and(|s| s.may_hold(page, PageKind::Anonymous))
            })
            .collect();
        let step = candidates.len().div_ceil(MOST_ASKED).max(1);
        let (mut found, mut asked) = (0u64, 0u64);
        for other in candidates.iter().step_by(step) {
            if found + 1 >= most {
                break;
            }
            let Some(identity) = self.identities.get(*other) else { continue };
            asked += 1;
            let entry = neighbours.entry(*other, identity.pid, page);
            found += u64::from(entry.frame() == Some(frame));
        }
        if found + 1 < most && self.kernel.is_merged(frame) {
            return mappings.map_or(1.0, |mappings| mappings as f64);
        }
        let of_asked = match step {
            1 => found as f64,
            _ => found as f64 * candidates.len() as f64 / asked.max(1) as f64,
        };
        (1.0 + of_asked).min(most as f64)
    }

    fn proportion(&self, part: usize, page: u64) -> f64 {
        let Some(identity) = self.identities.get(part) else { return 1.0 };
        let mut known = locked(self.proportions);
        let of_part = known.entry(part).or_insert_with(|| smaps::proportions(identity.pid));
        of_part.of_page(page).unwrap_or(1.0)
    }
}
