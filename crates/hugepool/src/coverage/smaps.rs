// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses `/proc/self/smaps`, for kernels without PAGEMAP_SCAN.

use super::{Mapping, maps};

/// The private anonymous mappings, with `Rss` and `AnonHugePages` of each.
pub(super) fn parse(text: &str, huge: u64) -> Vec<Mapping> {
    let mut mappings: Vec<Mapping> = Vec::new();
    let mut is_ours = false;
    for line in text.lines() {
        if let Some((key, bytes)) = parse_size(line) {
            let Some(mapping) = mappings.last_mut().filter(|_| is_ours) else { continue };
            match key {
                "Rss" => mapping.coverage.resident = bytes,
                "AnonHugePages" => mapping.coverage.huge = bytes,
                _ => {}
            }
        } else if is_first_line(line) {
            let head = maps::parse_line(line);
            is_ours = head.is_some();
            mappings.extend(head.map(|head| head.to_mapping(huge)));
        }
    }
    mappings
}

/// Parses a line with a size, such as `Rss:      12 kB`, into its key and the size in bytes.
fn parse_size(line: &str) -> Option<(&str, u64)> {
    let (key, rest) = line.split_once(':')?;
    let kib: u64 = rest.trim().strip_suffix(" kB")?.parse().ok()?;
    Some((key, kib.checked_mul(1024)?))
}

/// Whether the line begins a mapping: with an address. Other lines begin with a capitalised key.
fn is_first_line(line: &str) -> bool {
    let first = line.split(' ').next().unwrap_or_default();
    first.contains('-') && !first.ends_with(':')
}

/// Adds resident memory and memory in huge pages within ranges (address and length, ascending). The
/// kernel may have merged a range with other memory into one mapping: then at most the size of the
/// range is counted.
#[cfg(feature = "pool")]
pub(super) fn count_pages(text: &str, ranges: &[(u64, u64)], coverage: &mut super::Coverage) {
    for mapping in parse(text, 1) {
        let inside = |range: &&(u64, u64)| {
            range.0 < mapping.end && mapping.start < range.0.saturating_add(range.1)
        };
        let within = ranges
            .iter()
            .filter(inside)
            .map(|(start, bytes)| (start + bytes).min(mapping.end) - (*start).max(mapping.start));
        let most: u64 = within.sum();
        coverage.resident += mapping.coverage.resident.min(most);
        coverage.huge += mapping.coverage.huge.min(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::Coverage;

    const TEXT: &str = "\
7f0000000000-7f0000800000 rw-p 00000000 00:00 0
Size:               8192 kB
Rss:                6144 kB
AnonHugePages:      4096 kB
THPeligible:           1
VmFlags: rd wr mr mw me ac sd hg
7f0000900000-7f0000901000 r--p 00000000 fe:01 77  /usr/lib/libc.so.6
Rss:                   4 kB
AnonHugePages:         0 kB
";

    #[test]
    fn sizes_belong_to_the_mapping_before_them() {
        let mappings = parse(TEXT, 2 << 20);
        assert_eq!(mappings.len(), 1);
        let expected = Coverage {
            mapped: 8 << 20,
            eligible: 8 << 20,
            resident: 6 << 20,
            huge: 4 << 20,
            ..Coverage::default()
        };
        assert_eq!(mappings[0].coverage, expected);
    }

    #[test]
    #[cfg(feature = "pool")]
    fn a_range_inside_of_a_mapping_counts_at_most_itself() {
        let mut coverage = Coverage::default();
        count_pages(
            TEXT,
            &[(0x7f00_0000_0000, 2 << 20), (0x7f00_0040_0000, 1 << 20)],
            &mut coverage,
        );
        assert_eq!((coverage.resident, coverage.huge), (3 << 20, 3 << 20));
    }
}
