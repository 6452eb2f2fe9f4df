// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds with PAGEMAP_SCAN which pages of the calling process are resident, and which of them are
//! huge.

use std::fs::File;
use std::io;

use super::Coverage;
use crate::sys::{self, PAGE_IS_HUGE, PAGE_IS_PFNZERO, PageRegion};

/// Maximum number of regions that one call returns.
const REGIONS: usize = 256;

/// The open `/proc/self/pagemap` of this process. A child by fork() must open the file again,
/// because an open file refers to the parent.
#[derive(Debug)]
pub(crate) struct Scanner(File);

impl Scanner {
    #[expect(clippy::disallowed_methods, reason = "the pagemap of this process")]
    pub(crate) fn open() -> io::Result<Self> {
        File::open("/proc/self/pagemap").map(Self)
    }

    /// Opens a scanner and checks that it works; `None` if the kernel has no PAGEMAP_SCAN.
    pub(super) fn open_if_supported() -> io::Result<Option<Self>> {
        let scanner = Self::open()?;
        match sys::scan_present(&scanner.0, 0, 0, &mut []) {
            Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => Ok(None),
            _ => Ok(Some(scanner)),
        }
    }

    /// Adds to `coverage` how many bytes between two addresses are resident and how many are in
    /// huge pages. Calls `huge` for each range of huge pages.
    pub(super) fn count_pages(
        &self,
        start: u64,
        end: u64,
        coverage: &mut Coverage,
        mut huge: impl FnMut(u64, u64),
    ) -> io::Result<()> {
        let mut regions = [PageRegion::default(); REGIONS];
        let mut at = start;
        while at < end {
            let (found, stopped) = sys::scan_present(&self.0, at, end, &mut regions)?;
            for region in &regions[..found] {
                let bytes = region.end - region.start;
                // The shared zero page takes no memory.
                if region.categories & PAGE_IS_PFNZERO != 0 {
                    continue;
                }
                coverage.resident += bytes;
                if region.categories & PAGE_IS_HUGE != 0 {
                    coverage.huge += bytes;
                    huge(region.start, region.end);
                }
            }
            if stopped <= at {
                return Err(io::ErrorKind::InvalidData.into());
            }
            at = stopped;
        }
        Ok(())
    }

    /// Whether all of a mapping is in huge pages.
    #[cfg(feature = "pool")]
    pub(crate) fn is_huge(&self, mapping: &sys::Mapping) -> io::Result<bool> {
        let (start, bytes) = (mapping.address() as u64, mapping.bytes() as u64);
        let mut coverage = Coverage::default();
        self.count_pages(start, start + bytes, &mut coverage, |_, _| {})?;
        Ok(coverage.huge == bytes)
    }
}
