// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds the guest that conducts a cell, and collects the cell's runs from the events of that
//! guest.
//!
//! In the guest, this same program reads the experiment from a file, and sends a message for each
//! event ([`TrialEvent`]). The runs are judged on the host. By which clock runs are measured
//! depends on the accelerator, which is known only after the guest has started.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pagewise_guest::Error;
use pagewise_guest::host_programs::files_of_program;
use pagewise_guest::program::printable_line;
use pagewise_guest::qemu::{self, Accelerator, Disk, Guest, GuestEvent};
use pagewise_guest::wire::Stream;
use pagewise_model::{Clock, Refusal, TrialRun};
use pagewise_observe::UserFile;
use pagewise_stats::Experiment;
use pagewise_workload::Workload;
use serde::{Deserialize, Serialize};

use super::{Cell, Machine, NotReady, Scratch, scratch};
use crate::experiment::TrialEvent;

/// Path of the file with the task in the guest.
const TASK: &str = "/experiment.json";
/// The conductor's command line in the guest.
const CONDUCTOR: [&str; 4] = ["/init", "lab", "conduct", TASK];
/// A replacement for the program setpriv, because that of busybox has no `--pdeathsig`. A guest
/// ends with its command, so no process needs that option there.
const SETPRIV: &str = "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift\nexec \"$@\"\n";
/// Factor by which the time limits of an emulated guest are longer.
const SLOWER: u32 = 4;
/// `START`: time limit for the guest's start and end. `AROUND`: time for each run in addition to
/// its deadline.
const START: Duration = Duration::from_secs(180);
const AROUND: Duration = Duration::from_secs(20);

/// Maximum size of the file with the task, in bytes.
const LONGEST_INSIDE: u64 = 8 << 20;

/// The task of the conductor in the guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuestTask {
    /// The experiment that the conductor conducts.
    pub experiment: Experiment,
    /// The file system in the guest for the files of workloads.
    pub scratch: Scratch,
}

impl GuestTask {
    /// Reads the task from the file that the runner put into the guest.
    ///
    /// # Errors
    /// If the file is missing or invalid.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = UserFile::open(path, LONGEST_INSIDE)?.into_bytes()?;
        serde_json::from_slice(&text)
            .map_err(|error| Error::Unusable { path: path.to_owned(), what: error.to_string() })
    }

    /// Prepares the guest for the workload.
    ///
    /// # Errors
    /// If a step failed.
    pub fn prepare(&self) -> Result<(), NotReady> {
        scratch::bring_up_loopback()?;
        self.scratch.mount()
    }
}

/// The result of a cell in a guest.
#[derive(Debug)]
pub struct GuestRun {
    /// The experiment, with the clock that the guest had.
    pub experiment: Experiment,
    /// The run of the guest itself, with its outcome.
    pub guest: qemu::Run,
    /// Every run that the conductor reported.
    pub runs: Vec<TrialRun>,
    /// What ended the experiment early, as the conductor reported it.
    pub trouble: Option<Refusal>,
    /// Whether the conductor reported that it was done.
    pub done: bool,
    /// The end of the conductor's error output.
    pub errors: String,
}

/// What a guest has reported of its cell so far.
#[derive(Debug)]
pub struct GuestReport<'a> {
    cell: &'a Cell,
    machine: &'a Machine,
    runs: Vec<TrialRun>,
    trouble: Option<Refusal>,
    done: bool,
    errors: String,
}

/// Maximum number of bytes that are kept of the conductor's error output.
const ERRORS: usize = 4096;

impl<'a> GuestReport<'a> {
    /// The report of a guest that was not started yet.
    #[must_use]
    pub fn new(cell: &'a Cell, machine: &'a Machine) -> Self {
        let (runs, errors) = (Vec::new(), String::new());
        Self { cell, machine, runs, trouble: None, done: false, errors }
    }

    /// Adds an event of the guest to the report; returns an event about the experiment, if it is
    /// one that the runner must handle. A message that is not an event of a conductor is ignored.
    pub fn add(&mut self, event: GuestEvent<'_>) -> Option<TrialEvent> {
        match event {
            GuestEvent::Chosen(accelerator) => {
                Some(TrialEvent::Clock(clock_of_guest(self.machine, accelerator)))
            }
            GuestEvent::Message(message) => self.add_event(TrialEvent::from_message(&message)?),
            GuestEvent::Output(Stream::Err, bytes) => {
                let room = ERRORS.saturating_sub(self.errors.len());
                self.errors.push_str(&String::from_utf8_lossy(&bytes[..bytes.len().min(room)]));
                None
            }
            GuestEvent::Note(line) => Some(TrialEvent::Note(line.to_owned())),
            GuestEvent::Output(Stream::Out, _) | GuestEvent::File(..) | GuestEvent::Reached(_) => {
                None
            }
        }
    }

