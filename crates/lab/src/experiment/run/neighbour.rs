// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program that runs beside the command of a run.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use pagewise_stats::name::NEIGHBOUR_KILLS;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};

use super::gate::Gate;
use super::setup::{NotRun, RunSetup, StartedProgram, line_finder, run_failure};
use super::wait::{LOOK, Waited, wait};
use crate::experiment::host::Changed;
use crate::experiment::output::Output;
use crate::experiment::trouble::quote_output;

/// A program that runs beside the command, until this value is dropped.
#[derive(Debug)]
pub(super) struct Neighbour {
    gate: Gate,
    output: Option<Output>,
}

impl Neighbour {
    /// Starts the neighbour. If a line of output is required, returns after the neighbour has
    /// printed it.
    pub(super) fn start(
        program: &StartedProgram<'_>,
        setup: &RunSetup<'_>,
        stop: &AtomicBool,
    ) -> Result<Self, NotRun> {
        let mut gate = Gate::open(program)?;
        let (finder, found) = line_finder(setup.neighbour_ready)?;
        let output = Some(gate.let_pass(finder)?);
        let mut neighbour = Self { gate, output };
        if let (Some(found), Some(line)) = (&found, setup.neighbour_ready) {
            neighbour.wait_until_ready(found, line, Instant::now() + setup.deadline, stop)?;
        }
        Ok(neighbour)
    }

    fn wait_until_ready(
        &mut self,
        found: &OwnedFd,
        line: &str,
        deadline: Instant,
        stop: &AtomicBool,
    ) -> Result<(), NotRun> {
        let broken = |error: &dyn std::fmt::Display| run_failure("the neighbour", error);
        let leader = self.leader().ok_or_else(|| broken(&"no process id"))?;
        let handle = pidfd_open(leader, PidfdFlags::empty()).map_err(|error| broken(&error))?;
        loop {
            match wait(&handle, Some(found), LOOK) {
                Some(Waited::Found) => return Ok(()),
                Some(Waited::Ended) => {
                    // processes that the neighbour started may keep its output open
                    self.end_group();
                    let output = self.output.take().map_or_else(String::new, Output::into_text);
                    let why =
                        format!("it ended before it printed {line:?}{}", quote_output(&output));
                    return Err(broken(&why));
                }
                None if stop.load(Ordering::SeqCst) => return Err(NotRun::Stopped),
                None if Instant::now() >= deadline => {
                    let why = format!("it did not print {line:?} before the deadline of a run");
                    return Err(broken(&why));
                }
                None => {}
            }
        }
    }

    /// Checks that the neighbour still runs, because it must run as long as the command. If the OOM
    /// killer killed it, that is a result and not an error.
    pub(super) fn check_running(&mut self, changed: &Changed) -> Result<(), NotRun> {
        let is_killed = changed.values.get(NEIGHBOUR_KILLS).is_some_and(|kills| *kills > 0.0);
        // WNOWAIT: the neighbour is not reaped, so that its pid remains that of its process group
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let leader = self.leader().filter(|_| !is_killed);
        let ended = leader.map(|leader| waitid(WaitId::Pid(leader), options)).transpose();
        let Some(status) = ended.map_err(|error| run_failure("the neighbour", &error))?.flatten()
        else {
            return Ok(());
        };
        self.end_group();
        let output = self.output.take().map_or_else(String::new, Output::into_text);
        let status =
            status.exit_status().map_or_else(String::new, |it| format!(" with status {it}"));
        let why = format!("it ended before the command did{status}{}", quote_output(&output));
        Err(run_failure("the neighbour", &why))
    }

    fn leader(&self) -> Option<Pid> {
        i32::try_from(self.gate.child.id()).ok().and_then(Pid::from_raw)
    }

    fn end_group(&self) {
        if let Some(leader) = self.leader() {
            // an error means that the group has already ended
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.end_group();
    }
}
