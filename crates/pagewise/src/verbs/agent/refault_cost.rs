// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures what it costs to bring a page back from swap: some pages of our own are swapped out, and
//! touched again.

use std::time::Duration;

use pagewise_mappings::{Advice, Region};
use rustix::param::page_size;

use super::cpu_time;

/// Number of pages; 1 MiB with pages of 4 KiB.
const PAGES: usize = 256;
/// With fewer pages in swap, the time is not exact enough.
const FEWEST: usize = 64;
/// What is assumed if it cannot be measured, for example without swap. Measured on zram with lz4: 7 µs.
pub(super) const ASSUMED: Duration = Duration::from_micros(20);
/// A fault costs no less, however coarse the clock is, and no more: the rest is waiting.
const BOUNDS: (Duration, Duration) = (Duration::from_micros(1), Duration::from_millis(1));

/// CPU time per page; `None` if the kernel does not swap our pages out.
pub(super) fn measure() -> Option<Duration> {
    let mut region = Region::map_memory(PAGES, false).ok()?;
    region.advise(Advice::Small).ok();
    let digits = (0u32..).flat_map(|number| format!("{} ", number / 3).into_bytes());
    let mut text: Vec<u8> = digits.take(page_size()).collect();
    for page in 0..PAGES {
        // no two pages are equal, because equal ones may be merged
        text.iter_mut().zip(page.to_ne_bytes()).for_each(|(byte, of_number)| *byte = of_number);
        region.fill(page, &text);
    }
    region.advise(Advice::PageOut).ok()?;
    let gone = PAGES.checked_sub(region.count_resident().ok()?)?;
    if gone < FEWEST {
        return None;
    }
    let before = cpu_time();
    for page in 0..PAGES {
        std::hint::black_box(region.touch(page));
    }
    let cost = cpu_time().saturating_sub(before) / u32::try_from(gone).ok()?;
    Some(cost.clamp(BOUNDS.0, BOUNDS.1))
}
