// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures what a specification asks for, round by round, with stores from a [`Lender`].
//!
//! In each round, every store is the only swap for a while; during that time every
//! `vm.page-cluster` is set once, and every combination of memory and order is measured. The order
//! of all these changes from round to round.

use std::fs::File;

use fastrand::Rng;
use pagewise_model::lend::{GroupSpec, KnobSetting, Lender, LoanId, MemoryGroup};
use pagewise_model::{Access, Refusal, StoreKind, SwappedKind};

use super::order::shuffle;
use super::rows::{Done, Key};
use super::run::{NoAnswer, run};
use super::spec::{Control, FaultResults, FaultSpec, FaultsEnd, Progress, Unmeasured};
use super::stores::{self, LentStore, LentStores};
use super::task::{Round, Task, TaskKind};
use super::{compare, judge, rows, writeback};
use crate::stand_in::StandIn;

/// The kernel setting that is borrowed for the measurement.
const CLUSTER: &str = "vm.page-cluster";
/// Name of the writeback measurement in error messages.
const WRITEBACK: &str = "writing back from zswap to the disk";

/// Measures everything in `spec`. `pages` is a file of pages to fill memory with, repeated if it
/// has too few; same-filled pages are left out.
///
/// # Errors
/// If no cgroup can be borrowed. Any other refusal is recorded in [`FaultResults::troubles`].
pub fn measure(
    lender: &mut dyn Lender,
    spec: &FaultSpec,
    pages: &File,
    control: &mut Control<'_>,
) -> Result<FaultResults, Refusal> {
    let limit = Some(spec.group_limit);
    let group = lender.lend_group(&GroupSpec { max: limit, ..GroupSpec::default() })?;
    let mut round = Rounds {
        lender,
        spec,
        pages,
        control,
        group: &group,
        rng: Rng::with_seed(spec.seed),
        progress: Progress { done: 0, of: count_measurements(spec) },
        kept: RoundSamples::default(),
    };
    let ended = round.measure_all().err().unwrap_or(FaultsEnd::Complete);
    round.return_loan_or_note("the cgroup", group.loan);
    let Rounds { kept, mut progress, control, .. } = round;
    if ended == FaultsEnd::Complete {
        progress.done = progress.of;
    }
    (control.progress)(progress);
    Ok(compute_results(spec, kept, ended))
}

fn compute_results(spec: &FaultSpec, kept: RoundSamples, ended: FaultsEnd) -> FaultResults {
    let RoundSamples { swap, files, writebacks, is_zswap_on_zram, troubles } = kept;
    FaultResults {
        rows: rows::rows(spec, &swap, is_zswap_on_zram),
        out: rows::swap_out_costs(spec, &swap),
        writebacks: rows::writeback_costs(spec, &writebacks),
        comparisons: compare::comparisons(spec, &swap),
        effects: judge::cluster_effects(spec, &swap),
        choices: judge::cluster_choices(spec, &swap),
        ratios: judge::cost_ratios(spec, &swap, &files),
        troubles,
        ended,
    }
}

fn count_measurements(spec: &FaultSpec) -> u32 {
    let number = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    let kinds = number(spec.memory.len()) * number(spec.access.len());
    let of_a_store = kinds * number(spec.page_clusters.len());
    let stores = number(spec.stores.len());
    let files = u32::from(spec.file_folder.is_some());
    let of_zswap = spec.stores.iter().filter(|store| store.kind == StoreKind::Zswap).count();
    stores + spec.rounds * (stores * of_a_store + files + number(of_zswap))
}

/// What was measured in all rounds.
#[derive(Debug, Default)]
struct RoundSamples {
    swap: Vec<Done>,
    /// Measurements of the file, each with the number of its round.
    files: Vec<(u32, Round)>,
    /// Measurements of zswap's writeback, each with the index of its store in
    /// [`FaultSpec::stores`].
    writebacks: Vec<(usize, Round)>,
    is_zswap_on_zram: bool,
    troubles: Vec<Unmeasured>,
}

impl RoundSamples {
    fn add_trouble(&mut self, what: impl Into<String>, why: impl Into<String>) {
        let (what, why) = (what.into(), why.into());
        let same = |known: &&mut Unmeasured| known.what == what && known.why == why;
        match self.troubles.iter_mut().find(same) {
            Some(known) => known.times += 1,
            None => self.troubles.push(Unmeasured { what, why, times: 1 }),
        }
    }
}

struct Rounds<'a, 'b> {
    lender: &'a mut dyn Lender,
    spec: &'a FaultSpec,
    pages: &'a File,
    control: &'a mut Control<'b>,
    group: &'a MemoryGroup,
    rng: Rng,
    progress: Progress,
    kept: RoundSamples,
}

