// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The description of a run, and why a run has no result.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use pagewise_model::lend::MemoryGroup;
use pagewise_observe::ThreadCpu;

use crate::experiment::mark::LineFinder;
use crate::experiment::swap_traffic::LentSwap;

/// A program to start, and the cgroup to start it in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StartedProgram<'a> {
    /// Path of the executable of the program.
    pub(crate) file: &'a Path,
    pub(crate) arguments: &'a [String],
    pub(crate) group: Option<&'a MemoryGroup>,
}

/// The command of a run, its cgroup, its neighbour and its measurements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunSetup<'a> {
    pub(crate) command: StartedProgram<'a>,
    /// A program that runs beside the command.
    pub(crate) neighbour: Option<StartedProgram<'a>>,
    /// The line of the neighbour's output after which the command is started.
    pub(crate) neighbour_ready: Option<&'a str>,
    /// Whether the cgroup has a memory limit.
    pub(crate) limited: bool,
    pub(crate) deadline: Duration,
    /// Swap areas that were borrowed for the run.
    pub(crate) swap: &'a LentSwap,
    /// CPU time of the kernel's reclaim threads (kswapd).
    pub(crate) kswapd: &'a ThreadCpu,
    /// Whether to sample the stacks of the reclaim threads.
    pub(crate) profile: bool,
    /// The line of output from which on the run is measured; `None`: from its start.
    pub(crate) counted_from: Option<&'a str>,
}

impl<'a> RunSetup<'a> {
    pub(super) fn neighbour_group(&self) -> Option<&'a MemoryGroup> {
        self.neighbour.and_then(|neighbour| neighbour.group)
    }
}

/// Why a command has no result.
#[derive(Debug)]
pub(crate) enum NotRun {
    /// The user stopped the experiment; the command was ended.
    Stopped,
    /// The command could not be started.
    Failed(String),
}

/// A finder for a line of output, and the eventfd that the finder signals; both are `None` if there
/// is no line to find.
pub(super) fn line_finder(
    line: Option<&str>,
) -> Result<(Option<LineFinder>, Option<OwnedFd>), NotRun> {
    let finder = line.map(LineFinder::new).transpose();
    Ok(finder.map_err(|error| run_failure("an event", &error))?.unzip())
}

pub(super) fn run_failure(what: &str, why: &dyn std::fmt::Display) -> NotRun {
    NotRun::Failed(format!("{what}: {why}"))
}
