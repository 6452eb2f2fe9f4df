// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much of the calling process's memory is in huge pages, by mapping.
//!
//! Private anonymous mappings are read: heaps, stacks, pools. Files and shared memory are left out.
//! PAGEMAP_SCAN (Linux 6.7) shows which pages are resident and huge, in 1 to 4 ms for each GiB of
//! small pages, and much less for huge ones. On older kernels smaps is read, which takes about 12
//! ms for each GiB; [`Process::method`] says which was used.
//!
//! Growth is the cost of huge pages: memory that is resident only because it is in the same huge
//! page as used memory. It is estimated from a sample of pages in huge pages: those that contain
//! only zeros were probably never written.

#![expect(clippy::disallowed_methods, reason = "reads /proc/self")]

mod maps;
mod prometheus;
pub(crate) mod scan;
mod smaps;

use std::{fs, io};

use crate::{Error, machine, sys};
use maps::MapLine;
use scan::Scanner;

/// How much memory is mapped, resident and in huge pages, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Bytes of address space that are mapped.
    pub mapped: u64,
    /// Bytes of `mapped` in whole aligned ranges with the size of a huge page, which could be huge
    /// pages.
    pub eligible: u64,
    /// Bytes of memory that are resident.
    pub resident: u64,
    /// Bytes of resident memory that are in huge pages.
    pub huge: u64,
    /// Number of pages in huge pages that were read to estimate growth.
    pub sampled: u64,
    /// Number of sampled pages that contain only zeros.
    pub zero: u64,
}

impl Coverage {
    /// The share of resident memory that is in huge pages, from 0 to 1; `None` if no memory is
    /// resident.
    pub fn share(&self) -> Option<f64> {
        let share = |part: u64, of: u64| part as f64 / of as f64;
        (self.resident > 0).then(|| share(self.huge, self.resident))
    }

    /// An estimate of the bytes that are resident only because they are in a huge page with pages
    /// that were used; `None` without a sample.
    ///
    /// Pages that the program itself filled with zeros count as well.
    pub fn growth(&self) -> Option<u64> {
        let scaled = u128::from(self.huge) * u128::from(self.zero);
        scaled.checked_div(u128::from(self.sampled)).and_then(|growth| u64::try_from(growth).ok())
    }

    fn add(&mut self, other: &Self) {
        self.mapped += other.mapped;
        self.eligible += other.eligible;
        self.resident += other.resident;
        self.huge += other.huge;
        self.sampled += other.sampled;
        self.zero += other.zero;
    }
}

/// A private anonymous mapping of the process, and how much of it is in huge pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// Name of the mapping: `[heap]`, `[stack]`, `[anon:NAME]` if it was named by prctl(),
    /// otherwise `anonymous`.
    pub name: String,
    /// First address of the mapping.
    pub start: u64,
    /// First address after the mapping.
    pub end: u64,
    /// How much of the mapping is resident and in huge pages.
    pub coverage: Coverage,
}

/// How the memory in huge pages was determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// The memory was scanned with the ioctl PAGEMAP_SCAN of Linux 6.7.
    PagemapScan,
    /// The memory was read from `/proc/self/smaps`: slower, and growth is not estimated.
    Smaps,
}

/// The private anonymous memory of the calling process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The private anonymous mappings in order of address.
    pub mappings: Vec<Mapping>,
    /// How the mappings were read.
    pub method: Method,
}

impl Process {
    /// Reads the mappings. About `samples` pages are read to estimate growth, each about 1 µs; with
    /// 0 growth is not estimated.
    ///
    /// # Errors
    /// [`Error::Unreadable`] if /proc is not mounted or may not be read.
    pub fn read(samples: u32) -> Result<Self, Error> {
        Self::read_files(samples).map_err(|error| Error::unreadable(&error))
    }

    fn read_files(samples: u32) -> io::Result<Self> {
        let huge = machine::huge_page_size().unwrap_or(machine::USUAL_SIZE) as u64;
        let Some(scanner) = Scanner::open_if_supported()? else {
            let mappings = smaps::parse(&fs::read_to_string("/proc/self/smaps")?, huge);
            return Ok(Self { mappings, method: Method::Smaps });
        };
        let text = fs::read_to_string("/proc/self/maps")?;
        let mut mappings = Vec::new();
        let mut ranges = Vec::new();
        for line in text.lines().filter_map(maps::parse_line) {
            let mut mapping = line.to_mapping(huge);
            scanner.count_pages(line.start, line.end, &mut mapping.coverage, |start, end| {
                ranges.push((mappings.len(), start, end));
            })?;
            mappings.push(mapping);
        }
        sample_pages(&mut mappings, &ranges, u64::from(samples));
        Ok(Self { mappings, method: Method::PagemapScan })
    }

