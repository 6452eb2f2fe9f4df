// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise report`: everything on one page.

use std::time::Instant;

use pagewise_report::json::Noun;
use pagewise_report::text;

use super::{Outcome, Page};
use crate::cli::Global;
use crate::input;

const PAGE: Page = Page { noun: Noun::Report, text: text::report };

pub(super) fn run(global: &Global, started: Instant) -> anyhow::Result<Outcome> {
    let interval = input::interval(global)?;
    let findings = pagewise_decide::diagnose(&interval);
    PAGE.show(global, started, &interval, &findings)?;
    Ok(Outcome::Done)
}
