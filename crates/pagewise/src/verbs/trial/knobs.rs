// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise trial --list-knobs`: lists the settings that an arm may set, with their values on this
//! machine.

use anyhow::{Context, bail};
use pagewise_model::{Interval, Refusal, list_settable};
use pagewise_observe::{HostRoot, Scope};
use pagewise_report::{json, text};
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::{Global, Outcome, output, screen};

pub(super) fn list(global: &Global, started: CostMeter) -> anyhow::Result<Outcome> {
    if global.root.is_some() {
        let what = "trial --list-knobs: the list is of the machine on which the trial would run"
            .to_owned();
        bail!(Refusal::with_advice(
            what,
            "omit --root; `pagewise report --root` shows settings of a recording"
        ));
    }
    let host = HostRoot::live().context("/")?;
    let scope = Scope { settings: true, ..Scope::glance() };
    let machine = Interval::single(pagewise_observe::snapshot(&host, &scope));
    let knobs = list_settable(&machine.end.knobs);
    let cost = cost::measure_since(started, &machine);
    let shown = if global.json {
        json::settable_knobs(&knobs, &machine.end, cost)
    } else {
        text::settable_knobs(&knobs, screen::text_style(global))
    };
    output::print_answer(global, &shown)?;
    if global.verbose {
        output::print_message(cost::format_line(&cost));
    }
    Ok(Outcome::Done)
}
