// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise lab rebuild`: repeats an OOM kill in a guest, and sends the result of each run to the
//! runner.
//!
//! It refuses to run unless PID 1 is this same program: outside a guest it would kill processes of
//! the machine.

use std::path::Path;

use anyhow::{Context, bail};
use pagewise_guest::init::Channel;
use pagewise_guest::wire::Event;
use pagewise_lab::rebuild::rebuild;
use pagewise_model::{Rebuild, RebuiltRun, Refusal};
use pagewise_observe::UserFile;
use pagewise_terminal::Outcome;
use pagewise_terminal::output;

use crate::host_loans::HostLoans;

/// Maximum size of the file with the sizes of the kill, in bytes.
const LONGEST: u64 = 1 << 20;

pub(super) fn run(file: &Path) -> anyhow::Result<Outcome> {
    let text = UserFile::open(file, LONGEST)?.into_bytes()?;
    let wanted: Rebuild = serde_json::from_slice(&text).context("the sizes of the kill")?;
    let program = std::env::current_exe().context("finding this program's own file")?;
    if std::fs::read_link("/proc/1/exe").ok().as_ref() != Some(&program) {
        let what =
            "lab rebuild fills memory until something is killed, and this is no guest of pagewise";
        bail!(Refusal::with_advice(
            what.to_owned(),
            "pagewise oom FILE --prove starts it in a guest"
        ));
    }
    let mut loans = HostLoans::open(true)?;
    let channel = Channel::open();
    let mut on_run = |run: &RebuiltRun| {
        let message = serde_json::to_vec(run).map_err(std::io::Error::other)?;
        channel.send(&Event::Message(message))
    };
    let done = rebuild(&wanted, &program, &mut loans.session, &mut on_run);
    loans.end().iter().for_each(output::print_message);
    done.context("sending a run to the runner")?;
    Ok(Outcome::Done)
}
