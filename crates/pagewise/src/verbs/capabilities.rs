// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise capabilities`: the memory management features of this kernel.

use pagewise_model::Interval;
use pagewise_observe::Scope;
use pagewise_report::{json, text};
use pagewise_sandbox::Confinement;
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::{Global, Outcome, output, screen};

use crate::{cli, input};

pub(super) fn run(
    global: &Global,
    args: &cli::Capabilities,
    started: CostMeter,
) -> anyhow::Result<Outcome> {
    if global.root.is_none() {
        Confinement::for_facts().enter();
    }
    let host = input::open(global)?.without_start();
    let scope = Scope { settings: true, ..Scope::glance() };
    let interval: Interval = host.interval(&scope, || anyhow::Ok(()))?;
    let snapshot = &interval.end;
    let shown = if args.labels {
        text::feature_labels(snapshot)
    } else if global.json {
        json::capabilities(snapshot, cost::measure_since(started, &interval))
    } else {
        text::capabilities(snapshot, screen::text_style(global))
    };
    output::print_answer(global, &shown)?;
    Ok(Outcome::Done)
}
