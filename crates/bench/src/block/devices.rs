// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Benchmarks zram devices: borrows a device for each candidate algorithm, fills it, measures all
//! devices together with the references, and returns the devices. The result is a [`Bench`].

use std::cell::OnceCell;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Instant;

use pagewise_model::lend::{Lender, LoanId, ZramDevice, ZramSpec};
use pagewise_model::{Bytes, Compressor, Direction, Refusal};
use pagewise_observe::HostRoot;

use super::contest::{ContestResults, Watch, measure};
use super::contestant::Contestant;
use super::error::Error;
use super::outcome::{Bench, Entrant};
use super::pace::Progress;
use super::pages::Pages;
use super::plan::Plan;
use super::reference::{self, Disk};
use super::room::{self, MemoryNeeds};
use super::spec::BlockSpec;
use super::store::{Device, Store};
use super::zram::{fill, read_filled};
use crate::stand_in::StandIn;

/// Measures zram devices that `lender` provides, all filled with `pages`, and returns the devices.
///
/// If no candidate gets a device, nothing is measured; the reasons are in [`Bench::failures`].
///
/// # Errors
/// If there are no pages, or if memory is too small for the devices.
pub fn measure_devices(
    lender: &mut dyn Lender,
    host: &HostRoot,
    pages: &Pages,
    spec: &BlockSpec,
    watch: &mut Watch<'_>,
) -> Result<Bench, Error> {
    let began = Instant::now();
    if pages.count() == 0 {
        return Err(Error::NoPages);
    }
    let all = Bytes::new(pages.bytes().len() as u64);
    // references that need memory of their own: the noise, the tmpfs and the stand-in pages
    let references = if spec.references { 3 } else { usize::from(spec.disk.is_some()) };
    let needs = MemoryNeeds { devices: spec.candidates.len(), references };
    let span = room::choose_span(host, all, needs)?;
    let (noise, stand_in) = (reference::make_noise(spec.seed), OnceCell::new());
    let mut field = Field::new(lender, host, pages, spec, span);
    field.add_candidates(watch);
    if !field.contestants.is_empty() {
        field.add_references(&noise, &stand_in, watch);
    }
    let budget = spec.budget.saturating_sub(began.elapsed());
    let plan = Plan { budget, ..spec.plan() };
    let calm = field.first_calm_cell();
    let stopped = watch.stop.load(Ordering::Relaxed);
    let contestants = if stopped { &[] } else { field.contestants.as_slice() };
    let measured = measure(contestants, &plan, calm, watch);
    let (entrants, failures) = field.return_devices();
    let page = pages.page_size();
    let shortened = span < all;
    let ContestResults { cells, rounds_left_out, noise, stopped } = measured;
    Ok(Bench { entrants, cells, rounds_left_out, failures, span, shortened, noise, stopped, page })
}

/// The contestants of a run while they are being prepared.
struct Field<'a> {
    lender: &'a mut dyn Lender,
    host: &'a HostRoot,
    pages: &'a Pages,
    spec: &'a BlockSpec,
    span: Bytes,
    loans: Vec<LoanId>,
    entrants: Vec<Entrant>,
    contestants: Vec<Contestant<'a>>,
    failures: Vec<Refusal>,
}

impl<'a> Field<'a> {
    fn new(
        lender: &'a mut dyn Lender,
        host: &'a HostRoot,
        pages: &'a Pages,
        spec: &'a BlockSpec,
        span: Bytes,
    ) -> Self {
        let (loans, entrants, contestants) = (Vec::new(), Vec::new(), Vec::new());
        let failures = Vec::new();
        Self { lender, host, pages, spec, span, loans, entrants, contestants, failures }
    }

    fn add_candidates(&mut self, watch: &mut Watch<'_>) {
        let requested = self.spec;
        for candidate in &requested.candidates {
            if watch.stop.load(Ordering::Relaxed) {
                return;
            }
            self.report(watch, format!("filling {candidate}"));
            if let Err(failure) = self.add_candidate(candidate, watch) {
                self.failures.push(failure);
            }
        }
    }

