// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads from `/proc/PID/smaps` how many pages of each mapping are in RAM or in swap, and the
//! process's proportional share of its shared pages.
//!
//! Reading smaps is expensive (12 ms per resident GiB). It is read in three cases: if pages in a
//! large address space must be found without PAGEMAP_SCAN; for processes that share private pages,
//! if we may not see frame numbers; and for processes whose accessed bits were cleared
//! ([`read_unreferenced`]). The zero page and devices are not included.

use std::collections::HashMap;

use pagewise_model::text::kib;
use pagewise_model::{Bytes, WatchedProcess};

use crate::maps::parse_range;
use crate::open;

/// Number of pages in RAM or in swap for each mapping, by its start address.
pub type Resident = HashMap<u64, u64>;

/// Returns the number of pages in RAM or in swap of each mapping of a process. It is empty if smaps
/// cannot be read; mappings after the size limit of the file are missing.
pub fn read_resident(pid: u32, page_size: u64) -> Resident {
    parse(&open::text_of_process(pid, "smaps").unwrap_or_default(), page_size)
}

fn parse(smaps: &[u8], page_size: u64) -> Resident {
    let mut resident = Resident::new();
    let mut start = None;
    for line in smaps.split(|&byte| byte == b'\n') {
        let size = [&b"Rss:"[..], b"Swap:"].iter().find_map(|name| parse_size(line, name));
        if let (Some(size), Some(start)) = (size, start) {
            let pages = size / page_size.max(1);
            let sum = resident.entry(start).or_insert(0u64);
            *sum = sum.saturating_add(pages);
        } else if let Some((begins, _, _)) = parse_range(line) {
            start = Some(begins);
        }
    }
    resident
}

/// For each mapping with shared pages: how much of such a page is accounted to the process, on
/// average.
#[derive(Debug, Default, PartialEq)]
pub struct Proportions {
    /// For each mapping, in order of address: its first page, the page after its last one, and the
    /// share of a page that is accounted to the process.
    mappings: Vec<(u64, u64, f64)>,
}

impl Proportions {
    /// The share of this page that is accounted to the process; `None` if the mapping is not known
    /// to have shared pages.
    pub fn of_page(&self, page: u64) -> Option<f64> {
        let after = self.mappings.partition_point(|(first, _, _)| *first <= page);
        let (_, end, part) = self.mappings.get(after.checked_sub(1)?)?;
        (page < *end).then_some(*part)
    }
}

/// Reads the process's share of the shared pages in each of its mappings. It is empty if smaps
/// cannot be read.
pub fn read_proportions(pid: u32) -> Proportions {
    let page_size = rustix::param::page_size() as u64;
    parse_proportions(&open::text_of_process(pid, "smaps").unwrap_or_default(), page_size)
}

/// Sizes of a mapping in bytes.
#[derive(Debug, Default, Clone, Copy)]
struct Sizes {
    proportional: u64,
    shared: u64,
    private: u64,
}

impl Sizes {
    /// The share of each shared page that is accounted to this process. Sizes in smaps are rounded
    /// down to KiB, so that the share is slightly too small.
    fn share_of_page(self) -> Option<f64> {
        let of_shared = self.proportional.saturating_sub(self.private) as f64;
        (self.shared > 0).then(|| (of_shared / self.shared as f64).clamp(0.001, 1.0))
    }
}

fn parse_proportions(smaps: &[u8], page_size: u64) -> Proportions {
    let mut proportions = Proportions::default();
    let mut open: Option<((u64, u64), Sizes)> = None;
    let mut close = |mapping: Option<((u64, u64), Sizes)>| {
        let Some(((start, end), sizes)) = mapping else { return };
        let pages = [start, end].map(|address| address / page_size.max(1));
        proportions.mappings.extend(sizes.share_of_page().map(|part| (pages[0], pages[1], part)));
    };
    for line in smaps.split(|&byte| byte == b'\n') {
        if let Some((start, end, _)) = parse_range(line) {
            close(open.replace(((start, end), Sizes::default())));
            continue;
        }
        let Some((_, sizes)) = &mut open else { continue };
        let size = |name: &str| parse_size(line, name.as_bytes());
        let into = [
            (size("Pss:"), &mut sizes.proportional),
            (size("Shared_Clean:").or_else(|| size("Shared_Dirty:")), &mut sizes.shared),
            (size("Private_Clean:").or_else(|| size("Private_Dirty:")), &mut sizes.private),
        ];
        into.into_iter().for_each(|(more, sum)| *sum = sum.saturating_add(more.unwrap_or(0)));
    }
    close(open);
    proportions.mappings.sort_by_key(|(first, _, _)| *first);
    proportions
}

