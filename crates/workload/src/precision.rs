// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes which share of the evicted pages were among the least used, from the access frequencies
//! of all pages.
//!
//! The ideal set has as many pages as were evicted: the least used ones. If the border of the ideal
//! set lies within pages of equal frequency, each of them counts partially, so that no order among
//! them is better than another.

/// A page that was in memory at some time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Page {
    /// Access frequency, in any unit that is the same for all pages.
    pub(crate) requested: f64,
    /// Whether the page is no longer in memory.
    pub(crate) evicted: bool,
}

/// Minimum number of evicted pages for a meaningful result.
pub(crate) const LEAST: usize = 100;

/// The precision of eviction: 1 if exactly the least used pages were evicted; `None` if too few
/// were evicted.
pub(crate) fn precision(pages: &mut [Page]) -> Option<f64> {
    let evicted = pages.iter().filter(|page| page.evicted).count();
    if evicted < LEAST {
        return None;
    }
    pages.sort_unstable_by(|a, b| a.requested.total_cmp(&b.requested));
    let border = pages[evicted - 1].requested;
    let below = pages.partition_point(|page| page.requested < border);
    let up_to = pages.partition_point(|page| page.requested <= border);
    let count = |part: &[Page]| part.iter().filter(|page| page.evicted).count() as f64;
    let share = (evicted - below) as f64 / (up_to - below) as f64;
    Some((count(&pages[..below]) + share * count(&pages[below..up_to])) / evicted as f64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pages(requested: impl Iterator<Item = f64>, evicted: impl Fn(usize) -> bool) -> Vec<Page> {
        requested
            .enumerate()
            .map(|(at, wanted)| Page { requested: wanted, evicted: evicted(at) })
            .collect()
    }

    #[test]
    fn the_best_choice_is_one_and_the_worst_none() {
        let matches = || (0..400u16).map(f64::from);
        assert_eq!(precision(&mut pages(matches(), |at| at < 200)), Some(1.0));
        assert_eq!(precision(&mut pages(matches(), |at| at >= 200)), Some(0.0));
        assert_eq!(precision(&mut pages(matches(), |at| (100..300).contains(&at))), Some(0.5));
        assert_eq!(precision(&mut pages(matches(), |at| at < 99)), None);
    }

    #[test]
    fn among_equals_any_choice_is_as_good() {
        let equal = || std::iter::repeat_n(1.0, 400);
        for from in [0, 50, 200] {
            let found = precision(&mut pages(equal(), |at| (from..from + 200).contains(&at)));
            assert_eq!(found, Some(0.5), "chance: half of the equal pages are evicted");
        }
    }

    proptest! {
        /// A naive count for comparison: the ideal set is filled page by page, for each order of
        /// equal pages; the mean over all orders equals the partial counts.
        #[test]
        fn a_naive_count_agrees(
            drawn in proptest::collection::vec((0u8..20, any::<bool>()), 250..400),
            seed: u64,
        ) {
            let all = || drawn.iter().map(|(wanted, evicted)| {
                Page { requested: f64::from(*wanted), evicted: *evicted }
            });
            let mut given: Vec<Page> = all().collect();
            fastrand::Rng::with_seed(seed).shuffle(&mut given);
            let evicted = all().filter(|page| page.evicted).count();
            let mut ideal = 0.0;
            let mut room = evicted as f64;
            for wanted in (0..20).map(f64::from) {
                let here: Vec<Page> = all().filter(|page| page.requested == wanted).collect();
                let taken = room.min(here.len() as f64);
                if taken > 0.0 {
                    let hit = here.iter().filter(|page| page.evicted).count() as f64;
                    ideal += hit * taken / here.len() as f64;
                }
                room -= taken;
            }
            match precision(&mut given) {
                Some(found) => prop_assert!((found - ideal / evicted as f64).abs() < 1e-9),
                None => prop_assert!(evicted < LEAST),
            }
        }
    }
}
