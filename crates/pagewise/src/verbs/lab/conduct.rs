// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise lab conduct`: runs one cell of an experiment inside a guest, and reports each run as
//! it ends.
//!
//! It writes its events, one frame each, to the port that PID 1 of the guest also uses, not to its
//! standard output.

use std::ops::ControlFlow;
use std::path::Path;

use anyhow::Context;
use pagewise_guest::init::Channel;
use pagewise_guest::wire::Event;
use pagewise_lab::experiment::{Control, ExperimentRuns, TrialEvent, conduct};
use pagewise_lab::library::GuestTask;
use pagewise_terminal::Outcome;
use pagewise_terminal::interrupt::Stop;
use pagewise_terminal::output;

use super::to_refusal;
use crate::host_loans::HostLoans;

pub(super) fn run(file: &Path) -> anyhow::Result<Outcome> {
    let task = GuestTask::read(file)?;
    task.prepare().context("making the guest ready")?;
    let stop = Stop::listen()?;
    let mut loans = HostLoans::open(true)?;
    let channel = Channel::open();
    let send = |event: &TrialEvent| channel.send(&Event::Message(event.to_message()));
    let mut not_sent = None;
    let mut on_event = |event: &TrialEvent| match send(event) {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            not_sent = Some(error);
            ControlFlow::Break(())
        }
    };
    let mut control = Control { stop: stop.flag(), on_event: &mut on_event };
    let ExperimentRuns { trouble, .. } =
        conduct(&task.experiment, Some(&mut loans.session), &mut control);
    // no advice to run `pagewise undo`: the guest ends now, and its settings with it
    loans.end().iter().for_each(output::print_message);
    not_sent.map_or(Ok(()), Err).context("sending a run to the runner")?;
    let last = trouble.map_or(TrialEvent::Done, |trouble| TrialEvent::Trouble(to_refusal(trouble)));
    send(&last).context("sending the end of the experiment to the runner")?;
    Ok(Outcome::Done)
}