    fn add_candidate(&mut self, candidate: &Compressor, watch: &Watch<'_>) -> Result<(), Refusal> {
        let who = candidate.to_string();
        let (zram, device) = self.borrow_device(&who, Some(candidate.clone()), self.span)?;
        let began = Instant::now();
        let done =
            fill(&device, self.pages, self.span, watch.stop).map_err(|e| refusal_for(&who, &e))?;
        if !done {
            return Ok(());
        }
        let filled = read_filled(self.host, &zram, began, self.pages.page_size());
        self.entrants.push(Entrant::Algorithm { candidate: candidate.clone(), filled });
        let shapes = self.spec.shapes(&self.spec.jobs, &self.spec.directions);
        let (store, pages) = (Box::new(device), Some(self.pages));
        self.contestants.push(Contestant { label: who, store, pages, span: self.span, shapes });
        Ok(())
    }

    fn borrow_device(
        &mut self,
        who: &str,
        compressor: Option<Compressor>,
        disksize: Bytes,
    ) -> Result<(ZramDevice, Device), Refusal> {
        let spec = ZramSpec { compressor, ..ZramSpec::new(disksize) };
        let zram = self.lender.lend_zram(&spec).map_err(|refused| refused.within(who))?;
        self.loans.push(zram.loan);
        let device = Device::open(&zram.device).map_err(|error| refusal_for(who, &error))?;
        Ok((zram, device))
    }

    /// Index of the first cell of the block path if it is measured, otherwise 0.
    fn first_calm_cell(&self) -> usize {
        let references = |one: &Entrant| matches!(one, Entrant::Reference { .. });
        let before = self.entrants.iter().position(references).unwrap_or(0);
        self.contestants.iter().take(before).map(|one| one.shapes.len()).sum()
    }

    /// Adds the references to the contestants. The real pages are only stored in memory and on
    /// zram; a file on a disk gets stand-in pages.
    fn add_references(
        &mut self,
        noise: &'a Pages,
        stand_in: &'a OnceCell<Pages>,
        watch: &mut Watch<'_>,
    ) {
        if self.spec.references {
            self.report(watch, "filling references".to_owned());
            self.add_block_path(noise, watch).unwrap_or_else(|failure| self.failures.push(failure));
            let pages = stand_in.get_or_init(|| self.make_stand_in());
            self.add_tmpfs(pages, watch).unwrap_or_else(|failure| self.failures.push(failure));
            self.add_copy();
        }
        if let Some(disk) = &self.spec.disk {
            self.report(watch, "filling the disk's file".to_owned());
            let pages = stand_in.get_or_init(|| self.make_stand_in());
            self.add_disk(disk, pages, watch).unwrap_or_else(|failure| self.failures.push(failure));
        }
    }

    /// Adds a zram device with incompressible data, and after it a range of the same size that is
    /// never written.
    fn add_block_path(&mut self, noise: &'a Pages, watch: &Watch<'_>) -> Result<(), Refusal> {
        let who = "block path";
        let span = Bytes::new(self.span.get().min(reference::MOST));
        let has_lz4 = self.spec.candidates.iter().any(|one| one.algorithm.as_str() == "lz4");
        let lz4 = has_lz4.then(|| Compressor::new("lz4"));
        let (_, device) = self.borrow_device(who, lz4, span.saturating_add(span))?;
        let hole = device.at_offset(span.get()).map_err(|error| refusal_for(who, &error))?;
        if fill(&device, noise, span, watch.stop).map_err(|error| refusal_for(who, &error))? {
            let what = "zram with data that does not compress: the way without an algorithm when \
                        read; when written, the algorithm tries";
            self.add_reference(
                ReferenceLabel { name: who, layer: "block", what },
                device,
                Some(noise),
                span,
            );
            let what = "blocks of zram that were never written: the way without data";
            self.add_reference(
                ReferenceLabel { name: "zram hole", layer: "block", what },
                hole,
                None,
                span,
            );
        }
        Ok(())
    }

