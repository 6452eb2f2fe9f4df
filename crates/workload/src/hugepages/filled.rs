// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory aligned to huge pages, and the time of each first touch.

use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use hdrhistogram::Histogram;
use pagewise_mappings::Region;
use pagewise_model::Course;

use super::super::record::{count_by_powers_of_two, latencies};
use super::super::swap::nanoseconds;
use super::BLOCK;

/// Maximum number of points of a course.
const MOST: usize = 200;

pub(super) struct Filled {
    pub(super) region: Region,
    /// Number of the first page that is used; those before it are for the alignment.
    first: usize,
    pub(super) pages: usize,
    latency: Histogram<u32>,
    pieces: Vec<f64>,
}

impl Filled {
    /// Maps this number of pages, without touching them.
    pub(super) fn new(pages: usize) -> io::Result<Self> {
        let block = BLOCK / rustix::param::page_size();
        let region = Region::map_memory(pages + block, false)?;
        let first = region.count_pages_before(BLOCK);
        Ok(Self { region, first, pages, latency: latencies(), pieces: Vec::new() })
    }

    /// Writes to one of every `touch_each` pages.
    pub(super) fn fill(&mut self, touch_each: usize, progress: &mut dyn FnMut(f64)) {
        let piece = self.pages.div_ceil(MOST).max(1);
        for start in (0..self.pages).step_by(piece) {
            progress(start as f64 / self.pages as f64);
            let began = Instant::now();
            let pages =
                (start..self.pages.min(start + piece)).filter(|page| page % touch_each == 0);
            for page in pages {
                let touched = Instant::now();
                self.region.write_first(self.first + page);
                self.latency.saturating_record(nanoseconds(touched.elapsed()));
            }
            self.pieces.push(began.elapsed().as_secs_f64());
        }
    }

    pub(super) fn length(&self) -> f64 {
        self.pages as f64 * rustix::param::page_size() as f64
    }

    /// Address of the first page that is used.
    pub(super) fn start(&self) -> u64 {
        self.region.address(self.first)
    }

    /// Whether an address is in the used part.
    pub(super) fn has(&self, address: u64) -> bool {
        let start = self.start();
        let length = self.pages as u64 * rustix::param::page_size() as u64;
        (start..start + length).contains(&address)
    }

    pub(super) fn values(&self) -> BTreeMap<String, f64> {
        let at = |share| self.latency.value_at_quantile(share) as f64 / 1e9;
        let sum = self.pieces.iter().sum();
        let values = [("p50", at(0.5)), ("p99", at(0.99)), ("p99.9", at(0.999)), ("start-up", sum)];
        values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// The course of the fill. All of the fill counts: there is no steady state to wait for.
    pub(super) fn course(self) -> Course {
        let latency_ns = count_by_powers_of_two(&self.latency);
        Course { iteration_seconds: self.pieces, settled_at: Some(0), latency_ns }
    }
}
