// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The moving window of `swap` → pages of the data.

/// Part of the data that an iteration works on, in pieces at equal distances.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    /// Pages of all the data.
    pub(super) data: usize,
    /// Pages of all pieces together: no more than the data has.
    pub(super) pages: usize,
    /// Pieces: no more than there are pages in them.
    pub(super) parts: usize,
    /// Where it is.
    pub(super) start: usize,
}

impl Window {
    /// Where its n-th page lies in the data.
    pub(super) fn page(&self, number: usize) -> usize {
        let piece = number * self.parts / self.pages;
        let between = piece * (self.data - self.pages) / self.parts;
        (self.start + number + between) % self.data
    }

    /// Moves on; behind the end it comes in again at the start.
    pub(super) fn step(&mut self, pages: usize) {
        self.start = (self.start + pages) % self.data;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn three_parts_lie_at_thirds_and_wrap() {
        let mut window = Window { data: 90, pages: 6, parts: 3, start: 0 };
        let pages = |window: Window| (0..6).map(|at| window.page(at)).collect::<Vec<_>>();
        assert_eq!(pages(window), [0, 1, 30, 31, 60, 61]);
        window.step(89);
        assert_eq!(pages(window), [89, 0, 29, 30, 59, 60]);
        window.step(2);
        assert_eq!(window.start, 1);
    }

    proptest! {
        /// All its pages are different ones of the data.
        #[test]
        fn no_page_comes_twice(
            data in 1usize..300, pages in 1usize..300, parts in 1usize..20, start in 0usize..300,
        ) {
            let pages = pages.min(data);
            let window = Window { data, pages, parts: parts.min(pages), start: start % data };
            let all: BTreeSet<usize> = (0..pages).map(|at| window.page(at)).collect();
            prop_assert_eq!(all.len(), pages);
            prop_assert!(all.iter().all(|page| *page < data));
        }
    }
}
