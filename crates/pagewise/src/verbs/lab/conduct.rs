// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise lab conduct`: the conductor in a guest, which reports each run as it ends.

use std::ops::ControlFlow;
use std::path::Path;

use anyhow::Context;
use pagewise_lab::experiment::{Control, ExperimentError, ExperimentRuns, TrialEvent, conduct};
use pagewise_lab::library::GuestTask;
use pagewise_terminal::Outcome;
use pagewise_terminal::interrupt::Stop;
use pagewise_terminal::output::{self, Printed};

use super::refusal;
use crate::host_loans::HostLoans;

pub(super) fn run(file: &Path) -> anyhow::Result<Outcome> {
    let inside = GuestTask::read(file)?;
    inside.prepare().context("making the guest ready")?;
    let stop = Stop::listen()?;
    let mut loans = HostLoans::open(true)?;
    let mut hear = |event: &TrialEvent| say(event);
    let mut control = Control { stop: stop.flag(), hear: &mut hear };
    let ExperimentRuns { trouble, .. } =
        conduct(&inside.experiment, Some(&mut loans.session), &mut control);
    // without advice to run undo: the guest ends, and with it everything borrowed
    loans.end().iter().for_each(output::message);
    // an error means that the runner is gone
    let _ = say(&trouble.map_or(TrialEvent::Done, in_words));
    Ok(Outcome::Done)
}

fn in_words(trouble: ExperimentError) -> TrialEvent {
    TrialEvent::Trouble(refusal(trouble))
}

/// Prints an event; `Break` if the reader is gone.
fn say(event: &TrialEvent) -> ControlFlow<()> {
    match output::document(&event.line()) {
        Ok(Printed::Whole) => ControlFlow::Continue(()),
        Ok(Printed::Cut) | Err(_) => ControlFlow::Break(()),
    }
}
