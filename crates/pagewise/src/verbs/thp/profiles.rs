// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise thp profiles`: sets of huge page settings, next to the current values of this host.

use pagewise_decide::thp_profile::PROFILES;
use pagewise_observe::Scope;
use pagewise_report::text;
use pagewise_terminal::{Global, Outcome, output, screen};

use crate::input;

pub(super) fn run(global: &Global) -> anyhow::Result<Outcome> {
    let host = input::open(global)?.without_start();
    let scope = Scope { settings: true, ..Scope::glance() };
    let interval = host.interval(&scope, || anyhow::Ok(()))?;
    let shown = if global.json {
        serde_json::to_string_pretty(&PROFILES)? + "\n"
    } else {
        text::thp_profiles(PROFILES, &interval.end.knobs, screen::text_style(global))
    };
    output::print_answer(global, &shown)?;
    Ok(Outcome::Done)
}
