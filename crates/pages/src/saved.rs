// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Estimates the number of duplicates and how much memory storing them once would save, with
//! intervals that contain the true value in 95 of 100 samples.
//!
//! Two things may be a sample. *Contents*: if only a fraction of all hashes was kept, the number of
//! different contents has a binomial distribution, and all other pages are duplicates. *Pages*: for
//! some pages, drawn at random, the compressed size is known and, if the content was kept, the
//! number of copies. A page with c copies represents 1−1/c duplicates. Therefore:
//!
//! - if all contents were kept, duplicates are counted. Their mean size is a ratio over the drawn
//!   pages, each weighted with 1−1/c. Frequent contents are drawn in proportion to their frequency;
//! - otherwise the saving is the size of all pages minus the size of the different contents. Both
//!   are means over the same drawn pages, so their errors are combined like those of a single sum.
//!
//! If few of the drawn pages are duplicates, or if all of these have the same content, their spread
//! is meaningless. Therefore one imaginary page is added, half of it with size 0 and half with the
//! size of a page (as Agresti and Coull do for a share). Errors are computed by linearisation; the
//! test `tests/intervals.rs` verifies them with thousands of drawn samples.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts and sizes of pages are positive and far below 2^53"
)]

use pagewise_model::Ends;

use crate::interval::{Sums, Z};

/// An estimated number with its 95 % interval. If both ends equal the number, it was counted and
/// not estimated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ValueRange {
    /// The estimated or counted number.
    pub value: u64,
    /// The ends of the 95 % interval.
    pub ends: Ends<u64>,
}

impl ValueRange {
    fn from_count(value: u64) -> Self {
        Self { value, ends: [value, value] }
    }

    /// Creates the range `value` ± `half`, limited to the possible values.
    fn from_half_width(value: f64, half: f64, [least, most]: Ends<f64>) -> Self {
        let clamped = |number: f64| number.clamp(least, most.max(least));
        let ends = [clamped(value - half).floor() as u64, clamped(value + half).ceil() as u64];
        Self { value: clamped(value).round() as u64, ends }
    }
}

/// Counts over the contents and over the pages that were drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DrawCounts {
    page: f64,
    /// Number of contents that each kept content represents.
    stands_for: f64,
    /// Number of pages that are not same-filled.
    pub(crate) pages: u64,
    /// Sizes of the drawn pages whose contents were not kept.
    pub(crate) left_out: Sums,
    contents: u64,
    copies: u64,
    /// Bytes that storing the duplicates once would save, if all of them were compressed.
    bytes: u64,
    drawn: DrawSums,
}

/// Sums over the drawn pages whose contents were kept; `a` is 1/copies, and `s` is the size.
#[derive(Debug, Clone, Copy, Default)]
struct DrawSums {
    pages: f64,
    /// Number of contents that more than one page has.
    repeated: f64,
    s: f64,
    ss: f64,
    a: f64,
    a_s: f64,
    a_ss: f64,
    aa: f64,
    aa_s: f64,
    aa_ss: f64,
}

impl DrawSums {
    fn add(&mut self, pages: f64, a: f64, s: f64) {
        self.pages += pages;
        self.repeated += if a < 1.0 { pages } else { 0.0 };
        self.s += pages * s;
        self.ss += pages * s * s;
        self.a += pages * a;
        self.a_s += pages * a * s;
        self.a_ss += pages * a * s * s;
        self.aa += pages * a * a;
        self.aa_s += pages * a * a * s;
        self.aa_ss += pages * a * a * s * s;
    }
}

impl DrawCounts {
    pub(crate) fn new(page: usize, halvings: u32) -> Self {
        let stands_for = 2f64.powi(i32::try_from(halvings).unwrap_or(i32::MAX));
        Self {
            page: page as f64,
            stands_for,
            pages: 0,
            left_out: Sums::default(),
            contents: 0,
            copies: 0,
            bytes: 0,
            drawn: DrawSums::default(),
        }
    }

    /// Adds a content with this number of copies, of which `sized` were compressed to `size` bytes.
    pub(crate) fn content(&mut self, copies: u64, sized: u64, size: u64) {
        self.contents += 1;
        self.copies += copies;
        self.bytes += copies.saturating_sub(1) * size;
        self.drawn.add(sized as f64, 1.0 / copies.max(1) as f64, size as f64);
    }

