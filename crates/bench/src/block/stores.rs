// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures stores that the caller made and filled, with the same engine as for devices: the result
//! is a [`Bench`].
//!
//! Used if there is no zram: the program then passes user-space codecs as a [`Store`].

use pagewise_model::{Bytes, Compressor};

use super::contest::{ContestResults, Watch, measure};
use super::contestant::Contestant;
use super::outcome::{Bench, Entrant};
use super::pages::Pages;
use super::spec::BlockSpec;
use super::store::Store;
use super::zram::Filled;

/// A candidate algorithm whose store already holds the pages.
pub struct FilledStore<'a> {
    /// The compression algorithm.
    pub candidate: Compressor,
    /// The store that receives the requests.
    pub store: Box<dyn Store + 'a>,
    /// Memory that the pages took in the store.
    pub filled: Filled,
}

impl std::fmt::Debug for FilledStore<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ready({})", self.candidate)
    }
}

/// Measures the given stores, without references.
pub fn measure_stores(
    ready: Vec<FilledStore<'_>>,
    pages: &Pages,
    spec: &BlockSpec,
    watch: &mut Watch<'_>,
) -> Bench {
    let span = Bytes::new(pages.bytes().len() as u64);
    let shapes = spec.shapes(&spec.jobs, &spec.directions);
    let (entrants, contestants): (Vec<_>, Vec<_>) = ready
        .into_iter()
        .map(|FilledStore { candidate, store, filled }| {
            let (label, shapes) = (candidate.to_string(), shapes.clone());
            let contestant = Contestant { label, store, pages: Some(pages), span, shapes };
            (Entrant::Algorithm { candidate, filled }, contestant)
        })
        .unzip();
    let measured = measure(&contestants, &spec.plan(), 0, watch);
    let ContestResults { cells, rounds_left_out, noise, stopped } = measured;
    let (failures, page, shortened) = (Vec::new(), pages.page_size(), false);
    Bench { entrants, cells, rounds_left_out, failures, span, shortened, noise, stopped, page }
}
