// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise report`: everything on one page.

use pagewise_report::json::{self, Noun};
use pagewise_report::text;

use super::{Outcome, Page, Said, scan};
use crate::cli::{Global, Report};
use crate::cost::Started;
use crate::input;

const PAGE: Page = Page { noun: Noun::Report, text: text::report, json: json::report };

pub(super) fn run(global: &Global, wanted: &Report, started: Started) -> anyhow::Result<Outcome> {
    let host = input::open(global)?;
    let interval = input::interval(&host, global)?;
    let findings = pagewise_decide::diagnose(&interval);
    let estimates = match host.end.is_live() && !wanted.no_contents {
        true => scan::glance(&host.end, &interval.end),
        false => Vec::new(),
    };
    let said = Said { findings: &findings, estimates: &estimates, ..Said::default() };
    PAGE.show(global, started, &interval, said)?;
    Ok(Outcome::Done)
}
