// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A cell → its runs, conducted in a guest by this same program.
//!
//! The guest reads the experiment from a file and reports each run as it ends ([`TrialEvent`]); the
//! runs are judged outside. Which clock applies is known only after the start, as it depends on the
//! accelerator.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use pagewise_guest::Error;
use pagewise_guest::cache::Cache;
use pagewise_guest::carried::carried;
use pagewise_guest::kernel::Kernel;
use pagewise_guest::program::printable_line;
use pagewise_guest::qemu::{self, Accelerator, Disk, Guest, GuestEvent};
use pagewise_guest::wire::Stream;
use pagewise_model::{Clock, Refusal, TrialRun};
use pagewise_observe::UserFile;
use pagewise_stats::Experiment;
use pagewise_workload::Workload;
use serde::{Deserialize, Serialize};

use super::lines::{EXPERIMENT, Lines, words};
use super::{Cell, Machine, NotReady, Scratch, scratch};
use crate::experiment::TrialEvent;

/// A replacement for setpriv, because busybox's has no `--pdeathsig`. In a guest no process
/// outlives the command anyway.
const SETPRIV: &str = "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift\nexec \"$@\"\n";
/// An emulated guest gets this factor more time.
const SLOWER: u32 = 4;
/// `START`: time for the guest's start and end. `AROUND`: time for each run in addition to its
/// deadline.
const START: Duration = Duration::from_secs(180);
const AROUND: Duration = Duration::from_secs(20);

/// Maximum size of the file with the task, in bytes.
const LONGEST_INSIDE: u64 = 8 << 20;

/// The task of the conductor in the guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuestTask {
    /// The experiment to conduct.
    pub experiment: Experiment,
    /// The file system for the files of workloads.
    pub scratch: Scratch,
}

impl GuestTask {
    /// Reads the file that the runner put into the guest.
    ///
    /// # Errors
    /// If it is invalid.
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
        scratch::loopback()?;
        self.scratch.mount()
    }
}

/// The result of a cell in a guest.
#[derive(Debug)]
pub struct GuestRun {
    /// The experiment, with the clock that the guest had.
    pub experiment: Experiment,
    /// The run of the guest itself.
    pub guest: qemu::Run,
    /// Every run that was reported.
    pub runs: Vec<TrialRun>,
    /// What ended it early, as the conductor reported it.
    pub trouble: Option<Refusal>,
    /// The conductor reported that it was done.
    pub done: bool,
    /// The end of its error output.
    pub errors: String,
}

/// Runs a cell in a guest. `program` is the static executable; with `now` the guest does not wait
/// for others; `hear` receives each event, and ends the guest with [`ControlFlow::Break`].
///
/// # Errors
/// If no guest could be started.
pub fn run_in_guest(
    (cell, machine): (&Cell, &Machine),
    (kernel, cache): (&Kernel, &Cache),
    program: &Path,
    now: bool,
    stop: &AtomicBool,
    hear: &mut dyn FnMut(&TrialEvent) -> ControlFlow<()>,
) -> Result<GuestRun, Error> {
    let guest = described(cell, machine, program, now)?;
    let mut message = GuestMessages::default();
    let run = qemu::run(&guest, kernel, cache, stop, &mut |what| match what {
        GuestEvent::Chosen(accelerator) => hear(&TrialEvent::Clock(clock(machine, accelerator))),
        GuestEvent::Output(Stream::Out, bytes) => {
            for event in message.lines.add(&bytes) {
                if message.expects(&event, cell.experiment.runs()) {
                    hear(&event)?;
                    message.take(event);
                }
            }
            ControlFlow::Continue(())
        }
        GuestEvent::Output(Stream::Err, bytes) => {
            message.complain(&bytes);
            ControlFlow::Continue(())
        }
        GuestEvent::Note(line) => hear(&TrialEvent::Note(line.to_owned())),
        GuestEvent::File(..) | GuestEvent::Reached(_) => ControlFlow::Continue(()),
    })?;
    let clock = clock(machine, run.accelerator);
    let experiment = Experiment { clock, ..cell.experiment.clone() };
    let GuestMessages { runs, trouble, done, errors, .. } = message;
    Ok(GuestRun { experiment, guest: run, runs, trouble, done, errors })
}

fn clock(machine: &Machine, accelerator: Accelerator) -> Clock {
    match (machine.count, accelerator) {
        (true, _) => Clock::Counted,
        (false, Accelerator::Tcg) => Clock::Emulated,
        (false, Accelerator::Kvm) => Clock::Real,
    }
}

/// What was received so far.
#[derive(Debug, Default)]
struct GuestMessages {
    lines: Lines,
    runs: Vec<TrialRun>,
    trouble: Option<Refusal>,
    done: bool,
    errors: String,
}

/// Maximum number of bytes of error output that are kept.
const ERRORS: usize = 4096;

impl GuestMessages {
    /// Whether to accept an event. A guest that reports more runs than were requested must not
    /// affect the verdict or the evidence.
    fn expects(&self, event: &TrialEvent, most: u32) -> bool {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        !matches!(event, TrialEvent::Ran(_)) || self.runs.len() < most
    }

    fn take(&mut self, event: TrialEvent) {
        match event {
            TrialEvent::Ran(run) => self.runs.push(*run),
            TrialEvent::Trouble(Refusal { what, why, next }) => {
                let (what, why) = (printable_line(&what), printable_line(&why));
                let next = next.map(|next| printable_line(&next));
                self.trouble = Some(Refusal { what, why, next });
            }
            TrialEvent::Done => self.done = true,
            TrialEvent::Begins { .. }
            | TrialEvent::Forecast(_)
            | TrialEvent::Clock(_)
            | TrialEvent::Note(_) => {}
        }
    }

    fn complain(&mut self, bytes: &[u8]) {
        let room = ERRORS.saturating_sub(self.errors.len());
        self.errors.push_str(&String::from_utf8_lossy(&bytes[..bytes.len().min(room)]));
    }
}

/// The guest for a cell, with all that its workload needs.
fn described(cell: &Cell, machine: &Machine, program: &Path, now: bool) -> Result<Guest, Error> {
    let mut disks: Vec<Disk> = machine.disk.into_iter().map(Disk::Empty).collect();
    let size = scratch::size(cell);
    let scratch = if machine.count {
        Scratch::Zram(size.get())
    } else {
        disks.push(Disk::Empty(size));
        Scratch::Disk(scratch::disk(disks.len() - 1))
    };
    let inside = GuestTask { experiment: cell.experiment.clone(), scratch };
    let text = serde_json::to_vec(&inside).unwrap_or_default();
    let argv = ["/init"].into_iter().chain(words()).map(str::to_owned).collect();
    Ok(Guest {
        memory: machine.memory,
        cpus: machine.cpus,
        start_deadline: START,
        deadline: deadline(cell),
        modules: vec![scratch::MODULE.to_owned()],
        files: programs(cell)?,
        texts: vec![
            (text, EXPERIMENT.trim_start_matches('/').to_owned()),
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

fn deadline(cell: &Cell) -> Duration {
    let run = cell.experiment.deadline.saturating_mul(SLOWER) + AROUND;
    START + run.saturating_mul(cell.experiment.runs())
}

/// Programs of this host that the guest needs; all others are in its busybox.
fn programs(cell: &Cell) -> Result<Vec<(PathBuf, String)>, Error> {
    if !matches!(cell.workload, Workload::Redis(_)) {
        return Ok(Vec::new());
    }
    let mut files = carried("redis-server", "redis-server")?;
    files.extend(carried("redis-benchmark", "redis-tools")?);
    files.sort();
    files.dedup();
    Ok(files)
}
