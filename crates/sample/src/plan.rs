// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Divides the pages to sample into batches, which the workers take one by one.
//!
//! A sweep goes through all pages in order of address. A draw takes the next pages of a random
//! permutation, in rounds; within a round, pages are read in order of address, which is faster. A
//! draw ends only between rounds: half a round would contain only pages at lower addresses, and the
//! sample would not be uniform.

use crate::Partial;
use crate::pace::Pace;
use crate::permute::Permutation;
use crate::process::PageRequest;
use crate::spans::{Span, Spans};

/// Maximum number of pages in a batch: 256 KiB of small pages, which fit into the cache of a CPU.
pub(crate) const BATCH: usize = 64;
/// Number of pages that a draw takes in a round.
const ROUND: u64 = 2048;

/// Pages of one source that one worker reads together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Batch {
    /// The index of a part, and pages of it in order of address.
    Pages(usize, Vec<PageRequest>),
    /// The index of a part, and a coarse span of it. The batch has the pages at these places of the
    /// span; without places, all pages that may be drawn.
    Coarse(usize, Span, Option<Vec<u64>>),
}

/// The pages that the workers have not taken yet.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    spans: &'a [Spans],
    way: Way,
    pace: &'a Pace,
    pub(crate) partial: Option<Partial>,
}

#[derive(Debug)]
enum Way {
    Sweep(SweepPosition),
    Draw(Draw),
}

/// Position in a sweep through all pages.
#[derive(Debug, Clone, Copy, Default)]
struct SweepPosition {
    part: usize,
    span: usize,
    /// Number of pages of the current span that workers have taken.
    done: u32,
}

#[derive(Debug)]
struct Draw {
    order: Permutation,
    next: u64,
    until: u64,
    /// Indices, among all pages, of this round's pages; the worker takes the next one from the end.
    round: Vec<u64>,
}

impl<'a> Plan<'a> {
    /// A plan with every page.
    pub(crate) fn sweep(spans: &'a [Spans], pace: &'a Pace) -> Self {
        Self { spans, way: Way::Sweep(SweepPosition::default()), pace, partial: None }
    }

    /// A plan with the pages at these places of the permutation.
    pub(crate) fn draw(
        spans: &'a [Spans],
        pace: &'a Pace,
        order: Permutation,
        places: std::ops::Range<u64>,
    ) -> Self {
        let draw = Draw { order, next: places.start, until: places.end, round: Vec::new() };
        Self { spans, way: Way::Draw(draw), pace, partial: None }
    }

    /// The place in the permutation at which the draw continues; `None` for a sweep.
    pub(crate) fn next_place(&self) -> Option<u64> {
        match &self.way {
            Way::Sweep(_) => None,
            Way::Draw(draw) => Some(draw.next),
        }
    }

    /// Returns the next batch; `None` if no page is left, or if a limit was reached.
    pub(crate) fn next(&mut self) -> Option<Batch> {
        match &mut self.way {
            Way::Sweep(place) => {
                let over = place.next_part(self.spans).and_then(|()| self.pace.why_over());
                self.partial = self.partial.or(over);
                self.partial.is_none().then(|| place.batch(self.spans)).flatten()
            }
            Way::Draw(draw) => {
                if draw.round.is_empty() && draw.next < draw.until {
                    self.partial = self.partial.or(self.pace.why_over());
                    self.partial.is_none().then(|| draw.begin_round())?;
                }
                draw.batch(self.spans)
            }
        }
    }
}

impl SweepPosition {
    /// Moves on to the next part that has pages left; `None` if no part has any.
    fn next_part(&mut self, spans: &[Spans]) -> Option<()> {
        while spans.get(self.part)?.get(self.span).is_none() {
            *self = Self { part: self.part + 1, ..Self::default() };
        }
        Some(())
    }

    fn batch(&mut self, spans: &[Spans]) -> Option<Batch> {
        let part = spans.get(self.part)?;
        let mut requests = Vec::with_capacity(BATCH);
        while let Some(span) = part.get(self.span).filter(|_| requests.len() < BATCH) {
            if span.is_coarse() && requests.is_empty() {
                self.span += 1;
                return Some(Batch::Coarse(self.part, *span, None));
            }
            if span.is_coarse() {
                break;
            }
            self.take(span, &mut requests);
        }
        (!requests.is_empty()).then_some(Batch::Pages(self.part, requests))
    }

    fn take(&mut self, span: &Span, requests: &mut Vec<PageRequest>) {
        let room = u32::try_from(BATCH - requests.len()).unwrap_or(0);
        let end = span.length.min(self.done.saturating_add(room));
        requests.extend((self.done..end).map(|nth| page(span, nth.into())));
        self.done = end;
        if end == span.length {
            (self.span, self.done) = (self.span + 1, 0);
        }
    }
}

fn page(span: &Span, nth: u64) -> PageRequest {
    PageRequest { page: span.first.saturating_add(nth), kind: span.kind, huge: span.huge }
}

impl Draw {
    fn begin_round(&mut self) {
        let end = self.until.min(self.next.saturating_add(ROUND));
        self.round.extend((self.next..end).filter_map(|place| self.order.number_at(place)));
        self.round.sort_unstable_by(|a, b| b.cmp(a));
        self.next = end;
    }

