// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the snapshots of the host or of a recording, as `--root`, `--interval` and
//! `--smaps-budget` require.

use anyhow::Context;
use pagewise_model::Interval;
use pagewise_observe::{Recording, Scope, Tape};
use pagewise_sandbox::Confinement;
use pagewise_terminal::progress::Spinner;
use pagewise_terminal::{Global, interrupt};

use crate::room;

/// Opens the machine or the recording. A recording may come from anybody, so this process first
/// gives up all rights except reading: from then on it cannot change any file.
pub(crate) fn open(global: &Global) -> anyhow::Result<Recording> {
    let confine = |is_folder| _ = Confinement::for_recording(is_folder).enter();
    let recording = match &global.root {
        Some(path) => pagewise_observe::open_with(path, confine)?,
        None => Recording::live().context("/")?,
    };
    let once = recording.end.is_live() && global.interval.is_zero();
    Ok(if once { recording.without_start() } else { recording })
}

/// Reads everything that findings need, at both ends of the interval; proportional sizes (PSS) are
/// read only for large processes.
pub(crate) fn read_interval(host: &Recording, global: &Global) -> anyhow::Result<Interval> {
    let scope = Scope { smaps_enough: 0, ..Scope::everything(global.smaps_budget) };
    read_interval_of(host, global, &scope)
}

/// Reads `scope` at both ends of the interval.
pub(crate) fn read_interval_of(
    host: &Recording,
    global: &Global,
    scope: &Scope,
) -> anyhow::Result<Interval> {
    host.interval(&room::choose_affordable_scope(&host.end, scope)?, || wait_for_interval(global))
}

/// Reads the same as [`read_interval`], and returns it together with all file contents that were read
/// from the host.
pub(crate) fn record_interval(global: &Global) -> anyhow::Result<(Interval, Tape)> {
    let everything = Scope::everything(global.smaps_budget);
    let scope = Scope { process_rates: true, kernel_threads: true, ..everything };
    let recording = open(global)?;
    recording.record(&scope, || wait_for_interval(global))
}

fn wait_for_interval(global: &Global) -> anyhow::Result<()> {
    let _shown = Spinner::start(global, global.interval);
    interrupt::wait(global.interval)
}
