// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise thp`: shows which memory is in huge pages; its subcommands change that.

mod canary;
mod collapse;
pub(super) mod counter;
mod coverage;
mod drop_in;
mod oci_hook;
mod opted_in;
mod pools;
mod profiles;
mod restrain;
mod run;
pub(super) mod targets;
mod walks;
mod watch;

use pagewise_model::{Bytes, Refusal, Snapshot};
use pagewise_terminal::cost::CostMeter;
use pagewise_terminal::{Global, Outcome};

use crate::cli::{Thp, ThpAct};

/// The environment variable by which an image, a unit or a user requests huge pages: `on`, `off` or
/// `advised`.
const VARIABLE: &str = "PAGEWISE_THP";

pub(super) fn run(global: &Global, args: &Thp, started: CostMeter) -> anyhow::Result<Outcome> {
    match &args.what {
        None if args.canary => canary::run(global, args),
        None => coverage::run(global, args, started),
        Some(ThpAct::Collapse(wanted)) => collapse::run(global, wanted, started),
        Some(ThpAct::Run(wanted)) => run::run(global, wanted),
        Some(ThpAct::Restrain(wanted)) => restrain::run(global, wanted, started),
        Some(ThpAct::DropIn(wanted)) => drop_in::run(wanted),
        Some(ThpAct::OciHook) => oci_hook::run(),
        Some(ThpAct::Profiles) => profiles::run(global),
    }
}

/// Size of a huge page in bytes; 2 MiB if the kernel does not show it.
fn huge_page_size(snapshot: &Snapshot) -> u64 {
    snapshot.thp.pmd_size.get().map_or(2 << 20, Bytes::get)
}

/// Refuses `--root` for subcommands that act on the machine itself.
pub(super) fn refuse_recording(global: &Global, verb: &str) -> anyhow::Result<()> {
    if global.root.is_none() {
        return Ok(());
    }
    let what = format!("{verb}: nothing can be done to a recording");
    Err(Refusal::with_advice(what, "leave out --root").into())
}