impl Rounds<'_, '_> {
    /// Runs all rounds; round 0 is the warm-up.
    fn measure_all(&mut self) -> Result<(), FaultsEnd> {
        let LentStores { stores, is_zswap_on_zram, refused, loans } =
            stores::borrow_stores(self.lender, self.spec);
        self.kept.is_zswap_on_zram = is_zswap_on_zram;
        refused.into_iter().for_each(|(what, why)| self.kept.add_trouble(what, why));
        let mut ended = Ok(());
        let until = self.control.until.take();
        for round in 0..=self.spec.rounds {
            // the first round has no deadline, so that each combination is measured at least once
            // even on a busy machine
            self.control.until = until.filter(|_| round > 1);
            ended = self.run_round(round, &stores);
            if ended.is_err() {
                break;
            }
        }
        for (what, loan) in loans {
            self.return_loan_or_note(&what, loan);
        }
        ended
    }

    fn run_round(&mut self, round: u32, stores: &[LentStore]) -> Result<(), FaultsEnd> {
        if round > 0 {
            self.measure_file(round)?;
        }
        for store in shuffle(&mut self.rng, stores.iter().collect()) {
            self.run_with_store(store, |rounds| rounds.measure_clusters(round, store))?;
            if round > 0 {
                self.measure_writeback(store)?;
            }
        }
        Ok(())
    }

    /// Runs `measure` with this store as the only swap.
    fn run_with_store(
        &mut self,
        store: &LentStore,
        measure: impl FnOnce(&mut Self) -> Result<(), FaultsEnd>,
    ) -> Result<(), FaultsEnd> {
        match stores::make_only_swap(self.lender, self.spec, store) {
            Ok(loans) => {
                let ended = measure(self);
                if let Err(refused) = stores::return_loans(self.lender, loans) {
                    self.kept.add_trouble("swap, given back", refused.to_string());
                }
                ended
            }
            Err(refused) => {
                let what = stores::label(&self.spec.stores[store.number]);
                self.kept.add_trouble(what, refused.to_string());
                Ok(())
            }
        }
    }

    /// Measures zswap's writeback. Not possible if a zram device is behind zswap instead of a disk,
    /// because zram would compress the written pages again.
    fn measure_writeback(&mut self, store: &LentStore) -> Result<(), FaultsEnd> {
        let Some(shrinking) = stores::with_shrinker(store) else { return Ok(()) };
        let why = if self.kept.is_zswap_on_zram {
            "no disk stands behind zswap here"
        } else if !writeback::is_possible(&self.group.folder) {
            "the kernel does this on request only in cgroups of version 2 (memory.reclaim)"
        } else {
            return self.run_with_store(&shrinking, |rounds| rounds.write_back(store.number));
        };
        self.progress.done += 1;
        self.kept.add_trouble(WRITEBACK, why);
        Ok(())
    }

    fn write_back(&mut self, number: usize) -> Result<(), FaultsEnd> {
        let figures = self.measure_round(TaskKind::Writeback, self.spec.pages);
        match figures.and_then(check_written_back) {
            Ok(figures) => self.kept.writebacks.push((number, figures)),
            Err(NoAnswer::Over(ended)) => return Err(ended),
            Err(NoAnswer::Failed(why)) => {
                let store = stores::label(&self.spec.stores[number]);
                self.kept.add_trouble(format!("{store}, {WRITEBACK}"), why);
            }
        }
        Ok(())
    }

    fn measure_clusters(&mut self, round: u32, store: &LentStore) -> Result<(), FaultsEnd> {
        let mut clusters = shuffle(&mut self.rng, self.spec.page_clusters.clone());
        if round == 0 {
            clusters.truncate(1);
        }
        for cluster in clusters {
            match self.lender.lend_knob(&KnobSetting::new(CLUSTER, cluster.to_string())) {
                Ok(loan) => {
                    let ended = self.measure_combinations(round, store, cluster);
                    self.return_loan_or_note(CLUSTER, loan);
                    ended?;
                }
                Err(refused) => {
                    self.kept.add_trouble(format!("{CLUSTER} {cluster}"), refused.to_string());
                }
            }
        }
        Ok(())
    }

