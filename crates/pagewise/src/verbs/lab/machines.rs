// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a cell of an experiment on its machine: this host with temporary settings, or a guest.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use pagewise_guest::cache::Cache;
use pagewise_guest::kernel::{self, Kernel};
use pagewise_guest::qemu::{self, Outcome};
use pagewise_lab::experiment::{Control, ExperimentError, ExperimentRuns, TrialEvent, conduct};
use pagewise_lab::library::{self, Cell, GuestReport, GuestRun, Machine, Runner};
use pagewise_lab::redaction::Redaction;
use pagewise_model::{Name, Reading, Refusal, Snapshot, Source, TrialRun};
use pagewise_stats::Experiment;
use pagewise_terminal::Global;
use pagewise_terminal::interrupt::Stop;
use pagewise_terminal::progress::Measuring;
use serde_json::Value;

use super::evidence::Folder;
use super::guest::outcome_in_words;
use super::to_refusal;
use crate::cli::lab::LabRun;
use crate::host_loans::HostLoans;

/// What is needed to run the cells of an experiment.
pub(super) struct Machines<'a> {
    global: &'a Global,
    host: &'a Snapshot,
    stop: &'a Stop,
    /// Whether an arm may use its own swap although the host uses other swap.
    shares_swap: bool,
    /// Whether guests start at once instead of waiting for other guests.
    now: bool,
}

/// The result of running a cell of an experiment.
pub(super) struct CellOutcome {
    /// The experiment with the clock by which it was measured.
    pub(super) experiment: Experiment,
    pub(super) runs: Vec<TrialRun>,
    /// The facts about the machine on which the cell ran.
    pub(super) snapshot: Snapshot,
    /// What ended the cell early, if anything did.
    pub(super) trouble: Option<Refusal>,
    /// Whether the user stopped the cell.
    pub(super) stopped: bool,
    /// Whether all temporary changes of this host were undone.
    pub(super) is_all_back: bool,
    /// The folder with the cell's runs, if evidence was requested.
    pub(super) evidence: Option<Folder>,
    on_host: bool,
}

impl CellOutcome {
    /// Whether the cell has results to show.
    pub(super) fn has_pairs(&self) -> bool {
        self.runs.iter().any(|run| run.pair.is_some())
    }

    /// CPU time of the commands on this host; 0 for guests.
    pub(super) fn own_cpu_seconds(&self) -> f64 {
        let runs = self.runs.iter().filter(|_| self.on_host);
        runs.filter_map(|run| run.values.get("cpu")).sum()
    }
}

/// The parts of a cell's evidence that are known before the cell runs.
#[derive(Debug)]
pub(super) struct EvidencePlan<'a> {
    /// Path of the folder of evidence; `None` if no evidence was requested.
    pub(super) folder: Option<&'a Path>,
    /// The origin of the experiment.
    pub(super) source: Value,
    /// Whether the evidence keeps the host name and command lines.
    pub(super) keeps_names: bool,
}

impl EvidencePlan<'_> {
    fn make(&self, experiment: &Experiment, machine: &Snapshot) -> anyhow::Result<Option<Folder>> {
        let make = |path| {
            let redaction = Redaction::new(self.keeps_names);
            Folder::new(path, experiment, machine, self.source.clone(), redaction)
        };
        self.folder.map(make).transpose()
    }
}

/// Refuses options that would fail or have no effect, before any file is made.
pub(super) fn check(cells: &[Cell], now: bool) -> anyhow::Result<()> {
    let on_host = cells.iter().any(|cell| cell.runner == Runner::Host);
    if now && cells.iter().all(|cell| cell.runner == Runner::Host) {
        let what = "lab run: --now starts guests at once, but this experiment runs on this host";
        bail!(Refusal::with_advice(what.to_owned(), "omit --now, or add --runner guest"));
    }
    if on_host && !rustix::process::geteuid().is_root() {
        let what = "lab run: swap, settings and cgroups of this host are borrowed by root only";
        let next = "run it as root, or in guests, which need no root: --runner guest";
        bail!(Refusal::with_advice(what.to_owned(), next));
    }
    Ok(())
}

