// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise lab conduct`: the conductor in a guest. It says each run as it ends.

use std::path::Path;

use anyhow::{Context, anyhow};
use pagewise_lab::experiment::{Conducted, Control, Heard, Trouble, conduct};
use pagewise_lab::library::{Inside, Told};

use super::Outcome;
use crate::host_loans::HostLoans;
use crate::interrupt::Stop;
use crate::output;

pub(super) fn run(file: &Path) -> anyhow::Result<Outcome> {
    let inside = Inside::read(file)?;
    inside.prepare().map_err(|what| anyhow!(what)).context("making the guest ready")?;
    let stop = Stop::listen()?;
    let mut loans = HostLoans::open(true)?;
    let mut heard = |heard: Heard<'_>| say(&told(&heard));
    let mut control = Control { stop: stop.flag(), heard: &mut heard };
    let Conducted { trouble, .. } =
        conduct(&inside.experiment, Some(&mut loans.session), &mut control);
    loans.end().iter().for_each(output::message);
    match trouble {
        None => say(&Told::Done),
        Some(trouble) => say(&in_words(trouble)),
    }
    Ok(Outcome::Done)
}

fn told(heard: &Heard<'_>) -> Told {
    match *heard {
        Heard::Begins { arm, pair, run, of } => Told::Begins { arm: arm.to_owned(), pair, run, of },
        Heard::Ran(run) => Told::Ran(Box::new(run.clone())),
        Heard::Forecast(forecast) => Told::Forecast(forecast),
    }
}

fn in_words(trouble: Trouble) -> Told {
    let next = trouble.next();
    Told::Trouble { what: format!("{:#}", anyhow!(trouble)), next }
}

/// Who does not listen has gone, and the guest with it.
fn say(told: &Told) {
    let _ = output::document(&told.line());
}