    fn measure_combinations(
        &mut self,
        round: u32,
        store: &LentStore,
        cluster: u32,
    ) -> Result<(), FaultsEnd> {
        let orders = |memory: &SwappedKind| {
            let memory = *memory;
            self.spec.access.iter().map(move |access| (memory, *access))
        };
        let all: Vec<(SwappedKind, Access)> = self.spec.memory.iter().flat_map(orders).collect();
        let mut all = shuffle(&mut self.rng, all);
        if round == 0 {
            all.truncate(1);
        }
        for (memory, access) in all {
            let key = Key { store: store.number, memory, access, cluster };
            let what = TaskKind::Swap { memory, access, pool: store.pool };
            let done = self.measure_round(what, self.spec.pages).map(|figures| Done {
                round,
                key,
                figures,
            });
            match done.and_then(|done| check_usable(done, self.spec.pages)) {
                Ok(done) if round > 0 => self.kept.swap.push(done),
                Ok(_) => {}
                Err(NoAnswer::Over(ended)) => return Err(ended),
                Err(NoAnswer::Failed(why)) => self.kept.add_trouble(self.describe(key), why),
            }
        }
        Ok(())
    }

    fn measure_file(&mut self, round: u32) -> Result<(), FaultsEnd> {
        let Some(folder) = self.spec.file_folder.clone() else { return Ok(()) };
        let what = format!("a file in {}", folder.display());
        let pages = StandIn::new(self.spec.file_ratio, self.spec.seed);
        let figures = self.measure_round(TaskKind::File { folder, pages }, self.spec.file_pages);
        match figures.and_then(|figures| check_dropped(figures, self.spec.file_pages)) {
            Ok(figures) => self.kept.files.push((round, figures)),
            Err(NoAnswer::Over(ended)) => return Err(ended),
            Err(NoAnswer::Failed(why)) => self.kept.add_trouble(what, why),
        }
        Ok(())
    }

    /// Runs one worker and returns what it measured.
    fn measure_round(&mut self, what: TaskKind, pages: usize) -> Result<Round, NoAnswer> {
        if let Some(ended) = self.control.why_over() {
            return Err(NoAnswer::Over(ended));
        }
        (self.control.progress)(self.progress);
        self.progress.done += 1;
        let (group, seed) = (self.group.folder.clone(), self.rng.u64(..));
        let task = Task { parent: std::process::id(), group, pages, seed, what };
        run(&self.spec.program, &task, self.pages, self.control)
    }

    fn describe(&self, key: Key) -> String {
        let memory = match key.memory {
            SwappedKind::Private => "private",
            SwappedKind::Forked => "forked",
            SwappedKind::Shmem => "shmem",
        };
        let access = match key.access {
            Access::Sequential => "sequential",
            Access::Random => "random",
        };
        let store = stores::label(&self.spec.stores[key.store]);
        format!("{store}, {memory}, {access}, page-cluster {}", key.cluster)
    }

    fn return_loan_or_note(&mut self, what: &str, loan: LoanId) {
        if let Err(refused) = self.lender.return_loan(loan) {
            self.kept.add_trouble(format!("{what}, given back"), refused.to_string());
        }
    }
}

/// Whether `part` is at least 99 % of the pages; the others may be in the kernel's per-CPU lists.
fn is_nearly_all(part: u64, pages: u64) -> bool {
    part >= pages - pages / 100
}

/// Returns the round if it is valid. Some swapped pages of other processes are tolerated.
fn check_usable(done: Done, pages: usize) -> Result<Done, NoAnswer> {
    let Round { gone, out, swapped_in, major_faults, backing, .. } = done.figures;
    let pages = u64::try_from(pages).unwrap_or(u64::MAX);
    // pages that were written to a disk stay in the swap cache until the write is complete
    let in_cache = backing.map_or(0, |backing| backing.written);
    let why = if !is_nearly_all(gone + in_cache, pages) {
        format!("only {gone} of {pages} pages left memory: the device is full or took no more")
    } else if !is_nearly_all(out, pages) {
        format!("only {out} of {gone} pages that left memory reached the device (zswap?)")
    } else if !is_nearly_all(pages, out.max(swapped_in)) {
        let counted = format!("{out} pages out and {swapped_in} in");
        format!("something else on this machine swapped too: {counted}, and {pages} are ours")
    } else if major_faults == 0 {
        "no touch had to wait for a page".to_owned()
    } else {
        return Ok(done);
    };
    Err(NoAnswer::Failed(why))
}

/// Whether enough pages were written back to determine the cost of writing back.
fn check_written_back(figures: Round) -> Result<Round, NoAnswer> {
    let Round { out, written_back, .. } = figures;
    if written_back >= (out / 10).max(1) {
        return Ok(figures);
    }
    Err(NoAnswer::Failed(format!(
        "the kernel wrote back only {written_back} of the {out} pages in the pool"
    )))
}

fn check_dropped(figures: Round, pages: usize) -> Result<Round, NoAnswer> {
    if is_nearly_all(figures.gone, u64::try_from(pages).unwrap_or(u64::MAX)) {
        return Ok(figures);
    }
    let gone = figures.gone;
    Err(NoAnswer::Failed(format!(
        "only {gone} of {pages} pages of it left memory: is it kept there?"
    )))
}
