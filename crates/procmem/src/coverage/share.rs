// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures how much of a process's anonymous memory is in huge pages without examining every page.
//!
//! A block is either one huge page or contains no huge page, so that examining its first page is
//! sufficient. If that page is missing, the kernel skips to the next page that is present:
//! untouched address space costs no time, however large it is.

use pagewise_model::{Bytes, MappingKind, Percent};

use pagewise_model::text::kib;

use super::memory::{LookError, Memory, error_for};
use super::pss::{find_field, read_text};
use crate::maps::Mapping;
use crate::scan::{Region, Search, category};

/// How much anonymous memory of a process is in RAM, and how much of it in huge pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// All anonymous memory of the process, as the kernel counts it (`RssAnon`). Some kernels
    /// update this only after some pages per CPU.
    pub anon: Bytes,
    /// The part of it that is mapped as huge pages.
    pub huge: Bytes,
}

impl Share {
    /// Percentage of the anonymous memory that is in huge pages; `None` if there is no anonymous
    /// memory.
    pub fn percent(&self) -> Option<Percent> {
        self.huge.percent_of(self.anon)
    }
}

/// Measures how much anonymous memory of a process is in huge pages. It needs one query for each
/// block that has a page, which takes 0.5 ms per GiB.
///
/// # Errors
/// If the process has exited, or if we may not examine it.
pub fn measure_share(pid: u32, block: u64) -> Result<Share, LookError> {
    let memory = Memory::open(pid, block)?;
    let size =
        |file, key| Ok(find_field(&read_text(pid, file)?, key).and_then(kib).unwrap_or_default());
    let huge =
        if memory.can_scan() { memory.huge()? } else { size("smaps_rollup", b"AnonHugePages:")? };
    let anon = size("status", b"RssAnon:")?.max(huge);
    Ok(Share { anon, huge })
}

impl Memory {
    /// Size of the private anonymous memory in huge pages.
    fn huge(&self) -> Result<Bytes, LookError> {
        let mappings = self.large_mappings()?;
        let anonymous = mappings.iter().filter(|it| it.kind == MappingKind::Anonymous);
        let blocks = anonymous.map(|mapping| self.huge_blocks(mapping)).sum::<Result<u64, _>>();
        let blocks = blocks.map_err(|error| error_for(self.pid, "pagemap", error))?;
        Ok(Bytes::new(blocks * self.block))
    }

    fn huge_blocks(&self, mapping: &Mapping) -> std::io::Result<u64> {
        let (mut at, end) =
            (mapping.start.next_multiple_of(self.block), mapping.end / self.block * self.block);
        let mut huge = 0;
        while at < end {
            let Some(page) = self.first_page(at, end)? else { break };
            let is = |category| page.categories & category != 0;
            huge += u64::from(is(category::HUGE) && !is(category::ZERO_PAGE));
            at = page.start / self.block * self.block + self.block;
        }
        Ok(huge)
    }

    /// Returns the first page of the range that is in RAM or in swap.
    fn first_page(&self, start: u64, end: u64) -> std::io::Result<Option<Region>> {
        use category::{HUGE, PRESENT, SWAPPED, ZERO_PAGE};
        let any_of = PRESENT | SWAPPED;
        let search = Search { start, end, any_of, tell: any_of | HUGE | ZERO_PAGE, most: 1 };
        let mut region = [Region::default()];
        let (found, _) = self.pagemap.scan(search, &mut region)?;
        Ok(region.into_iter().take(found).next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::survey_process;

    /// The result equals that of a scan of every page of this process. It is compared repeatedly,
    /// because other tests may change the memory in between.
    #[test]
    fn blocks_say_what_pages_say() {
        let held = vec![1u8; 64 << 20];
        let own = std::process::id();
        let looks = || {
            let found = measure_share(own, 2 << 20).unwrap();
            (found, survey_process(own, 2 << 20, false).unwrap().coverage.anon_huge)
        };
        let alike = |(found, huge): &(Share, Bytes)| found.huge == *huge;
        let (found, _) = (0..50).map(|_| looks()).find(alike).expect("two looks that say the same");
        assert!(
            found.anon >= Bytes::new(64 << 20) && found.anon >= found.huge,
            "{found:?} {}",
            held[77]
        );
        assert!(found.percent().is_some());
    }

    #[test]
    fn nobody_is_there() {
        assert!(matches!(measure_share(u32::MAX, 2 << 20), Err(LookError::Gone(_))));
    }
}
