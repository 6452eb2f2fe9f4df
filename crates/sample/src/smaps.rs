// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `/proc/PID/smaps` → how many pages of each mapping are in RAM or in swap.
//!
//! Costly (12 ms per resident GiB): asked only where pages must be searched for without
//! PAGEMAP_SCAN in a large address space. Does not count the page of zeros, nor devices.

use std::collections::HashMap;

use crate::open;

/// Pages by the address where their mapping starts.
pub(crate) type Resident = HashMap<u64, u64>;

/// Empty where it cannot be read; what is beyond the limit for text is missing.
pub(crate) fn resident(pid: u32, page_size: u64) -> Resident {
    parse(&open::text_of_process(pid, "smaps").unwrap_or_default(), page_size)
}

fn parse(smaps: &[u8], page_size: u64) -> Resident {
    let mut resident = Resident::new();
    let mut start = None;
    for line in smaps.split(|&byte| byte == b'\n') {
        let size = [&b"Rss:"[..], b"Swap:"].iter().find_map(|name| kib(line.strip_prefix(*name)?));
        if let (Some(kib), Some(start)) = (size, start) {
            let pages = kib.saturating_mul(1024) / page_size.max(1);
            let sum = resident.entry(start).or_insert(0u64);
            *sum = sum.saturating_add(pages);
        } else if let Some(begins) = begins(line) {
            start = Some(begins);
        }
    }
    resident
}

/// `55d0c6a00000-55d0c6a21000 rw-p …`: no other line has a hexadecimal number and a dash first.
fn begins(line: &[u8]) -> Option<u64> {
    let dash = line.iter().position(|&byte| byte == b'-')?;
    let digits = line.get(..dash).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn kib(rest: &[u8]) -> Option<u64> {
    std::str::from_utf8(rest.trim_ascii().strip_suffix(b" kB")?).ok()?.parse().ok()
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

    proptest! {
        #[test]
        fn garbage_is_harmless(text: Vec<u8>, digits in "[0-9]{0,40}") {
            let _ = parse(&text, 4096);
            let _ = parse(format!("{digits}-1 x\nRss: {digits} kB\nSwap: {digits} kB").as_bytes(), 0);
        }
    }
}