    /// Stand-in pages for a reference; their compression ratio is that of the real pages with the
    /// first algorithm.
    fn make_stand_in(&self) -> Pages {
        let ratio = self.entrants.iter().find_map(|entrant| match entrant {
            Entrant::Algorithm { filled, .. } => filled.original_per_compressed,
            Entrant::Reference { .. } => None,
        });
        let size = self.pages.page_size().get();
        let count = self.span.get().min(reference::MOST).div_ceil(size);
        reference::make_stand_in(&StandIn::new(ratio, self.spec.seed), count)
    }

    fn add_tmpfs(&mut self, pages: &'a Pages, watch: &Watch<'_>) -> Result<(), Refusal> {
        let who = "tmpfs";
        let span = Bytes::new(self.span.get().min(reference::MOST));
        let device =
            reference::create_on_tmpfs(span.get()).map_err(|error| refusal_for(who, &error))?;
        if fill(&device, pages, span, watch.stop).map_err(|error| refusal_for(who, &error))? {
            let what = "a file in memory: a file system instead of a block device";
            self.add_reference(
                ReferenceLabel { name: who, layer: "file", what },
                device,
                Some(pages),
                span,
            );
        }
        Ok(())
    }

    fn add_copy(&mut self) {
        let what = "a copy from memory to memory, without any request";
        let copy = reference::Copy(self.pages);
        self.add_reference(
            ReferenceLabel { name: "memory copy", layer: "memory", what },
            copy,
            None,
            self.span,
        );
    }

    fn add_disk(
        &mut self,
        disk: &'a Disk,
        stand_in: &'a Pages,
        watch: &Watch<'_>,
    ) -> Result<(), Refusal> {
        let who = "disk";
        let (device, span) =
            reference::open_disk(disk, self.span.get()).map_err(|e| refusal_for(who, &e))?;
        let (span, mut pages) = (Bytes::new(span), None);
        if matches!(disk, Disk::Write(_)) {
            let done =
                fill(&device, stand_in, span, watch.stop).map_err(|e| refusal_for(who, &e))?;
            if !done {
                return Ok(());
            }
            pages = Some(stand_in);
        }
        let what = "the disk that swap would go to";
        self.add_reference(ReferenceLabel { name: who, layer: "block", what }, device, pages, span);
        Ok(())
    }

    /// Adds a reference to the contestants. It is measured for reading; if it has contents, also
    /// for writing.
    fn add_reference(
        &mut self,
        label: ReferenceLabel,
        store: impl Store + 'a,
        pages: Option<&'a Pages>,
        span: Bytes,
    ) {
        let fewest: Vec<u32> = self.spec.jobs.iter().copied().min().into_iter().collect();
        let can = |way: &&Direction| pages.is_some() || **way == Direction::Read;
        let ways: Vec<Direction> = self.spec.directions.iter().filter(can).copied().collect();
        let shapes = self.spec.shapes(&fewest, &ways);
        let ReferenceLabel { name, layer, what } = label;
        self.entrants.push(Entrant::Reference { name, layer, what });
        let (label, store) = (name.to_owned(), Box::new(store));
        self.contestants.push(Contestant { label, store, pages, span, shapes });
    }

    /// Reports progress before the first slice, when only the time budget is known.
    fn report(&self, watch: &mut Watch<'_>, what: String) {
        (watch.progress)(&Progress { done: 0, total: 0, left: self.spec.budget, what });
    }

    /// Returns the borrowed devices to the lender. All are closed first, because an open zram
    /// device cannot be reset.
    fn return_devices(mut self) -> (Vec<Entrant>, Vec<Refusal>) {
        self.contestants.clear();
        for loan in self.loans {
            if let Err(refused) = self.lender.return_loan(loan) {
                self.failures.push(refused.within("giving back"));
            }
        }
        (self.entrants, self.failures)
    }
}

/// What a reference is called in the results.
#[derive(Debug, Clone, Copy)]
struct ReferenceLabel {
    name: &'static str,
    /// The layer that the requests reach: a block device, a file or memory.
    layer: &'static str,
    /// What this reference shows, in words for the user.
    what: &'static str,
}

fn refusal_for(who: &str, error: &io::Error) -> Refusal {
    Refusal::new(who, error.to_string())
}
