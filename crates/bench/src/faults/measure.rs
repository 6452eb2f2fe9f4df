// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is wanted and a [`Lender`] → rounds of measurements, which are then made into rows.
//!
//! Within a round each device is swap once, each `vm.page-cluster` is set once for it, and each kind of
//! memory and order is measured once with it: all in an order that changes from round to round.

use std::fs::File;

use fastrand::Rng;
use pagewise_model::lend::{
    GroupSpec, KnobSetting, Lender, LoanId, MemoryGroup, SwapArea, SwapSpec, ZramDevice, ZramSpec,
};
use pagewise_model::{Access, Refusal, SwappedKind};

use super::order::shuffled;
use super::rows::{Done, Key};
use super::run::{Lost, run};
use super::task::{Round, Task, What};
use super::wanted::{Control, Ended, Measured, Progress, Trouble, Wanted};
use super::{judge, rows};
use crate::stand_in::StandIn;

/// The knob that is borrowed.
const CLUSTER: &str = "vm.page-cluster";

/// Measures all that is wanted. `pages` is a file of pages to fill memory with, repeated where it holds
/// too few; those that one word fills are left out.
///
/// # Errors
/// Where there can be no cgroup. All else that is refused is a trouble of what was measured.
pub fn measure(
    lender: &mut dyn Lender,
    wanted: &Wanted,
    pages: &File,
    control: &mut Control<'_>,
) -> Result<Measured, Refusal> {
    let limit = Some(wanted.group_limit);
    let group = lender.lend_group(&GroupSpec { max: limit, ..GroupSpec::default() })?;
    let mut round = Rounds {
        lender,
        wanted,
        pages,
        control,
        group: &group,
        rng: Rng::with_seed(wanted.seed),
        progress: Progress { done: 0, of: measurements(wanted) },
        kept: Kept::default(),
    };
    let ended = round.all().err().unwrap_or(Ended::Complete);
    round.give_back("the cgroup", group.loan);
    let Rounds { kept, mut progress, control, .. } = round;
    if ended == Ended::Complete {
        progress.done = progress.of;
    }
    (control.progress)(progress);
    Ok(measured(wanted, kept, ended))
}

fn measured(wanted: &Wanted, kept: Kept, ended: Ended) -> Measured {
    let Kept { swap, files, troubles } = kept;
    Measured {
        rows: rows::rows(wanted, &swap),
        out: rows::out(wanted, &swap),
        effects: judge::effects(wanted, &swap),
        choices: judge::choices(wanted, &swap),
        ratios: judge::ratios(wanted, &swap, &files),
        troubles,
        ended,
    }
}

fn measurements(wanted: &Wanted) -> u32 {
    let number = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    let kinds = number(wanted.memory.len()) * number(wanted.access.len());
    let of_a_device = kinds * number(wanted.page_clusters.len());
    let devices = number(wanted.devices.len());
    let files = u32::from(wanted.file_folder.is_some());
    devices + wanted.rounds * (devices * of_a_device + files)
}

/// What is kept of the rounds.
#[derive(Debug, Default)]
struct Kept {
    swap: Vec<Done>,
    /// By round.
    files: Vec<(u32, Round)>,
    troubles: Vec<Trouble>,
}

impl Kept {
    fn trouble(&mut self, what: impl Into<String>, why: impl Into<String>) {
        let (what, why) = (what.into(), why.into());
        let same = |known: &&mut Trouble| known.what == what && known.why == why;
        match self.troubles.iter_mut().find(same) {
            Some(known) => known.times += 1,
            None => self.troubles.push(Trouble { what, why, times: 1 }),
        }
    }
}

struct Rounds<'a, 'b> {
    lender: &'a mut dyn Lender,
    wanted: &'a Wanted,
    pages: &'a File,
    control: &'a mut Control<'b>,
    group: &'a MemoryGroup,
    rng: Rng,
    progress: Progress,
    kept: Kept,
}

impl Rounds<'_, '_> {
    /// The warm-up is round 0.
    fn all(&mut self) -> Result<(), Ended> {
        let devices = self.devices();
        let mut ended = Ok(());
        for round in 0..=self.wanted.rounds {
            ended = self.round(round, &devices);
            if ended.is_err() {
                break;
            }
        }
        for (device, zram) in devices {
            self.give_back(&self.wanted.devices[device].to_string(), zram.loan);
        }
        ended
    }

    /// Borrows the devices; those that are refused are left out.
    fn devices(&mut self) -> Vec<(usize, ZramDevice)> {
        let mut lent = Vec::new();
        for (number, device) in self.wanted.devices.iter().enumerate() {
            let compressor = Some(device.clone());
            let spec = ZramSpec { compressor, ..ZramSpec::new(self.wanted.disksize) };
            match self.lender.lend_zram(&spec) {
                Ok(zram) => lent.push((number, zram)),
                Err(refused) => self.kept.trouble(device.to_string(), refused.to_string()),
            }
        }
        lent
    }

    fn round(&mut self, round: u32, devices: &[(usize, ZramDevice)]) -> Result<(), Ended> {
        if round > 0 {
            self.file(round)?;
        }
        for (device, zram) in shuffled(&mut self.rng, devices.iter().collect()) {
            let area = SwapArea::Lent(zram.device.clone());
            match self.lender.lend_swap(&SwapSpec { area, priority: None }) {
                Ok(loan) => {
                    let ended = self.clusters(round, *device);
                    self.give_back("swap", loan);
                    ended?;
                }
                Err(refused) => {
                    self.kept
                        .trouble(self.wanted.devices[*device].to_string(), refused.to_string());
                }
            }
        }
        Ok(())
    }

