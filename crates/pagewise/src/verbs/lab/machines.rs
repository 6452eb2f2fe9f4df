// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A cell → its runs, on its machine: this host, with borrowed settings, or a guest.

use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::{Context, bail};
use pagewise_guest::cache::Cache;
use pagewise_guest::kernel::{self, Kernel};
use pagewise_guest::qemu::Outcome;
use pagewise_lab::experiment::{Control, ExperimentError, ExperimentRuns, TrialEvent, conduct};
use pagewise_lab::library::{self, Cell, Machine, Runner};
use pagewise_model::{Name, Reading, Refusal, Snapshot, Source, TrialForecast, TrialRun};
use pagewise_stats::Experiment;
use pagewise_terminal::Global;
use pagewise_terminal::interrupt::Stop;
use pagewise_terminal::progress::Measuring;

use super::evidence::Folder;
use super::guest::in_words;
use super::refusal;
use crate::cli::lab::LabRun;
use crate::host_loans::HostLoans;

/// What is needed to run cells.
pub(super) struct Machines<'a> {
    global: &'a Global,
    host: &'a Snapshot,
    stop: &'a Stop,
    /// Whether swap is lent although the host uses other swap.
    shares_swap: bool,
    keeps_names: bool,
    /// Whether guests start without waiting for others.
    now: bool,
}

/// The result of a cell.
pub(super) struct CellOutcome {
    /// The experiment with the clock by which it was measured.
    pub(super) experiment: Experiment,
    pub(super) runs: Vec<TrialRun>,
    /// The machine on which it ran.
    pub(super) snapshot: Snapshot,
    /// What ended it early, if anything did.
    pub(super) trouble: Option<Refusal>,
    /// Whether the user stopped it.
    pub(super) stopped: bool,
    /// Whether everything borrowed from this host was returned.
    pub(super) is_all_back: bool,
    on_host: bool,
}

impl CellOutcome {
    /// Whether there are results to show.
    pub(super) fn has_pairs(&self) -> bool {
        self.runs.iter().any(|run| run.pair.is_some())
    }

    /// CPU time of the commands on this host; 0 for guests.
    pub(super) fn own_cpu_seconds(&self) -> f64 {
        let runs = self.runs.iter().filter(|_| self.on_host);
        runs.filter_map(|run| run.values.get("cpu")).sum()
    }
}

/// Makes the folder for the evidence of an experiment on a machine; returns `None` if none was
/// requested.
type Keep<'a> = dyn FnMut(&Experiment, &Snapshot) -> anyhow::Result<Option<Folder>> + 'a;

/// Refuses options that would fail or have no effect, before any file is made.
pub(super) fn check(cells: &[Cell], now: bool) -> anyhow::Result<()> {
    let on_host = cells.iter().any(|cell| cell.runner == Runner::Host);
    if now && cells.iter().all(|cell| cell.runner == Runner::Host) {
        let what = "lab run: --now starts guests at once, but this experiment runs on this host";
        bail!(Refusal::advised(what.to_owned(), "omit --now, or add --runner guest"));
    }
    if on_host && !rustix::process::geteuid().is_root() {
        let what = "lab run: swap, settings and cgroups of this host are borrowed by root only";
        let next = "run it as root, or in guests, which need no root: --runner guest";
        bail!(Refusal::advised(what.to_owned(), next));
    }
    Ok(())
}

