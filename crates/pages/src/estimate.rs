// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Computes an [`Estimate`] from the counts of a sample (a [`Tally`]) and the size of its source.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes are positive and far below 2^53"
)]

use pagewise_model::{
    AlgorithmEstimate, Bytes, Disturbed, Estimate, EstimateSource, Reading, Repeated, Source,
};

use crate::aging::estimate_wear;
use crate::codec::Algorithm;
use crate::duplicates::{self, Duplicates, Found};
use crate::fill;
use crate::interval::Population;
use crate::tally::{Question, Stores, Tally};

/// Facts about the source of sampled pages that a tally does not contain.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The kind and name of the source.
    pub source: EstimateSource,
    /// Number of mappings of the source's pages; see *places* in [`crate::interval`].
    pub places: u64,
    /// Number of pages of the source that are in swap; they are not included in `places`.
    pub swapped_pages: u64,
    /// Why fewer pages were sampled than requested; `None` if the requested number was sampled.
    pub partial: Option<String>,
    /// Side effects of sampling on the source.
    pub disturbed: Disturbed,
}

/// Estimates how small the pages of `origin` would become, from the tallies of its sources.
#[must_use]
pub fn estimate(question: &Question, origin: Origin, tallies: &mut [Tally]) -> Estimate {
    let tally = Tally::of_all(question, tallies.iter());
    let all = Population::new(tally.sampled, origin.places.max(tally.sampled_pages()));
    let found = if all.is_sample() {
        Reading::absent(NOT_ALL, Source::none())
    } else {
        find_range(tallies)
    };
    let bytes = |pages: u64| Bytes::new(pages * question.page as u64);
    let algorithms = question.algorithms.iter().zip(&tally.algorithms);
    Estimate {
        source: origin.source,
        page_bytes: Bytes::new(question.page as u64),
        pages: all.pages,
        pages_interval: all.pages_interval,
        mapped_pages: all.places,
        sampled_pages: tally.sampled_pages(),
        sized_pages: tally.sized,
        swapped_pages: origin.swapped_pages,
        partial: origin.partial,
        zero_pages: all.pages_of(tally.zero),
        zero_pages_interval: all.pages_of_interval(tally.zero),
        same_filled_pages: all.pages_of(tally.same_filled),
        same_filled_pages_interval: all.pages_of_interval(tally.same_filled),
        duplicate_pages: found.clone().map(|found| found.pages.value),
        duplicate_pages_exact: found.value().is_some_and(|found| found.is_exact),
        duplicate_pages_interval: found.value().map(|found| found.pages.ends),
        duplicate_pages_within: found
            .clone()
            .map(|found| duplicates_within_sources(tallies, &found)),
        duplicate_saved_bytes: found.clone().map(|found| Bytes::new(found.bytes.value)),
        duplicate_saved_bytes_interval: found.value().map(|found| found.bytes.ends.map(Bytes::new)),
        ksm_saved_bytes: found.clone().map(|found| bytes(found.ksm_pages)),
        most_repeated: repeats_if_exact(&found),
        algorithms: algorithms
            .map(|(algorithm, stores)| estimate_algorithm(question, *algorithm, stores, &all))
            .collect(),
        huge: tally.huge.view(&all, question.pages_per_huge),
        cold: Reading::absent(
            "not measured: what is estimated is gained for cold pages at most",
            Source::none(),
        ),
        disturbed: origin.disturbed,
    }
}

const NOT_ALL: &str = "a sample rarely meets both of a pair: --duplicates looks at every page";

/// Counts the duplicates over all sources.
fn find_range(tallies: &mut [Tally]) -> Reading<Found> {
    let mut sources: Vec<&mut Duplicates> =
        tallies.iter_mut().filter_map(|tally| tally.duplicates.as_mut()).collect();
    if sources.is_empty() {
        Reading::absent("pages were not told apart", Source::none())
    } else {
        Reading::found(duplicates::count_found(&mut sources), Source::none())
    }
}

/// Adds up the duplicates within each source. For a single source these are all duplicates.
fn duplicates_within_sources(tallies: &mut [Tally], all: &Found) -> u64 {
    if tallies.len() == 1 {
        return all.pages.value;
    }
    let each = tallies.iter_mut().filter_map(|tally| tally.duplicates.as_mut());
    each.map(|source| duplicates::count_found(&mut [source]).pages.value).sum()
}

fn repeats_if_exact(found: &Reading<Found>) -> Option<Vec<Repeated>> {
    found.value().filter(|found| found.is_exact).map(|found| found.repeated.clone())
}

fn estimate_algorithm(
    question: &Question,
    algorithm: Algorithm,
    stores: &Stores,
    all: &Population,
) -> AlgorithmEstimate {
    let pool = question.kernel.pool_for_page_size(question.page);
    let (compressed, compressed_interval) = Stores::total(&stores.compressed, all.places);
    let (used, used_interval) = fill::used_pages(&pool, &stores.stored, &stores.memory, all.places);
    let (in_pool, _) = Stores::total(&stores.memory, all.places);
    let worn = used as f64 * estimate_wear(&pool, &stores.stored);
    let slots = all.pages * question.kernel.slot_bytes;
    let page = question.page as f64;
    let per = |bytes: f64| (bytes > 0.0).then(|| page / bytes);
    let of_page = &stores.compressed;
    let [low, high] = of_page.mean_of_page_interval(all.places);
    // the sums contain only pages that were compressed, which may be fewer than were sampled
    let sized = Population::new(stores.compressed.with_shares_as_values(), all.places);
    AlgorithmEstimate {
        name: algorithm.name().into(),
        level: algorithm.level(),
        kernel: question.kernel.name.into(),
        compressed_bytes: Bytes::new(compressed),
        compressed_bytes_interval: compressed_interval.map(Bytes::new),
        huge_pages: sized.pages_of(stores.huge),
        huge_pages_interval: sized.pages_of_interval(stores.huge),
        memory_used_bytes: Bytes::new(used),
        memory_used_interval: used_interval.map(Bytes::new),
        memory_in_pool_bytes: Bytes::new(in_pool),
        memory_used_worn_bytes: Bytes::new(worn as u64),
        slot_table_bytes: Bytes::new(slots),
        original_per_compressed: per(of_page.mean_of_page()),
        original_per_compressed_interval: per(high).zip(per(low)).map(|(low, high)| [low, high]),
        original_per_memory_used: per((used + slots) as f64 / all.pages.max(1) as f64),
    }
}