    fn clusters(&mut self, round: u32, device: usize) -> Result<(), Ended> {
        let mut clusters = shuffled(&mut self.rng, self.wanted.page_clusters.clone());
        if round == 0 {
            clusters.truncate(1);
        }
        for cluster in clusters {
            match self.lender.lend_knob(&KnobSetting::new(CLUSTER, cluster.to_string())) {
                Ok(loan) => {
                    let ended = self.combinations(round, device, cluster);
                    self.give_back(CLUSTER, loan);
                    ended?;
                }
                Err(refused) => {
                    self.kept.trouble(format!("{CLUSTER} {cluster}"), refused.to_string());
                }
            }
        }
        Ok(())
    }

    fn combinations(&mut self, round: u32, device: usize, cluster: u32) -> Result<(), Ended> {
        let orders = |memory: &SwappedKind| {
            let memory = *memory;
            self.wanted.access.iter().map(move |access| (memory, *access))
        };
        let all: Vec<(SwappedKind, Access)> = self.wanted.memory.iter().flat_map(orders).collect();
        let mut all = shuffled(&mut self.rng, all);
        if round == 0 {
            all.truncate(1);
        }
        for (memory, access) in all {
            let key = Key { device, memory, access, cluster };
            let what = What::Swap { memory, access };
            let done =
                self.one(what, self.wanted.pages).map(|figures| Done { round, key, figures });
            match done.and_then(|done| usable(done, self.wanted.pages)) {
                Ok(done) if round > 0 => self.kept.swap.push(done),
                Ok(_) => {}
                Err(Lost::Over(ended)) => return Err(ended),
                Err(Lost::Failed(why)) => self.kept.trouble(self.named(key), why),
            }
        }
        Ok(())
    }

    fn file(&mut self, round: u32) -> Result<(), Ended> {
        let Some(folder) = self.wanted.file_folder.clone() else { return Ok(()) };
        let what = format!("a file in {}", folder.display());
        let pages = StandIn::new(self.wanted.file_ratio, self.wanted.seed);
        let figures = self.one(What::File { folder, pages }, self.wanted.file_pages);
        match figures.and_then(|figures| dropped(figures, self.wanted.file_pages)) {
            Ok(figures) => self.kept.files.push((round, figures)),
            Err(Lost::Over(ended)) => return Err(ended),
            Err(Lost::Failed(why)) => self.kept.trouble(what, why),
        }
        Ok(())
    }

    /// One worker.
    fn one(&mut self, what: What, pages: usize) -> Result<Round, Lost> {
        if let Some(ended) = self.control.over() {
            return Err(Lost::Over(ended));
        }
        (self.control.progress)(self.progress);
        self.progress.done += 1;
        let (group, seed) = (self.group.folder.clone(), self.rng.u64(..));
        let task = Task { parent: std::process::id(), group, pages, seed, what };
        run(&self.wanted.program, &task, self.pages, self.control)
    }

    fn named(&self, key: Key) -> String {
        let memory = match key.memory {
            SwappedKind::Private => "private",
            SwappedKind::Forked => "forked",
            SwappedKind::Shmem => "shmem",
        };
        let access = match key.access {
            Access::Sequential => "sequential",
            Access::Random => "random",
        };
        let device = &self.wanted.devices[key.device];
        format!("{device}, {memory}, {access}, page-cluster {}", key.cluster)
    }

    fn give_back(&mut self, what: &str, loan: LoanId) {
        if let Err(refused) = self.lender.return_loan(loan) {
            self.kept.trouble(format!("{what}, given back"), refused.to_string());
        }
    }
}

/// All but a hundredth, as a few pages may wait in lists of the kernel.
fn nearly(part: u64, pages: u64) -> bool {
    part >= pages - pages / 100
}

/// Whether a round shows what it was to show. A stranger's few pages do not spoil it.
fn usable(done: Done, pages: usize) -> Result<Done, Lost> {
    let Round { gone, out, swapped_in, major_faults, .. } = done.figures;
    let pages = u64::try_from(pages).unwrap_or(u64::MAX);
    let why = if !nearly(gone, pages) {
        format!("only {gone} of {pages} pages left memory: the device is full or took no more")
    } else if !nearly(out, pages) {
        format!("only {out} of {gone} pages that left memory reached the device (zswap?)")
    } else if !nearly(pages, out.max(swapped_in)) {
        let counted = format!("{out} pages out and {swapped_in} in");
        format!("something else on this machine swapped too: {counted}, and {pages} are ours")
    } else if major_faults == 0 {
        "no touch had to wait for a page".to_owned()
    } else {
        return Ok(done);
    };
    Err(Lost::Failed(why))
}

fn dropped(figures: Round, pages: usize) -> Result<Round, Lost> {
    if nearly(figures.gone, u64::try_from(pages).unwrap_or(u64::MAX)) {
        return Ok(figures);
    }
    let gone = figures.gone;
    Err(Lost::Failed(format!("only {gone} of {pages} pages of it left memory: is it kept there?")))
}
