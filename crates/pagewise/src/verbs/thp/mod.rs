// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise thp`: huge pages, seen and made.

mod canary;
mod collapse;
mod counter;
mod heat;
mod pools;
mod profiles;
mod restrain;
mod run;
mod see;
mod walks;
mod watch;
mod whom;

use pagewise_model::{Bytes, Refusal, Snapshot};

use super::Outcome;
use crate::cli::{Global, Thp, ThpAct};
use crate::cost::Started;

pub(super) fn run(global: &Global, wanted: &Thp, started: Started) -> anyhow::Result<Outcome> {
    match &wanted.what {
        None if wanted.canary => canary::run(global, wanted),
        None => see::run(global, wanted, started),
        Some(ThpAct::Collapse(wanted)) => collapse::run(global, wanted, started),
        Some(ThpAct::Run(wanted)) => run::run(global, wanted),
        Some(ThpAct::Restrain(wanted)) => restrain::run(global, wanted, started),
        Some(ThpAct::Profiles) => profiles::run(global),
    }
}

/// Size of a huge page; 2 MiB where the kernel does not say.
fn block(snapshot: &Snapshot) -> u64 {
    snapshot.thp.pmd_size.get().map_or(2 << 20, Bytes::get)
}

/// For what is done to the machine itself.
fn refuse_recording(global: &Global, verb: &str) -> anyhow::Result<()> {
    if global.root.is_none() {
        return Ok(());
    }
    let what = format!("{verb}: nothing can be done to a recording");
    Err(Refusal::advised(what, "leave out --root").into())
}