    /// The sums over all mappings.
    pub fn total(&self) -> Coverage {
        let mut total = Coverage::default();
        self.mappings.iter().for_each(|mapping| total.add(&mapping.coverage));
        total
    }

    /// The sums over the mappings of each name, as lines in Prometheus's text format.
    pub fn prometheus(&self) -> String {
        prometheus::format_metrics(&self.mappings)
    }
}

impl MapLine<'_> {
    fn to_mapping(&self, huge: u64) -> Mapping {
        let first = self.start.next_multiple_of(huge);
        let last = self.end - self.end % huge;
        let coverage = Coverage {
            mapped: self.end - self.start,
            eligible: last.saturating_sub(first),
            ..Coverage::default()
        };
        Mapping { name: self.name.to_owned(), start: self.start, end: self.end, coverage }
    }
}

/// Reads about `samples` pages of the huge pages in `ranges`, at equal distances, and counts those
/// that contain only zeros. The distance is an odd number of pages, so that the sampled pages are
/// not all at the same offset in their huge page.
fn sample_pages(mappings: &mut [Mapping], ranges: &[(usize, u64, u64)], samples: u64) {
    let page = sys::page_size() as u64;
    let pages: u64 = ranges.iter().map(|(_, start, end)| (end - start) / page).sum();
    let Some(step) = pages.checked_div(samples) else { return };
    let step = step | 1;
    let mut contents = vec![0; sys::page_size()];
    let mut skip = step / 2;
    for (mapping, start, end) in ranges {
        let here = (end - start) / page;
        while skip < here {
            let read = sys::copy_own_memory(start + skip * page, &mut contents);
            let coverage = &mut mappings[*mapping].coverage;
            if read == contents.len() {
                coverage.sampled += 1;
                coverage.zero += u64::from(contents.iter().all(|byte| *byte == 0));
            }
            skip += step;
        }
        skip -= here;
    }
}

/// Counts resident memory and memory in huge pages within ranges of address and length.
#[cfg(feature = "pool")]
pub(crate) fn measure_ranges(mut ranges: Vec<(u64, u64)>) -> io::Result<(Coverage, Method)> {
    let mapped = ranges.iter().map(|(_, bytes)| bytes).sum();
    let mut coverage = Coverage { mapped, eligible: mapped, ..Coverage::default() };
    ranges.sort_unstable();
    let Some(scanner) = Scanner::open_if_supported()? else {
        let text = fs::read_to_string("/proc/self/smaps")?;
        smaps::count_pages(&text, &ranges, &mut coverage);
        return Ok((coverage, Method::Smaps));
    };
    for (start, end) in join_ranges(&ranges) {
        scanner.count_pages(start, end, &mut coverage, |_, _| {})?;
    }
    Ok((coverage, Method::PagemapScan))
}

/// The ranges in ascending order, with adjacent ranges joined, as first address and first address
/// after the range.
#[cfg(feature = "pool")]
fn join_ranges(ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (start, bytes) in ranges {
        match joined.last_mut() {
            Some(last) if last.1 == *start => last.1 += bytes,
            _ => joined.push((*start, start + bytes)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "pool")]
    fn ranges_that_touch_are_read_in_one_call() {
        assert_eq!(join_ranges(&[(0, 2), (2, 3), (7, 1)]), [(0, 5), (7, 8)]);
    }

    #[test]
    fn growth_is_the_share_of_zero_pages_in_the_sample() {
        let coverage = Coverage { huge: 1000, sampled: 10, zero: 3, ..Coverage::default() };
        assert_eq!(coverage.growth(), Some(300));
        assert_eq!(Coverage::default().growth(), None);
        assert_eq!(Coverage::default().share(), None);
    }

    #[test]
    #[cfg(not(miri))]
    fn memory_that_was_written_is_found_resident() {
        let bytes = 8 << 20;
        let memory = vec![1u8; bytes];
        let at = memory.as_ptr().addr() as u64;
        let process = Process::read(0).unwrap();
        let holds = |mapping: &&Mapping| (mapping.start..mapping.end).contains(&at);
        let mapping = process.mappings.iter().find(holds).expect("a mapping");
        assert!(mapping.coverage.resident >= bytes as u64, "{mapping:?}");
        assert!(mapping.coverage.huge <= mapping.coverage.resident);
        assert!(process.total().resident >= mapping.coverage.resident);
    }
}
