// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise status`: an overview of memory from a single reading, and which process causes a
//! shortage; with `--watch`, the overview is updated again and again.

mod keys;
mod playback;
mod readings;
mod replay;
mod shown;
mod watch;

use std::time::Duration;

use pagewise_model::{Interval, Level};
use pagewise_observe::Scope;
use pagewise_report::json::{self, Noun};
use pagewise_report::{Answer, text};
use pagewise_sandbox::Confinement;
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::{Global, Outcome};

use super::Page;
use crate::cli::{Status, Top};
use crate::{input, room};

const PAGE: Page = Page { noun: Noun::Status, json: json::status };

pub(super) fn run(global: &Global, args: &Status, started: CostMeter) -> anyhow::Result<Outcome> {
    if args.watch {
        return watch::run(global, args.every, args.at.as_deref());
    }
    let interval = read(global)?;
    let verdict = pagewise_decide::judge(&interval);
    let findings = super::findings(&interval, &[]);
    let answer = Answer {
        interval: &interval,
        verdict: &verdict,
        findings: &findings,
        hidden: 0,
        estimates: &[],
        owners: &[],
        cost: cost::measure_since(started, &interval),
    };
    PAGE.print(global, &answer, text::status)?;
    PAGE.remark(global, &answer);
    Ok(Outcome::Done)
}

/// Runs `pagewise top`: what `status --watch` does.
pub(super) fn run_top(global: &Global, args: &Top) -> anyhow::Result<Outcome> {
    watch::run(global, args.every, args.at.as_deref())
}

/// A recording is read completely, because that costs little and gives the same verdict as
/// `report`. On this machine, only values of the host as a whole are read; if memory is short,
/// cgroups and processes are read, too, so that the cause can be named.
fn read(global: &Global) -> anyhow::Result<Interval> {
    let everything = Scope { smaps_enough: 0, ..Scope::everything(Duration::ZERO) };
    if global.root.is_some() {
        return input::read_interval_of(&input::open(global)?, global, &everything);
    }
    Confinement::for_facts().enter();
    let host = input::open(global)?.without_start();
    let look = |scope: &Scope| host.interval(scope, || anyhow::Ok(()));
    let glance = look(&Scope { kernel_log: true, ..Scope::glance() })?;
    if pagewise_decide::judge(&glance).level <= Level::Calm {
        return Ok(glance);
    }
    look(&room::choose_affordable_scope(&host.end, &Scope { settings: false, ..everything })?)
}