impl<'a> Machines<'a> {
    pub(super) fn new(
        (global, wanted): (&'a Global, &LabRun),
        host: &'a Snapshot,
        stop: &'a Stop,
    ) -> Self {
        let (shares_swap, keeps_names) = (wanted.allow_shared_swap, wanted.keep_names);
        Self { global, host, stop, shares_swap, keeps_names, now: wanted.now }
    }

    /// Whether evidence keeps the host name and command lines.
    pub(super) fn keeps_names(&self) -> bool {
        self.keeps_names
    }

    /// Runs a cell until it ends, fails or is stopped. The folder is made before the first run.
    pub(super) fn run(
        &self,
        cell: &Cell,
        keep: &mut Keep<'_>,
        kept: &mut Option<Folder>,
    ) -> anyhow::Result<CellOutcome> {
        match &cell.runner {
            Runner::Host => self.on_host(cell, keep, kept),
            Runner::Guest(machine) => self.in_guest(cell, machine, keep, kept),
        }
    }

    fn on_host(
        &self,
        cell: &Cell,
        keep: &mut Keep<'_>,
        kept: &mut Option<Folder>,
    ) -> anyhow::Result<CellOutcome> {
        let mut loans = HostLoans::for_arms(&cell.experiment, self.shares_swap)?;
        *kept = keep(&cell.experiment, self.host)?;
        let shown = MachineProgress::start(self.global, cell);
        let mut hear = |event: &TrialEvent| {
            shown.event(event, kept);
            ControlFlow::Continue(())
        };
        let mut control = Control { stop: self.stop.flag(), hear: &mut hear };
        let ExperimentRuns { runs, trouble, .. } =
            conduct(&cell.experiment, Some(&mut loans.session), &mut control);
        drop(shown);
        let is_all_back = loans.end_told();
        let stopped = matches!(trouble, Some(ExperimentError::Stopped));
        Ok(CellOutcome {
            experiment: cell.experiment.clone(),
            runs,
            snapshot: self.host.clone(),
            trouble: trouble.map(refusal),
            stopped,
            is_all_back,
            on_host: true,
        })
    }

    fn in_guest(
        &self,
        cell: &Cell,
        machine: &Machine,
        keep: &mut Keep<'_>,
        kept: &mut Option<Folder>,
    ) -> anyhow::Result<CellOutcome> {
        let cache = Cache::open()?;
        let program = program()?;
        let shown = MachineProgress::start(self.global, cell);
        let kernel =
            kernel::find(&machine.kernel, &cache, self.stop.flag(), &mut |line| shown.note(line))?;
        let snapshot = of_guest(&kernel, machine);
        let mut failed = None;
        let mut hear = |event: &TrialEvent| {
            if let TrialEvent::Clock(clock) = event {
                let experiment = Experiment { clock: *clock, ..cell.experiment.clone() };
                match keep(&experiment, &snapshot) {
                    Ok(folder) => *kept = folder,
                    Err(error) => {
                        failed = Some(error);
                        return ControlFlow::Break(());
                    }
                }
            }
            shown.event(event, kept);
            ControlFlow::Continue(())
        };
        let ran = library::run_in_guest(
            (cell, machine),
            (&kernel, &cache),
            &program,
            self.now,
            self.stop.flag(),
            &mut hear,
        )?;
        drop(shown);
        failed.map_or(Ok(()), Err)?;
        let stopped = ran.guest.outcome == Outcome::Stopped;
        let trouble = ended(&ran).filter(|_| !stopped);
        let library::GuestRun { experiment, runs, .. } = ran;
        let (is_all_back, on_host) = (true, false);
        Ok(CellOutcome { experiment, runs, snapshot, trouble, stopped, is_all_back, on_host })
    }
}

/// The executable of this process, which is also used in guests.
fn program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("finding this program's own file")
}

/// What is known about a guest before it runs.
fn of_guest(kernel: &Kernel, machine: &Machine) -> Snapshot {
    let mut snapshot = Snapshot::default();
    snapshot.taken.kernel = Reading::found(Name::from(kernel.release.as_str()), Source::none());
    snapshot.memory.total = Reading::found(machine.memory, Source::none());
    snapshot
}

/// Why a guest's runs are incomplete: the reason that its conductor gave, or the outcome of the
/// guest; `None` if they are complete.
fn ended(run: &library::GuestRun) -> Option<Refusal> {
    if run.trouble.is_some() {
        return run.trouble.clone();
    }
    if run.done {
        return None;
    }
    let how = in_words(&run.guest);
    let how = how.unwrap_or_else(|| "the conductor in the guest ended early".to_owned());
    let last = run.errors.lines().chain(run.guest.log.iter().map(String::as_str)).last();
    let message =
        last.map(|line| format!("; last it said: {}", Name::from(line))).unwrap_or_default();
    let next = "the runs until then are kept with --evidence DIR";
    Some(Refusal::advised(format!("{how}{message}"), next))
}

/// A progress bar, with messages above it.
struct MachineProgress<'a> {
    bar: Measuring,
    global: &'a Global,
    cell: &'a Cell,
}

impl<'a> MachineProgress<'a> {
    fn start(global: &'a Global, cell: &'a Cell) -> Self {
        Self { bar: Measuring::start(global, &cell.name), global, cell }
    }

    /// Shows an event, and writes a finished run to the evidence.
    fn event(&self, event: &TrialEvent, kept: &mut Option<Folder>) {
        match event {
            TrialEvent::Begins { arm, run, of, .. } => self.bar.run(*run, *of, arm),
            TrialEvent::Ran(run) => {
                if let Some(folder) = kept {
                    folder.run(run);
                }
            }
            TrialEvent::Forecast(forecast) => self.forecast(*forecast),
            TrialEvent::Note(line) => self.note(line),
            TrialEvent::Clock(_) | TrialEvent::Trouble { .. } | TrialEvent::Done => {}
        }
    }

    fn note(&self, line: &str) {
        if !self.global.quiet {
            self.bar.note(line);
        }
    }

    fn forecast(&self, forecast: Option<TrialForecast>) {
        let Some(forecast) = forecast.filter(|_| !self.cell.preview) else { return };
        self.note(&crate::verbs::trial::said(&self.cell.experiment, &forecast));
    }
}
