// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The moving window of `swap` over the pages of the data.

/// The part of the data that an iteration works on, in pieces at equal distances.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    /// Number of pages of all the data.
    pub(super) data: usize,
    /// Number of pages of all pieces together; at most those of the data.
    pub(super) pages: usize,
    /// Number of pieces; at most the number of pages in all of them.
    pub(super) parts: usize,
    /// Number of the first page of the window in the data.
    pub(super) start: usize,
}

impl Window {
    /// Position in the data of the n-th page of the window.
    pub(super) fn page(&self, number: usize) -> usize {
        let piece = number * self.parts / self.pages;
        let between = piece * (self.data - self.pages) / self.parts;
        (self.start + number + between) % self.data
    }

    /// Moves the window, wrapping around at the end of the data.
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
        /// All pages of the window are distinct pages of the data.
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
