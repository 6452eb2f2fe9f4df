// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--root`, `--interval` and `--smaps-budget` → the host, looked at.

use anyhow::Context;
use pagewise_model::Interval;
use pagewise_observe::{Recording, Scope, Tape};
use pagewise_sandbox::Confinement;
use pagewise_terminal::progress::Spinner;
use pagewise_terminal::{Global, interrupt};

use crate::room;

/// The machine or the recording. A recording may be anybody's: it is parsed without any rights but to
/// read, and from then on this process changes no file.
pub(crate) fn open(global: &Global) -> anyhow::Result<Recording> {
    let confine = |is_folder| _ = Confinement::for_recording(is_folder).enter();
    let recording = match &global.root {
        Some(path) => pagewise_observe::open_with(path, confine)?,
        None => Recording::live().context("/")?,
    };
    let once = recording.end.is_live() && global.interval.is_zero();
    Ok(if once { recording.without_start() } else { recording })
}

/// Everything that findings need, at both ends of the interval: proportional sizes of large processes only.
pub(crate) fn interval(host: &Recording, global: &Global) -> anyhow::Result<Interval> {
    let scope = Scope { smaps_enough: 0, ..Scope::everything(global.smaps_budget) };
    interval_of(host, global, &scope)
}

/// So much of it, at both ends of the interval.
pub(crate) fn interval_of(
    host: &Recording,
    global: &Global,
    scope: &Scope,
) -> anyhow::Result<Interval> {
    host.interval(&room::affordable(&host.end, scope)?, || wait(global))
}

/// The same, with everything that was asked of the host.
pub(crate) fn record(global: &Global) -> anyhow::Result<(Interval, Tape)> {
    let everything = Scope::everything(global.smaps_budget);
    let scope = Scope { process_rates: true, kernel_threads: true, ..everything };
    let recording = open(global)?;
    recording.record(&scope, || wait(global))
}

fn wait(global: &Global) -> anyhow::Result<()> {
    let _shown = Spinner::start(global, global.interval);
    interrupt::wait(global.interval)
}