/// Reads how much memory a process has not used since its accessed bits were cleared
/// (`/proc/PID/clear_refs`), in proportional sizes. `Referenced` is a single size for a mapping, in
/// which shared pages count in full; the same share of each kind of memory in the mapping is
/// therefore considered idle. Locked memory is not considered idle. The accessed bit of a huge page
/// applies to all of it. Mappings after the size limit of the file count as used.
///
/// # Errors
/// If the process has exited or the kernel refuses.
pub fn read_unreferenced(pid: u32) -> std::io::Result<WatchedProcess> {
    Ok(WatchedProcess { pid, ..parse_unreferenced(&open::text_of_process(pid, "smaps")?) })
}

/// Sizes of a mapping in bytes, by their names in smaps.
#[derive(Debug, Default, Clone, Copy)]
struct Use {
    is_shmem: bool,
    rss: u64,
    pss: u64,
    referenced: u64,
    anonymous: u64,
    locked: u64,
}

impl Use {
    /// Adds the memory of this mapping to the sums. If the kernel does not report `Referenced`, all
    /// of the memory counts as used.
    fn add_to(self, all: &mut WatchedProcess) {
        let add = |sum: &mut Bytes, more: u64| *sum = sum.saturating_add(Bytes::new(more));
        add(&mut all.looked_at, self.pss);
        let idle = self.part_of_pss(self.rss.saturating_sub(self.referenced), self.pss);
        if self.locked > 0 {
            return;
        }
        let anon = if self.is_shmem { idle } else { self.part_of_pss(self.anonymous, idle) };
        add(&mut all.idle_anon, anon);
        add(&mut all.idle_file, idle - anon);
    }

    /// Returns `of`, multiplied by `part` and divided by the resident size; at most `of`.
    fn part_of_pss(self, part: u64, of: u64) -> u64 {
        let product = u128::from(of) * u128::from(part.min(self.rss));
        u64::try_from(product / u128::from(self.rss.max(1))).unwrap_or(of)
    }
}

fn parse_unreferenced(smaps: &[u8]) -> WatchedProcess {
    let mut all = WatchedProcess::default();
    let mut open: Option<Use> = None;
    for line in smaps.split(|&byte| byte == b'\n') {
        if let Some((_, _, rest)) = parse_range(line) {
            let begun = Use { is_shmem: is_shmem(rest), ..Use::default() };
            open.replace(begun).iter().for_each(|mapping| mapping.add_to(&mut all));
            continue;
        }
        let Some(mapping) = &mut open else { continue };
        let into = [
            (&b"Rss:"[..], &mut mapping.rss),
            (&b"Pss:"[..], &mut mapping.pss),
            (&b"Referenced:"[..], &mut mapping.referenced),
            (&b"Anonymous:"[..], &mut mapping.anonymous),
            (&b"Locked:"[..], &mut mapping.locked),
        ];
        let found = into.into_iter().find_map(|(name, to)| Some((parse_size(line, name)?, to)));
        if let Some((size, to)) = found {
            *to = size;
        }
    }
    open.iter().for_each(|mapping| mapping.add_to(&mut all));
    all
}

/// Whether the file of a mapping is shared memory (shmem), judged by its name.
fn is_shmem(line: &[u8]) -> bool {
    const NAMES: [&[u8]; 4] = [b"/dev/shm/", b"/memfd:", b"/SYSV", b"/dev/zero"];
    let name = line.iter().position(|&byte| byte == b'/').map_or(&[][..], |at| &line[at..]);
    NAMES.iter().any(|known| name.starts_with(known))
}

