// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes the [`ProcessCoverage`] of a process, mapping by mapping.

use std::cmp::Reverse;
use std::time::Instant;

use pagewise_model::{
    Blocks, Bytes, Coverage, MappingCoverage, MappingKind, Name, ProcessCoverage, Reading,
    ScanMethod, Source,
};

use super::blocks::count_blocks;
use super::memory::{LookError, Memory};
use crate::maps::Mapping;

/// Number of mappings that the result lists, the largest first.
const LARGEST: usize = 20;

/// Examines how much of a process's memory is in huge pages. If `detailed` is true, smaps is read
/// as well, at 12 ms per GiB of base pages: only smaps says for which mappings huge pages would be
/// used and were requested.
///
/// # Errors
/// If the process has exited, or if we may not examine it.
pub fn survey_process(pid: u32, block: u64, detailed: bool) -> Result<ProcessCoverage, LookError> {
    let began = Instant::now();
    let memory = Memory::open(pid, block)?;
    let scans = memory.can_scan();
    let mappings = memory.mappings(detailed || !scans)?;
    let pages = u32::try_from(memory.block / memory.page).unwrap_or(u32::MAX);
    let mut found = ProcessCoverage {
        pid,
        block: Bytes::new(memory.block),
        mappings: mappings.len() as u64,
        method: if scans { ScanMethod::PagemapScan } else { ScanMethod::Pagemap },
        ..ProcessCoverage::default()
    };
    let mut largest = Vec::new();
    memory.for_each_mapping(&mappings, scans, |mapping, summed| {
        let of_mapping = count_blocks(&summed.blocks, pages, memory.page);
        found.coverage = found.coverage.plus(summed.coverage);
        found.blocks = found.blocks.plus(of_mapping);
        let held = summed.coverage.anon.saturating_add(summed.coverage.file);
        if mapping.kind != MappingKind::Special && held > Bytes::new(0) {
            let (coverage, blocks) = (summed.coverage, of_mapping);
            largest.push(LargeMapping { held, mapping, coverage, blocks });
        }
        // this bounds the memory: ten thousand mappings need not be kept to list the largest twenty
        if largest.len() >= 64 * LARGEST {
            keep_largest(&mut largest);
        }
    })?;
    keep_largest(&mut largest);
    found.largest = largest.iter().map(|large| describe_mapping(pid, large)).collect();
    found.seconds = began.elapsed().as_secs_f64();
    Ok(found)
}

/// A mapping that may be one of the largest of the process.
struct LargeMapping<'a> {
    /// How much memory of the mapping is in RAM, anonymous memory and file pages together. Mappings
    /// are sorted by this.
    held: Bytes,
    mapping: &'a Mapping,
    coverage: Coverage,
    blocks: Blocks,
}

fn keep_largest(largest: &mut Vec<LargeMapping<'_>>) {
    largest.sort_by_key(|large| (Reverse(large.held), large.mapping.start));
    largest.truncate(LARGEST);
}

fn describe_mapping(pid: u32, large: &LargeMapping<'_>) -> MappingCoverage {
    let mapping = large.mapping;
    let source = Source::file(format!("/proc/{pid}/smaps"));
    let reading = |value: Option<bool>, why: &'static str| match value {
        Some(value) => Reading::found(value, source.clone()),
        None => Reading::absent(why, source.clone()),
    };
    let totals = &mapping.totals;
    let name: Name = mapping.name.clone();
    MappingCoverage {
        start: mapping.start,
        size: Bytes::new(mapping.end - mapping.start),
        name,
        kind: mapping.kind,
        eligible: reading(totals.eligible, "smaps was not read, or this kernel does not say"),
        advised: reading(totals.advised, "the program asked for nothing"),
        coverage: large.coverage,
        blocks: large.blocks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// smaps and the page tables of this process give the same result.
    #[test]
    fn our_own_memory_is_found_either_way() {
        let held = vec![1u8; 16 << 20];
        let found = survey_process(std::process::id(), 2 << 20, true).unwrap();
        assert!(found.coverage.anon >= Bytes::new(16 << 20), "{found:?} {}", held[5000]);
        let blocks = found.blocks;
        assert!(blocks.huge + blocks.full >= 7, "{blocks:?}");
        assert!(found.largest.iter().any(|mapping| mapping.size >= Bytes::new(16 << 20)));
        assert!(found.largest.iter().any(|mapping| mapping.eligible.value().is_some()));
        assert!(found.mappings > 10);
    }

    #[test]
    fn nobody_is_there() {
        assert!(matches!(survey_process(u32::MAX, 2 << 20, false), Err(LookError::Gone(_))));
    }
}
