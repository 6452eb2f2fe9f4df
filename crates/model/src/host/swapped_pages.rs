// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages that were swapped between two readings of `/proc/vmstat`, by where they were stored.
//!
//! With zram or a disk, `pswpin` and `pswpout` count all pages. With zswap, they count only pages
//! of the swap area behind zswap's pool; `zswpin` and `zswpout` count the pages of the pool.
//! `swpin_zero` and `swpout_zero` count pages of zeros; kernels without these counters count them
//! like other pages. Only the sums of these counters can be compared between zram and zswap.

use crate::Counters;

/// The swap counters of `/proc/vmstat` in the earlier and in the later reading.
#[derive(Debug, Clone, Copy)]
pub struct SwappedPages<'a>(pub [&'a Counters; 2]);

impl SwappedPages<'_> {
    /// How much the counter with this name grew; `None` if the kernel lacks the counter.
    #[must_use]
    pub fn growth_of(self, name: &str) -> Option<u64> {
        let [from, to] = self.0;
        to.get(name).get()?.checked_sub(from.get(name).get()?)
    }

    /// Number of pages swapped in, wherever they were stored. A counter that this kernel lacks
    /// counts as 0, because the kernel then lacks the mechanism as well: a kernel without zswap
    /// swaps nothing in from zswap.
    #[must_use]
    pub fn count_swapped_in(self) -> Option<u64> {
        Some(self.growth_of("pswpin")? + self.sum(["zswpin", "swpin_zero"]))
    }

    /// Number of pages swapped out, wherever they were stored. A page that zswap writes back later
    /// counts once; on kernels that do not count pages written back (`zswpwb`) it counts twice.
    #[must_use]
    pub fn count_swapped_out(self) -> Option<u64> {
        let past_pool = self.growth_of("pswpout")?.saturating_sub(self.sum(["zswpwb"]));
        Some(past_pool + self.sum(["zswpout", "swpout_zero"]))
    }

    /// Number of pages that zswap's pool rejected. `pswpout` includes pages that zswap wrote back
    /// from the pool. `None` if the kernel does not count these separately (`zswpwb`).
    #[must_use]
    pub fn count_refused(self) -> Option<u64> {
        Some(self.growth_of("pswpout")?.saturating_sub(self.growth_of("zswpwb")?))
    }

    fn sum<const N: usize>(self, names: [&str; N]) -> u64 {
        names.iter().filter_map(|name| self.growth_of(name)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Name, Reading, Source};

    fn counters(all: &[(&str, u64)]) -> Counters {
        let found = |value| Reading::found(value, Source::file("/proc/vmstat"));
        all.iter().map(|&(name, value)| (Name::from(name), found(value))).collect()
    }

    #[test]
    fn pages_are_counted_wherever_they_went() {
        let names =
            ["pswpin", "pswpout", "zswpin", "zswpout", "zswpwb", "swpin_zero", "swpout_zero"];
        let at = |values: [u64; 7]| counters(&std::iter::zip(names, values).collect::<Vec<_>>());
        let (from, to) = (at([10, 20, 5, 5, 1, 0, 0]), at([110, 320, 205, 305, 201, 7, 9]));
        let swapped = SwappedPages([&from, &to]);
        assert_eq!(swapped.count_swapped_in(), Some(100 + 200 + 7));
        assert_eq!(swapped.count_refused(), Some(300 - 200));
        assert_eq!(swapped.count_swapped_out(), Some(100 + 300 + 9));
        assert_eq!(
            SwappedPages([&to, &from]).growth_of("pswpin"),
            None,
            "a counter that went back"
        );
    }

    /// A counter that a kernel lacks is not zero: Linux 6.1 has no `zswpwb`, and kernels for cloud
    /// machines have no zswap.
    #[test]
    fn what_a_kernel_does_not_count_is_no_zero() {
        let from = counters(&[("pswpin", 10), ("pswpout", 20), ("zswpin", 5), ("zswpout", 5)]);
        let to = counters(&[("pswpin", 110), ("pswpout", 320), ("zswpin", 205), ("zswpout", 305)]);
        let swapped = SwappedPages([&from, &to]);
        assert_eq!((swapped.count_swapped_in(), swapped.count_refused()), (Some(300), None));
        assert_eq!(swapped.count_swapped_out(), Some(600));
        let (from, to) = (counters(&[("pswpin", 1), ("pswpout", 1)]), counters(&[("pswpin", 4)]));
        let swapped = SwappedPages([&from, &to]);
        assert_eq!((swapped.count_swapped_in(), swapped.count_swapped_out()), (Some(3), None));
    }
}
