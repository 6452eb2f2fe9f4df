// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise status`: an overview of memory from a single reading, or with `--watch` updated again
//! and again.

mod keys;
mod playback;
mod replay;
mod shown;
mod watch;

use pagewise_observe::Scope;
use pagewise_report::json::{self, Noun};
use pagewise_report::text;
use pagewise_sandbox::Confinement;
use pagewise_terminal::cost::CostMeter;
use pagewise_terminal::{Global, Outcome};

use super::Page;
use crate::cli::Status;
use crate::input;

const PAGE: Page = Page { noun: Noun::Status, text: text::status, json: json::status };

pub(super) fn run(global: &Global, args: &Status, started: CostMeter) -> anyhow::Result<Outcome> {
    if args.watch {
        return watch::run(global, args.every);
    }
    if global.root.is_none() {
        Confinement::for_facts().enter();
    }
    let host = input::open(global)?.without_start();
    let interval =
        host.interval(&Scope { kernel_log: true, ..Scope::glance() }, || anyhow::Ok(()))?;
    PAGE.show(global, started, &interval)?;
    Ok(Outcome::Done)
}
