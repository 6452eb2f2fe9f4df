// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Samples which pages of the three sets are in memory, and computes how well the evicted pages
//! were chosen.
//!
//! Residency is read with mincore, which counts an anonymous page in the swap cache as resident.
//! With zram, which bypasses that cache, there are hardly any of those.

use super::super::error::{Error, ErrorContext};
use super::super::precision::{Page, precision};
use super::Sets;

/// Which pages were in memory at one time.
#[derive(Debug)]
struct ResidencySample {
    operations: u64,
    precision: Option<f64>,
    stream_kept: usize,
}

/// All samples of a run.
#[derive(Debug, Default)]
pub(super) struct ResidencySamples {
    looks: Vec<ResidencySample>,
    there: Vec<bool>,
    pages: Vec<Page>,
}

impl ResidencySamples {
    /// Takes a sample of residency, after this number of operations.
    pub(super) fn sample(&mut self, operations: u64, sets: &mut Sets) -> Result<(), Error> {
        let mincore = || "mincore".to_owned();
        self.pages.clear();
        sets.data.read_residence(&mut self.there).about(mincore)?;
        let data = sets.data_hot.frequencies();
        self.pages.extend(data.map(|(page, wanted)| {
            let evicted = !self.there[page];
            Page { requested: wanted, evicted }
        }));
        sets.library.map.read_residence(&mut self.there).about(mincore)?;
        let seen = sets.library_hot.frequencies().filter(|(page, _)| sets.library_seen[*page]);
        self.pages.extend(seen.map(|(page, wanted)| {
            let evicted = !self.there[page];
            Page { requested: wanted * sets.library_rate, evicted }
        }));
        sets.stream.map.read_residence(&mut self.there).about(mincore)?;
        let read = &self.there[..sets.stream_read.min(sets.stream_pages)];
        let requested = sets.stream_rate / sets.stream_pages as f64;
        self.pages.extend(read.iter().map(|there| Page { requested, evicted: !there }));
        let stream_kept = read.iter().filter(|there| **there).count();
        let precision = precision(&mut self.pages);
        self.looks.push(ResidencySample { operations, precision, stream_kept });
        Ok(())
    }

    /// Means of the values over the samples after `since` operations; values that could not be
    /// determined are left out.
    pub(super) fn means(&self, since: u64) -> Vec<(String, f64)> {
        let late = || self.looks.iter().filter(|look| look.operations > since);
        let precision = mean(late().filter_map(|look| look.precision));
        let kept = mean(late().map(|look| look.stream_kept as f64));
        let named = [("precision", precision), ("cold-kept", kept)];
        named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    (count > 0.0).then(|| sum / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_later_looks_that_tell_something_are_averaged() {
        let look = |operations, precision, stream_kept| ResidencySample {
            operations,
            precision,
            stream_kept,
        };
        let looks = ResidencySamples {
            looks: vec![
                look(50, Some(0.1), 1),
                look(60, Some(0.5), 10),
                look(80, None, 20),
                look(100, Some(0.7), 30),
            ],
            ..ResidencySamples::default()
        };
        let means = looks.means(50);
        assert_eq!(means[0].0, "precision");
        assert!((means[0].1 - 0.6).abs() < 1e-9);
        assert_eq!(means[1], ("cold-kept".to_owned(), 20.0));
        assert!(looks.means(100).is_empty());
    }
}
