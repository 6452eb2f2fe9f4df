// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pages of a part from which the sample is drawn, as a limited number of spans, however large
//! and scattered the memory is.
//!
//! A span is *dense* if each of its pages may be drawn. If there are too many spans, neighbours are
//! joined into *coarse* spans, which store only how many of their pages may be drawn. Which pages
//! these are is found out again when some of them are drawn. A span never extends over two
//! mappings, so that this later search does not find a page of another kind, or of a device.

use crate::PageKind;

/// Consecutive pages of one kind that are all mapped in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// Number of the first page.
    pub(crate) first: u64,
    /// Number of pages in the run.
    pub(crate) length: u64,
    pub(crate) kind: PageKind,
    /// Whether the run is mapped as part of a huge page; `None` if unknown.
    pub(crate) huge: Option<bool>,
    /// Whether the run is the first of its mapping.
    pub(crate) apart: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first: u64,
    /// Number of pages that may be drawn in all spans before this one.
    before: u64,
    pub(crate) length: u32,
    /// Number of pages of the span that may be drawn.
    pub(crate) held: u32,
    pub(crate) kind: PageKind,
    pub(crate) huge: Option<bool>,
    apart: bool,
}

impl Span {
    pub(crate) fn is_coarse(&self) -> bool {
        self.held < self.length
    }

