// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the same pages with user-space compression libraries that correspond to the kernel's
//! algorithms, for hosts on which no zram device can be created. Neither the kernel nor the block
//! layer takes part; memory used is computed as zsmalloc would store the compressed sizes.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use pagewise_bench::block::{BlockSpec, Filled, FilledStore, Pages, Store, measure_stores};
use pagewise_model::{BenchLayer, Compressor, Refusal};
use pagewise_pages::codec::{Algorithm, DEFAULTS};
use pagewise_pages::packer::Packer;

use super::pages::Drawn;
use super::times::Times;
use super::{BenchResults, Setting};
use crate::verbs::scan::kernel;

pub(super) fn measure(
    setting: &Setting<'_>,
    drawn: &Drawn,
    mut not_measured: Vec<Refusal>,
) -> anyhow::Result<BenchResults> {
    let times = Times::estimate(setting.args);
    let mut ready = Vec::new();
    for candidate in candidates(setting) {
        match measure_codec(setting, &candidate, &drawn.pages) {
            Ok((store, filled)) => {
                ready.push(FilledStore { candidate, store: Box::new(store), filled });
            }
            Err(why) => {
                let what = candidate.to_string();
                not_measured.push(Refusal::new(what, why.to_string()));
            }
        }
    }
    let (seed, blocks) = (setting.args.seed, times.blocks());
    let requested =
        BlockSpec { seed, blocks, ..BlockSpec::new(Vec::new(), times.block, times.block_rounds) };
    let block = setting
        .with_progress("libraries", |watch| measure_stores(ready, &drawn.pages, &requested, watch));
    let notes = drawn.notes.clone();
    Ok(BenchResults { layer: BenchLayer::Codecs, block, swap: Vec::new(), not_measured, notes })
}

/// The requested compression algorithms, or else all that a library exists for.
fn candidates(setting: &Setting<'_>) -> Vec<Compressor> {
    let all = DEFAULTS.into_iter().filter(|one| Packer::new(*one).is_some());
    if setting.args.algorithm.is_empty() {
        all.map(Compressor::from).collect()
    } else {
        setting.args.algorithm.clone()
    }
}

/// Why an algorithm cannot be measured with a library.
#[derive(Debug, thiserror::Error)]
enum NoLibrary {
    #[error(transparent)]
    Unknown(#[from] pagewise_pages::codec::NoSuchAlgorithm),
    #[error("no library makes what the kernel's {0} makes; its sizes: pagewise scan")]
    None(&'static str),
    #[error("the library: {0}")]
    Failed(#[from] io::Error),
}

fn measure_codec(
    setting: &Setting<'_>,
    candidate: &Compressor,
    pages: &Pages,
) -> Result<(Packed, Filled), NoLibrary> {
    let algorithm = Algorithm::try_from(candidate)?;
    let slots = (0..pages.count()).map(|_| Mutex::default()).collect();
    let store = Packed::new(algorithm, rustix::param::page_size(), slots);
    let store = store.ok_or(NoLibrary::None(algorithm.name()))?;
    store.write_at(0, pages.bytes())?;
    let filled = store.fill_state(kernel::own_kernel(setting.snapshot));
    Ok((store, filled))
}

/// The compressed pages in memory, one slot for each page, and the compressor.
struct Packed {
    algorithm: Algorithm,
    page: usize,
    slots: Arc<[Mutex<Vec<u8>>]>,
    packer: Mutex<Packer>,
}

fn lock<T>(what: &Mutex<T>) -> io::Result<MutexGuard<'_, T>> {
    what.lock().map_err(|_| io::Error::other("a thread that held it ended early"))
}

impl Packed {
    /// A store for compressed pages in these slots, with a compressor of its own; `None` if no
    /// library exists for the algorithm.
    fn new(algorithm: Algorithm, page: usize, slots: Arc<[Mutex<Vec<u8>>]>) -> Option<Self> {
        Some(Self { algorithm, page, slots, packer: Mutex::new(Packer::new(algorithm)?) })
    }

    fn slot(&self, number: usize) -> io::Result<MutexGuard<'_, Vec<u8>>> {
        lock(self.slots.get(number).ok_or(io::ErrorKind::UnexpectedEof)?)
    }

    /// The slot of the first page of a request.
    fn first_slot(&self, offset: u64) -> io::Result<usize> {
        usize::try_from(offset / self.page as u64).map_err(io::Error::other)
    }

    fn fill_state(&self, kernel: pagewise_pages::kernel::Kernel) -> Filled {
        let pool = kernel.pool_for_page_size(self.page);
        let mut stored = pool.empty_class_pages();
        let (mut packed, mut huge) = (0, 0);
        for slot in self.slots.iter().filter_map(|slot| slot.lock().ok()) {
            let is_huge = slot.len() >= pool.huge_threshold();
            huge += u64::from(is_huge);
            packed += if is_huge { self.page } else { slot.len() };
            stored.add(&pool, slot.len());
        }
        let all = self.slots.len() * self.page;
        Filled {
            original_per_compressed: (packed > 0).then(|| all as f64 / packed as f64),
            memory_used: Some(pool.used_after_fresh_fill(&stored)),
            same_filled_pages: None,
            huge_pages: Some(pagewise_model::Pages::new(huge)),
            seconds: 0.0,
        }
    }
}

impl Store for Packed {
    fn for_one_job(&self) -> io::Result<Box<dyn Store + '_>> {
        let same = Self::new(self.algorithm, self.page, self.slots.clone());
        Ok(Box::new(same.ok_or(io::ErrorKind::Unsupported)?))
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let first = self.first_slot(offset)?;
        for (number, page) in into.chunks_exact_mut(self.page).enumerate() {
            let slot = self.slot(first + number)?;
            lock(&self.packer)?.unpack(&slot, page).map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, from: &[u8]) -> io::Result<()> {
        let first = self.first_slot(offset)?;
        for (number, page) in from.chunks_exact(self.page).enumerate() {
            let mut slot = self.slot(first + number)?;
            lock(&self.packer)?.pack(page, &mut slot).map_err(io::Error::other)?;
        }
        Ok(())
    }
}
