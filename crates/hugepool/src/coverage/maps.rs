// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the private anonymous mappings among the lines of `/proc/self/maps`.

/// A line of `/proc/self/maps` about a private mapping without a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MapLine<'a> {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) name: &'a str,
}

/// Parses a line if it is about a private anonymous mapping; `None` for other mappings, for the
/// kernel's own (`[vdso]` and similar), and for lines in another format.
///
/// A line is `START-END PERMISSIONS OFFSET DEVICE INODE NAME`; the name may be missing or contain spaces.
pub(super) fn parse_line(line: &str) -> Option<MapLine<'_>> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let permissions = words.next()?;
    let inode = words.nth(2)?;
    let name = words.next().unwrap_or_default().trim();
    let (start, end) = (parse_address(start)?, parse_address(end)?);
    let is_private = permissions.ends_with('p') && inode == "0";
    let is_kernels = name.starts_with("[v") || name.starts_with("[u");
    (is_private && !is_kernels && start < end).then(|| {
        let name = if name.is_empty() { "anonymous" } else { name };
        MapLine { start, end, name }
    })
}

fn parse_address(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_mappings_without_a_file_are_read() {
        let line = parse_line("7f00a0000000-7f00a0021000 rw-p 00000000 00:00 0 ");
        let expected =
            MapLine { start: 0x7f00_a000_0000, end: 0x7f00_a002_1000, name: "anonymous" };
        assert_eq!(line, Some(expected));
        let heap = parse_line("55d0-55e0 rw-p 00000000 00:00 0                          [heap]");
        assert_eq!(heap.unwrap().name, "[heap]");
        let named = parse_line("55d0-55e0 rw-p 00000000 00:00 0      [anon:my pool]");
        assert_eq!(named.unwrap().name, "[anon:my pool]");
    }

    #[test]
    fn files_shared_memory_and_the_kernels_pages_are_left_out() {
        for line in [
            "400000-401000 r-xp 00000000 fe:01 1234  /usr/bin/true",
            "400000-401000 rw-s 00000000 00:01 0",
            "400000-401000 r-xp 00000000 00:00 0  [vdso]",
            "401000-400000 rw-p 00000000 00:00 0",
            "zz-400000 rw-p 00000000 00:00 0",
            "400000",
            "",
        ] {
            assert_eq!(parse_line(line), None, "{line:?}");
        }
    }
}