    /// Adds an event of the conductor to the report. Runs beyond the requested number are ignored,
    /// so that a guest cannot affect the verdict or the evidence by them.
    fn add_event(&mut self, event: TrialEvent) -> Option<TrialEvent> {
        match &event {
            TrialEvent::Ran(_) if self.runs.len() >= self.cell.experiment.runs() as usize => None,
            TrialEvent::Ran(run) => {
                self.runs.push(run.as_ref().clone());
                Some(event)
            }
            TrialEvent::Trouble(Refusal { what, why, next }) => {
                let (what, why) = (printable_line(what), printable_line(why));
                let next = next.as_deref().map(printable_line);
                self.trouble = Some(Refusal { what, why, next });
                None
            }
            TrialEvent::Done => {
                self.done = true;
                None
            }
            TrialEvent::Begins { .. }
            | TrialEvent::Forecast(_)
            | TrialEvent::Clock(_)
            | TrialEvent::Note(_) => Some(event),
        }
    }

    /// Makes the whole result, after the guest has ended.
    #[must_use]
    pub fn finish(self, guest: qemu::Run) -> GuestRun {
        let clock = clock_of_guest(self.machine, guest.accelerator);
        let experiment = Experiment { clock, ..self.cell.experiment.clone() };
        let Self { runs, trouble, done, errors, .. } = self;
        GuestRun { experiment, guest, runs, trouble, done, errors }
    }
}

fn clock_of_guest(machine: &Machine, accelerator: Accelerator) -> Clock {
    match (machine.count, accelerator) {
        (true, _) => Clock::Counted,
        (false, Accelerator::Tcg) => Clock::Emulated,
        (false, Accelerator::Kvm) => Clock::Real,
    }
}

/// The guest for a cell, with everything that its workload needs. `program` is the static
/// executable. With `now`, the guest starts without waiting for other guests.
///
/// # Errors
/// If a program that the workload needs is missing on this host.
pub fn guest_for(
    cell: &Cell,
    machine: &Machine,
    program: &Path,
    now: bool,
) -> Result<Guest, Error> {
    let mut disks: Vec<Disk> = machine.disk.into_iter().map(Disk::Empty).collect();
    let size = scratch::size_for(cell);
    let scratch = if machine.count {
        Scratch::Zram(size.get())
    } else {
        disks.push(Disk::Empty(size));
        Scratch::Disk(scratch::disk_after(disks.len() - 1))
    };
    let inside = GuestTask { experiment: cell.experiment.clone(), scratch };
    let text = serde_json::to_vec(&inside).unwrap_or_default();
    let argv = CONDUCTOR.map(str::to_owned).to_vec();
    Ok(Guest {
        memory: machine.memory,
        cpus: machine.cpus,
        start_deadline: START,
        deadline: run_time_limit(cell),
        modules: vec![scratch::MODULE.to_owned()],
        files: needed_programs(cell)?,
        texts: vec![
            (text, TASK.trim_start_matches('/').to_owned()),
            (SETPRIV.as_bytes().to_vec(), "bin/setpriv".to_owned()),
        ],
        environment: vec![("TMPDIR".to_owned(), scratch::FOLDER.to_owned())],
        disks,
        count: machine.count,
        now,
        purpose: Some(format!("lab run {}", cell.name)),
        ..Guest::new(program.to_owned(), argv)
    })
}

fn run_time_limit(cell: &Cell) -> Duration {
    let run = cell.experiment.deadline.saturating_mul(SLOWER) + AROUND;
    START + run.saturating_mul(cell.experiment.runs())
}

/// Programs of this host that the guest needs in addition to those of busybox.
fn needed_programs(cell: &Cell) -> Result<Vec<(PathBuf, String)>, Error> {
    if !matches!(cell.workload, Workload::Redis(_)) {
        return Ok(Vec::new());
    }
    let mut files = files_of_program("redis-server", "redis-server")?;
    files.extend(files_of_program("redis-benchmark", "redis-tools")?);
    files.sort();
    files.dedup();
    Ok(files)
}