impl<'a> Machines<'a> {
    pub(super) fn new(
        (global, wanted): (&'a Global, &LabRun),
        host: &'a Snapshot,
        stop: &'a Stop,
    ) -> Self {
        Self { global, host, stop, shares_swap: wanted.allow_shared_swap, now: wanted.now }
    }

    /// Runs a cell until it ends, fails or is stopped. The folder is made before the first run.
    pub(super) fn run(&self, cell: &Cell, plan: &EvidencePlan<'_>) -> anyhow::Result<CellOutcome> {
        match &cell.runner {
            Runner::Host => self.run_on_host(cell, plan),
            Runner::Guest(machine) => self.run_in_guest(cell, machine, plan),
        }
    }

    fn run_on_host(&self, cell: &Cell, plan: &EvidencePlan<'_>) -> anyhow::Result<CellOutcome> {
        let mut loans = HostLoans::for_arms(&cell.experiment, self.shares_swap)?;
        let evidence = plan.make(&cell.experiment, self.host)?;
        let mut recorder = RunRecorder::start(self.global, cell, evidence);
        let mut on_event = |event: &TrialEvent| {
            recorder.on_event(event);
            ControlFlow::Continue(())
        };
        let mut control = Control { stop: self.stop.flag(), on_event: &mut on_event };
        let ExperimentRuns { runs, trouble, .. } =
            conduct(&cell.experiment, Some(&mut loans.session), &mut control);
        let evidence = recorder.finish();
        let is_all_back = loans.end_with_messages();
        let stopped = matches!(trouble, Some(ExperimentError::Stopped));
        Ok(CellOutcome {
            experiment: cell.experiment.clone(),
            runs,
            snapshot: self.host.clone(),
            trouble: trouble.map(to_refusal),
            stopped,
            is_all_back,
            evidence,
            on_host: true,
        })
    }

    fn run_in_guest(
        &self,
        cell: &Cell,
        machine: &Machine,
        plan: &EvidencePlan<'_>,
    ) -> anyhow::Result<CellOutcome> {
        let cache = Cache::open()?;
        let program = own_program()?;
        let mut recorder = RunRecorder::start(self.global, cell, None);
        let stop = self.stop.flag();
        let kernel =
            kernel::find(&machine.kernel, &cache, stop, &mut |line| recorder.print_note(line))?;
        let snapshot = snapshot_of_guest(&kernel, machine);
        let guest = library::guest_for(cell, machine, &program, self.now)?;
        let mut report = GuestReport::new(cell, machine);
        let mut not_made = None;
        let run = qemu::run(&guest, &kernel, &cache, stop, &mut |event| {
            let Some(event) = report.add(event) else { return ControlFlow::Continue(()) };
            if let TrialEvent::Clock(clock) = event {
                let experiment = Experiment { clock, ..cell.experiment.clone() };
                match plan.make(&experiment, &snapshot) {
                    Ok(folder) => recorder.evidence = folder,
                    Err(error) => {
                        not_made = Some(error);
                        return ControlFlow::Break(());
                    }
                }
            }
            recorder.on_event(&event);
            ControlFlow::Continue(())
        })?;
        let evidence = recorder.finish();
        not_made.map_or(Ok(()), Err)?;
        let result = report.finish(run);
        let stopped = result.guest.outcome == Outcome::Stopped;
        let trouble = why_incomplete(&result).filter(|_| !stopped);
        let GuestRun { experiment, runs, .. } = result;
        let (is_all_back, on_host) = (true, false);
        Ok(CellOutcome {
            experiment,
            runs,
            snapshot,
            trouble,
            stopped,
            is_all_back,
            evidence,
            on_host,
        })
    }
}

/// The executable of this process, which is also used in guests.
fn own_program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("finding this program's own file")
}

/// What is known about a guest before it runs.
fn snapshot_of_guest(kernel: &Kernel, machine: &Machine) -> Snapshot {
    let mut snapshot = Snapshot::default();
    snapshot.taken.kernel = Reading::found(Name::from(kernel.release.as_str()), Source::none());
    snapshot.memory.total = Reading::found(machine.memory, Source::none());
    snapshot
}

/// Why a guest's runs are incomplete: the reason that its conductor gave, or the outcome of the
/// guest; `None` if they are complete.
fn why_incomplete(run: &GuestRun) -> Option<Refusal> {
    if run.trouble.is_some() {
        return run.trouble.clone();
    }
    if run.done {
        return None;
    }
    let how = outcome_in_words(&run.guest);
    let how = how.unwrap_or_else(|| "the conductor in the guest ended early".to_owned());
    let last = run.errors.lines().chain(run.guest.log.iter().map(String::as_str)).last();
    let message =
        last.map(|line| format!("; last it said: {}", Name::from(line))).unwrap_or_default();
    let next = "the runs until then are kept with --evidence DIR";
    Some(Refusal::with_advice(format!("{how}{message}"), next))
}

/// Shows the progress of a cell, with messages above it, and writes each run to the evidence.
struct RunRecorder<'a> {
    bar: Measuring,
    global: &'a Global,
    cell: &'a Cell,
    /// The folder of evidence; `None` until it is made, or if none was requested.
    evidence: Option<Folder>,
}

impl<'a> RunRecorder<'a> {
    fn start(global: &'a Global, cell: &'a Cell, evidence: Option<Folder>) -> Self {
        Self { bar: Measuring::start(global, &cell.name), global, cell, evidence }
    }

    fn on_event(&mut self, event: &TrialEvent) {
        match event {
            TrialEvent::Begins { arm, run, of, .. } => self.bar.show_run(*run, *of, arm),
            TrialEvent::Ran(run) => {
                if let Some(folder) = &mut self.evidence {
                    folder.add_run(run);
                }
            }
            TrialEvent::Forecast(Some(forecast)) if !self.cell.preview => {
                self.print_note(&crate::verbs::trial::forecast_in_words(
                    &self.cell.experiment,
                    forecast,
                ));
            }
            TrialEvent::Note(line) => self.print_note(line),
            TrialEvent::Forecast(_)
            | TrialEvent::Clock(_)
            | TrialEvent::Trouble { .. }
            | TrialEvent::Done => {}
        }
    }

    fn print_note(&self, line: &str) {
        if !self.global.quiet {
            self.bar.note(line);
        }
    }

    /// Removes the progress bar, and returns the folder of evidence.
    fn finish(self) -> Option<Folder> {
        self.evidence
    }
}