    /// Whether the hashes of all contents were kept.
    pub(crate) fn has_all(&self) -> bool {
        self.stands_for <= 1.0
    }

    /// Estimates the number of all contents, if `kept` of them were kept.
    pub(crate) fn of_all(&self, kept: u64) -> u64 {
        (kept as f64 * self.stands_for) as u64
    }

    pub(crate) fn duplicates(&self) -> ValueRange {
        let surely = self.copies - self.contents;
        if self.has_all() {
            return ValueRange::from_count(surely);
        }
        let most = self.pages.saturating_sub(self.contents) as f64;
        let value = self.pages as f64 - self.estimate_different();
        ValueRange::from_half_width(value, Z * self.different_error(), [surely as f64, most])
    }

    /// Estimates the number of different contents in the source.
    fn estimate_different(&self) -> f64 {
        self.contents as f64 * self.stands_for
    }

    fn different_error(&self) -> f64 {
        (self.estimate_different() * (self.stands_for - 1.0)).sqrt()
    }

    /// Estimates how many bytes storing duplicates only once would save.
    pub(crate) fn saved_bytes(&self) -> ValueRange {
        let duplicates = self.duplicates();
        let sized = self.drawn.pages + self.left_out.count() as f64;
        let most = duplicates.ends[1] as f64 * self.page;
        match (self.has_all(), sized >= self.pages as f64) {
            (true, true) => ValueRange::from_count(self.bytes),
            _ if sized < 2.0 => ValueRange::from_half_width(most / 2.0, most, [0.0, most]),
            (true, false) => {
                let (value, error) = self.estimate_by_ratio(duplicates.value as f64, sized);
                ValueRange::from_half_width(value, Z * error, [0.0, most])
            }
            (false, _) => {
                let (value, error) = self.estimate_by_difference(sized);
                ValueRange::from_half_width(value, Z * error, [0.0, most])
            }
        }
    }

    /// Returns the mean size of a duplicate multiplied by the number of duplicates, with its
    /// standard error, in bytes.
    fn estimate_by_ratio(&self, duplicates: f64, sized: f64) -> (f64, f64) {
        let drawn = &self.drawn;
        let weights = drawn.pages - drawn.a;
        if drawn.repeated < 1.0 {
            return (duplicates * self.page / 2.0, duplicates * self.page);
        }
        let squares = drawn.pages - 2.0 * drawn.a + drawn.aa;
        let size = (drawn.s - drawn.a_s) / weights;
        let residuals = drawn.ss - 2.0 * drawn.a_ss + drawn.aa_ss
            - 2.0 * size * (drawn.s - 2.0 * drawn.a_s + drawn.aa_s)
            + size * size * squares;
        let imagined = squares / drawn.repeated / 2.0 * (size.powi(2) + (self.page - size).powi(2));
        let left_out = 1.0 - sized / self.pages as f64;
        let error = (left_out * (residuals.max(0.0) + imagined)).sqrt() / weights;
        (duplicates * size, duplicates * error)
    }

    /// Returns the saving in bytes, computed as the size of all pages minus that of the different
    /// contents, with its standard error.
    fn estimate_by_difference(&self, sized: f64) -> (f64, f64) {
        let (drawn, pages) = (&self.drawn, self.pages as f64);
        let mut all = self.left_out;
        all.merge(&Sums::from_sums(drawn.pages, drawn.s, drawn.ss));
        let mean = all.mean();
        let of_content = if drawn.a > 0.0 { drawn.a_s / drawn.a } else { mean };
        // the weight of a drawn page in the second mean
        let weight =
            if drawn.a > 0.0 { self.estimate_different() * sized / (pages * drawn.a) } else { 0.0 };
        let both = drawn.a_ss - (mean + of_content) * drawn.a_s + mean * of_content * drawn.a;
        let second =
            drawn.aa_ss - 2.0 * of_content * drawn.aa_s + of_content * of_content * drawn.aa;
        let residuals = all.deviations() - 2.0 * weight * both + weight * weight * second;
        let of_pages = pages * (residuals.max(0.0) / (sized - 1.0) / sized).sqrt();
        let of_contents = of_content * self.different_error();
        (pages * mean - self.estimate_different() * of_content, of_pages.hypot(of_contents))
    }
}
