// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A tally and the size of its source → an [`Estimate`].

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes are positive and far below 2^53"
)]

use pagewise_model::{
    AlgorithmEstimate, Bytes, Disturbed, Ends, Estimate, EstimateSource, Reading, Source,
};

use crate::aging::wear;
use crate::codec::Algorithm;
use crate::duplicates::{Duplicates, Found};
use crate::interval::{pages, pages_interval};
use crate::tally::{Question, Stores, Tally};

/// Where a tally's pages came from.
#[derive(Debug, Clone)]
pub struct Origin {
    /// Whose they are.
    pub source: EstimateSource,
    /// How many there are.
    pub pages: u64,
    /// How many more are swapped out.
    pub swapped_pages: u64,
    /// Why fewer were looked at than was asked for.
    pub partial: Option<String>,
    /// What looking changed.
    pub disturbed: Disturbed,
}

/// What the pages of `origin` would become, judged by those in `tally`.
#[must_use]
pub fn estimate(question: &Question, origin: Origin, tally: &mut Tally) -> Estimate {
    let population = origin.pages.max(tally.sampled);
    let share = |found| pages(found, tally.sampled, population);
    let interval = |found| pages_interval(found, tally.sampled, population);
    let found = found(tally.duplicates.as_mut().map(Duplicates::found), tally, population);
    let algorithms = question.algorithms.iter().zip(&tally.algorithms);
    Estimate {
        source: origin.source,
        page_bytes: Bytes::new(question.page as u64),
        pages: population,
        sampled_pages: tally.sampled,
        swapped_pages: origin.swapped_pages,
        partial: origin.partial,
        zero_pages: share(tally.zero),
        zero_pages_interval: interval(tally.zero),
        same_filled_pages: share(tally.same_filled),
        same_filled_pages_interval: interval(tally.same_filled),
        duplicate_pages_exact: found.value().is_some(),
        duplicate_saved_bytes: found.clone().map(|found| Bytes::new(found.bytes)),
        ksm_saved_bytes: found.clone().map(|found| Bytes::new(found.pages * question.page as u64)),
        most_repeated_pages: found.clone().map(|found| found.most),
        duplicate_pages: found.map(|found| found.pages),
        algorithms: algorithms
            .map(|(algorithm, stores)| becomes(question, *algorithm, stores, population))
            .collect(),
        huge: tally.huge.view(tally.sampled, population, question.pages_per_huge),
        cold: Reading::absent(
            "not measured: what is estimated is gained for cold pages at most",
            Source::none(),
        ),
        disturbed: origin.disturbed,
    }
}

fn found(found: Option<Found>, tally: &Tally, population: u64) -> Reading<Found> {
    let absent = |why: &'static str| Reading::absent(why, Source::none());
    match found {
        None => absent("pages were not told apart"),
        Some(_) if tally.sampled < population => {
            absent("a sample cannot tell: --exact looks at every page")
        }
        Some(found) => Reading::found(found, Source::none()),
    }
}

fn becomes(
    question: &Question,
    algorithm: Algorithm,
    stores: &Stores,
    population: u64,
) -> AlgorithmEstimate {
    let pool = question.kernel.pool(question.page);
    let sampled = stores.compressed.count();
    let (compressed, compressed_interval) =
        Stores::total(&stores.compressed, stores.compressed_bytes, population);
    let exact = pool.used_after_fresh_fill(&stores.stored).get();
    let begun = pool.begun(&stores.stored).get();
    let (mut used, mut used_interval) = Stores::total(&stores.memory, exact, population);
    if sampled < population {
        // each class ends with a zspage that is half full, give or take a half
        used += begun / 2;
        used_interval = [used_interval[0], used_interval[1] + begun];
    }
    let worn = used as f64 * wear(&pool, &stores.stored);
    let slots = population * question.kernel.slot_bytes;
    let original = (population * question.page as u64) as f64;
    let per = |bytes: u64| (bytes > 0).then(|| original / bytes as f64);
    let per_both = |[low, high]: Ends<u64>| Some([per(high)?, per(low)?]);
    AlgorithmEstimate {
        name: algorithm.name().into(),
        level: algorithm.level(),
        kernel: question.kernel.name.into(),
        compressed_bytes: Bytes::new(compressed),
        compressed_bytes_interval: compressed_interval.map(Bytes::new),
        huge_pages: pages(stores.huge, sampled, population),
        huge_pages_interval: pages_interval(stores.huge, sampled, population),
        memory_used_bytes: Bytes::new(used),
        memory_used_interval: used_interval.map(Bytes::new),
        memory_used_worn_bytes: Bytes::new(worn as u64),
        slot_table_bytes: Bytes::new(slots),
        original_per_compressed: per(compressed),
        original_per_compressed_interval: per_both(compressed_interval),
        original_per_memory_used: per(used + slots),
    }
}