    pub(crate) fn end(&self) -> u64 {
        self.first.saturating_add(self.length.into())
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Spans {
    list: Vec<Span>,
    total: u64,
    most: usize,
}

impl Spans {
    /// An empty list of spans that will hold about `most` spans.
    pub(crate) fn new(most: usize) -> Self {
        Self { list: Vec::new(), total: 0, most: most.max(2) }
    }

    /// Number of pages that may be drawn, over all spans.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Span> {
        self.list.get(index)
    }

    /// Adds a run of pages. Runs must be added in order of their pages.
    pub(crate) fn push(&mut self, mut run: Run) {
        while run.length > 0 {
            let length = u32::try_from(run.length).unwrap_or(u32::MAX);
            self.push_short(run, length);
            run.first = run.first.saturating_add(length.into());
            run.length -= u64::from(length);
            run.apart = false;
        }
    }

    fn push_short(&mut self, run: Run, length: u32) {
        if !self.try_extend_last(&run, length) {
            let Run { first, kind, huge, apart, .. } = run;
            let before = self.total;
            self.list.push(Span { first, before, length, held: length, kind, huge, apart });
        }
        self.total = self.total.saturating_add(length.into());
        if self.list.len() > self.most {
            self.coarsen();
        }
    }

    fn try_extend_last(&mut self, run: &Run, length: u32) -> bool {
        let Some(last) = self.list.last_mut().filter(|last| {
            last.end() == run.first
                && !last.is_coarse()
                && (last.kind, last.huge) == (run.kind, run.huge)
        }) else {
            return false;
        };
        let Some(longer) = last.length.checked_add(length) else { return false };
        (last.length, last.held) = (longer, longer);
        true
    }

    /// Joins pairs of neighbouring spans that are in the same mapping.
    fn coarsen(&mut self) {
        let mut merged: Vec<Span> = Vec::with_capacity(self.most);
        let mut open = false;
        for span in self.list.drain(..) {
            let both = merged.last().filter(|_| open).and_then(|last| join(last, &span));
            open = both.is_none();
            match (both, merged.last_mut()) {
                (Some(both), Some(last)) => *last = both,
                _ => merged.push(span),
            }
        }
        self.list = merged;
        // if hardly any spans could be joined, the limit is raised; otherwise each push would try
        // to join again
        if self.list.len() > self.most - self.most / 4 {
            self.most = self.most.saturating_mul(2);
        }
    }

    /// Whether a page with this number and kind may be drawn. In a coarse span this is not certain.
    pub(crate) fn may_hold(&self, page: u64, kind: PageKind) -> bool {
        let after = self.list.partition_point(|span| span.first <= page);
        let span = after.checked_sub(1).and_then(|at| self.list.get(at));
        span.is_some_and(|span| page < span.end() && span.kind == kind)
    }

    /// The span that has the `index`-th page that may be drawn, and the page's place within it.
    pub(crate) fn find(&self, index: u64) -> Option<(&Span, u64)> {
        let after = self.list.partition_point(|span| span.before <= index);
        let span = self.list.get(after.checked_sub(1)?)?;
        let nth = index - span.before;
        (nth < u64::from(span.held)).then_some((span, nth))
    }
}

fn join(a: &Span, b: &Span) -> Option<Span> {
    if b.apart || a.kind != b.kind {
        return None;
    }
    let length = u32::try_from(b.end().checked_sub(a.first)?).ok()?;
    let huge = if a.huge == b.huge { a.huge } else { None };
    Some(Span { length, held: a.held.checked_add(b.held)?, huge, ..*a })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(first: u64, length: u64, apart: bool) -> Run {
        Run { first, length, kind: PageKind::Anonymous, huge: Some(false), apart }
    }

    /// Sorted runs with gaps, some of them starting a mapping.
    fn runs() -> impl Strategy<Value = Vec<Run>> {
        prop::collection::vec((0u64..5, 1u64..6, prop::bool::weighted(0.2)), 0..120).prop_map(
            |pieces| {
                let mut at = 0;
                let place = |(gap, length, apart)| {
                    let first = at + gap;
                    at = first + length;
                    run(first, length, apart)
                };
                pieces.into_iter().map(place).collect()
            },
        )
    }

    proptest! {
        /// If no spans are joined, the n-th page is the n-th page of a plain list.
        #[test]
        fn dense_spans_are_a_list_of_pages(runs in runs()) {
            let mut spans = Spans::new(1000);
            runs.iter().for_each(|run| spans.push(*run));
            let listed: Vec<u64> =
                runs.iter().flat_map(|run| run.first..run.first + run.length).collect();
            let found: Vec<u64> = (0..spans.total())
                .map(|index| spans.find(index).map(|(span, nth)| span.first + nth).unwrap())
                .collect();
            prop_assert_eq!(found, listed);
            prop_assert!(spans.find(spans.total()).is_none());
        }

        /// If spans are joined, every page still counts in exactly one span, and no gap within a
        /// span contains the start of a mapping.
        #[test]
        fn coarse_spans_hold_the_same_pages(runs in runs(), most in 2usize..20) {
            let mut spans = Spans::new(most);
            runs.iter().for_each(|run| spans.push(*run));
            let pages: Vec<u64> =
                runs.iter().flat_map(|run| run.first..run.first + run.length).collect();
            prop_assert_eq!(spans.total(), pages.len() as u64);
            let mut before = 0;
            for index in 0..spans.len() {
                let span = spans.get(index).unwrap();
                let inside = |page: &&u64| (span.first..span.end()).contains(page);
                prop_assert_eq!(pages.iter().filter(inside).count() as u64, u64::from(span.held));
                prop_assert_eq!(span.before, before);
                before += u64::from(span.held);
                let gap_before = |run: &&Run| run.apart && !pages.contains(&(run.first.wrapping_sub(1)));
                let mut begun = runs.iter().filter(gap_before).filter(|run| run.first > span.first);
                prop_assert!(begun.all(|run| run.first >= span.end()));
            }
        }
    }

    #[test]
    fn there_is_no_end_to_how_large_it_may_be() {
        let mut spans = Spans::new(64);
        for mapping in 0..100_000u64 {
            spans.push(run(mapping * 10, 1, mapping == 0));
        }
        assert!(spans.len() <= 64, "{}", spans.len());
        let mut huge = Spans::new(64);
        huge.push(Run { kind: PageKind::Stored, ..run(0, 1 << 40, true) });
        assert_eq!((huge.total(), huge.len()), (1 << 40, 257));
        assert_eq!(
            huge.find((1 << 40) - 1).map(|(span, nth)| span.first + nth),
            Some((1 << 40) - 1)
        );
    }
}
