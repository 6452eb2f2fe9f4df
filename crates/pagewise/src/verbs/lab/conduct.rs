// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise lab conduct`: the conductor in a guest. It says each run as it ends.

use std::path::Path;

use anyhow::{Context, anyhow};
use pagewise_lab::experiment::{
    Control, ExperimentError, ExperimentEvent, ExperimentRuns, conduct,
};
use pagewise_lab::library::{GuestLine, GuestTask};

use super::Outcome;
use crate::host_loans::HostLoans;
use crate::interrupt::Stop;
use crate::output;

pub(super) fn run(file: &Path) -> anyhow::Result<Outcome> {
    let inside = GuestTask::read(file)?;
    inside.prepare().map_err(|what| anyhow!(what)).context("making the guest ready")?;
    let stop = Stop::listen()?;
    let mut loans = HostLoans::open(true)?;
    let mut listener = |event: ExperimentEvent<'_>| say(&told(&event));
    let mut control = Control { stop: stop.flag(), listener: &mut listener };
    let ExperimentRuns { trouble, .. } =
        conduct(&inside.experiment, Some(&mut loans.session), &mut control);
    loans.end().iter().for_each(output::message);
    match trouble {
        None => say(&GuestLine::Done),
        Some(trouble) => say(&in_words(trouble)),
    }
    Ok(Outcome::Done)
}

fn told(event: &ExperimentEvent<'_>) -> GuestLine {
    match *event {
        ExperimentEvent::Begins { arm, pair, run, of } => {
            GuestLine::Begins { arm: arm.to_owned(), pair, run, of }
        }
        ExperimentEvent::Ran(run) => GuestLine::Ran(Box::new(run.clone())),
        ExperimentEvent::Forecast(forecast) => GuestLine::Forecast(forecast),
    }
}

fn in_words(trouble: ExperimentError) -> GuestLine {
    let next = trouble.next();
    GuestLine::Trouble { what: format!("{:#}", anyhow!(trouble)), next }
}

/// Who does not listen has gone, and the guest with it.
fn say(line: &GuestLine) {
    let _ = output::document(&line.line());
}