    /// Takes the next pages of the round that are in the same part and in the same coarse span.
    fn batch(&mut self, spans: &[Spans]) -> Option<Batch> {
        let (part, before) = part_of(spans, *self.round.last()?)?;
        let mut requests = Vec::with_capacity(BATCH);
        let mut coarse: Option<(Span, Vec<u64>)> = None;
        while let Some((span, nth)) =
            self.round.last().and_then(|index| spans.get(part)?.find(index.checked_sub(before)?))
        {
            match &mut coarse {
                None if !span.is_coarse() && requests.len() < BATCH => {
                    requests.push(page(span, nth));
                }
                None if span.is_coarse() && requests.is_empty() => {
                    coarse = Some((*span, vec![nth]));
                }
                Some((same, places)) if same == span => places.push(nth),
                _ => break,
            }
            self.round.pop();
        }
        Some(match coarse {
            Some((span, places)) => Batch::Coarse(part, span, Some(places)),
            None => Batch::Pages(part, requests),
        })
    }
}

/// The part that has the page with this index, and the number of pages in the parts before it.
fn part_of(spans: &[Spans], index: u64) -> Option<(usize, u64)> {
    let mut before = 0;
    for (part, spans) in spans.iter().enumerate() {
        let end = before + spans.total();
        if index < end {
            return Some((part, before));
        }
        before = end;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spans::Run;
    use crate::{Options, PageKind};
    use proptest::prelude::*;
    use std::time::Duration;

    /// Parts that have every second page of a mapping, each with at most `most` spans.
    fn parts(lengths: &[u64], most: usize) -> Vec<Spans> {
        let part = |length: &u64| {
            let mut spans = Spans::new(most);
            for number in 0..*length {
                // for every third page, the next page is adjacent
                let first = 2 * number + u64::from(number % 3 == 0);
                let kind = PageKind::Anonymous;
                spans.push(Run { first, length: 1, kind, huge: None, apart: number % 7 == 0 });
            }
            spans
        };
        lengths.iter().map(part).collect()
    }

    /// The pages of all batches, with their part. For a coarse span, the place is used instead of
    /// the page.
    fn all_batches(plan: &mut Plan<'_>) -> Vec<(usize, u64)> {
        let mut all = Vec::new();
        while let Some(batch) = plan.next() {
            match batch {
                Batch::Pages(part, wanted) => {
                    assert!((1..=BATCH).contains(&wanted.len()));
                    assert!(wanted.is_sorted_by_key(|wanted| wanted.page));
                    all.extend(wanted.iter().map(|wanted| (part, wanted.page)));
                }
                Batch::Coarse(part, span, places) => {
                    let places = places.unwrap_or((0..span.held.into()).collect());
                    all.extend(places.iter().map(|place| (part, span.first + place)));
                }
            }
        }
        all
    }

    proptest! {
        /// However many draws are made, no page is drawn twice, and in the end every page of a
        /// sweep was drawn.
        #[test]
        fn all_draws_together_are_a_sweep(
            lengths in prop::collection::vec(0u64..300, 1..5),
            most in prop_oneof![Just(1000usize), 2usize..30],
            draws in prop::collection::vec(1u64..400, 1..8),
            seed: u64,
        ) {
            let spans = parts(&lengths, most);
            let total = spans.iter().map(Spans::total).sum();
            let pace = Pace::start(Options::default());
            let order = Permutation::new(total, seed);
            let (mut drawn, mut at) = (Vec::new(), 0);
            for more in draws.into_iter().chain([u64::MAX]) {
                let until = total.min(at + more.min(total));
                let mut plan = Plan::draw(&spans, &pace, order, at..until);
                let now = all_batches(&mut plan);
                prop_assert_eq!(now.len() as u64, until - at);
                at = plan.next_place().unwrap();
                drawn.extend(now);
            }
            drawn.sort_unstable();
            let swept = all_batches(&mut Plan::sweep(&spans, &pace));
            prop_assert_eq!(swept.len() as u64, total);
            let mut in_order = swept.clone();
            in_order.sort_unstable();
            prop_assert_eq!(&swept, &in_order, "a sweep is in order");
            prop_assert_eq!(drawn, swept);
        }
    }

    #[test]
    fn when_time_is_up_nothing_is_handed_out() {
        let spans = parts(&[100], 1000);
        let budget = Some(Duration::ZERO);
        let pace = Pace::start(Options { budget, ..Options::default() });
        for mut plan in
            [Plan::sweep(&spans, &pace), Plan::draw(&spans, &pace, Permutation::new(100, 1), 0..50)]
        {
            assert_eq!(plan.next(), None);
            assert_eq!(plan.partial, Some(Partial::Budget));
        }
    }

    #[test]
    fn an_end_at_the_end_is_not_partial() {
        let spans = parts(&[], 1000);
        let budget = Some(Duration::ZERO);
        let pace = Pace::start(Options { budget, ..Options::default() });
        let mut plan = Plan::sweep(&spans, &pace);
        assert_eq!((plan.next(), plan.partial), (None, None));
    }
}