/// Parses a line such as `Rss:                  84 kB` with `name` `Rss:`; returns bytes.
fn parse_size(line: &[u8], name: &[u8]) -> Option<u64> {
    kib(line.strip_prefix(name)?.trim_ascii()).map(Bytes::get)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TWO: &[u8] = b"55d0c6a00000-55d0c6a21000 rw-p 00000000 00:00 0                          [heap]\n\
        Size:                132 kB\nKernelPageSize:        4 kB\nRss:                  84 kB\n\
        Pss:                  84 kB\nSwap:                 12 kB\nSwapPss:              12 kB\n\
        VmFlags: rd wr mr mw me ac sd\n\
        7f0000000000-7f1000000000 ---p 00000000 00:00 0\nRss:                   0 kB\nSwap:                  0 kB\n";

    #[test]
    fn resident_and_swapped_pages_are_added_up() {
        let resident = parse(TWO, 4096);
        assert_eq!(resident.get(&0x55d0_c6a0_0000), Some(&24));
        assert_eq!(resident.get(&0x7f00_0000_0000), Some(&0));
        assert_eq!(resident.len(), 2);
    }

    /// If 8 MiB are shared by two processes and 1 MiB is private, half of each shared page is
    /// accounted to the process.
    #[test]
    fn a_shared_page_is_divided_by_its_sharers() {
        let of = |proportional: u64, shared: [u64; 2], private: [u64; 2]| {
            format!(
                "1000-9001000 rw-p 00000000 00:00 0 [heap]\nPss: {proportional} kB\nPss_Dirty: 9 kB\n\
                 Shared_Clean: {} kB\nShared_Dirty: {} kB\nPrivate_Clean: {} kB\nPrivate_Dirty: {} kB\n",
                shared[0], shared[1], private[0], private[1]
            )
        };
        let parsed = parse_proportions(of(5120, [4096, 4096], [0, 1024]).as_bytes(), 4096);
        assert_eq!(parsed.of_page(1), Some(0.5));
        assert_eq!(parsed.of_page(0x9000), Some(0.5));
        assert_eq!((parsed.of_page(0), parsed.of_page(0x9001)), (None, None));
        let none = parse_proportions(of(1024, [0, 0], [0, 1024]).as_bytes(), 4096);
        assert_eq!(none.of_page(1), None);
        let two = [of(5120, [4096, 4096], [0, 1024]), of(8, [0, 0], [8, 0])].concat();
        assert_eq!(parse_proportions(two.as_bytes(), 4096), parsed);
    }

    proptest! {
        #[test]
        fn garbage_is_harmless(text: Vec<u8>, digits in "[0-9]{0,40}") {
            let _ = parse(&text, 4096);
            let _ = parse_proportions(&text, 4096);
            let _ = parse_proportions(format!("{digits}-1 x\nPss: {digits} kB\nShared_Clean: {digits} kB").as_bytes(), 0);
            let _ = parse(format!("{digits}-1 x\nRss: {digits} kB\nSwap: {digits} kB").as_bytes(), 0);
        }
    }

    fn mapping(name: &str, sizes: [u64; 5]) -> String {
        let [rss, pss, referenced, anonymous, locked] = sizes;
        format!(
            "1000-9001000 rw-p 00000000 00:00 0 {name}\nRss: {rss} kB\nPss: {pss} kB\nPss_Dirty: 1 kB\n\
             Referenced: {referenced} kB\nAnonymous: {anonymous} kB\nLocked: {locked} kB\n"
        )
    }

    #[test]
    fn what_was_not_referenced_is_idle_by_its_kind() {
        let kib = |of: WatchedProcess| {
            [of.looked_at, of.idle_anon, of.idle_file].map(|it| it.get() >> 10)
        };
        let read = |name, sizes| kib(parse_unreferenced(mapping(name, sizes).as_bytes()));
        assert_eq!(read("[heap]", [1000, 1000, 400, 1000, 0]), [1000, 600, 0]);
        // two processes map the file, so half of it is accounted to this process
        assert_eq!(read("/usr/lib/x", [1000, 500, 200, 0, 0]), [500, 0, 400]);
        // a private mapping of a file, of which the process has written a quarter
        assert_eq!(read("/usr/lib/x", [1000, 1000, 0, 250, 0]), [1000, 250, 750]);
        assert_eq!(read("/memfd:x (deleted)", [1000, 1000, 500, 0, 0]), [1000, 500, 0]);
        assert_eq!(read("[heap]", [1000, 1000, 0, 1000, 1000]), [1000, 0, 0]);
        let two = mapping("[heap]", [8, 8, 0, 8, 0]) + &mapping("/a", [4, 4, 4, 0, 0]);
        assert_eq!(kib(parse_unreferenced(two.as_bytes())), [12, 8, 0]);
    }

    proptest! {
        /// Whatever the file contains, idle memory is not more than the examined memory.
        #[test]
        fn idle_memory_is_never_more_than_there_is(
            sizes in any::<[u32; 5]>(), noise in proptest::collection::vec(any::<u8>(), 0..99),
        ) {
            let mut text = mapping("[heap]", sizes.map(u64::from)).into_bytes();
            text.extend(noise);
            let read = parse_unreferenced(&text);
            prop_assert!(read.idle_anon.saturating_add(read.idle_file) <= read.looked_at);
        }
    }
}
