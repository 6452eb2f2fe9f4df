// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise report`: everything on one page, the verdict first.

use super::kit::Page;
use super::{
    capabilities, cgroups, findings, header, limits, memory, movement, pressure, processes, savers,
    scan, settings, thp, tiers, verdict, zones, zram,
};
use crate::Answer;

pub(super) fn print(page: &mut Page, answer: &Answer<'_>) {
    let snapshot = &answer.interval.end;
    header::print(page, "report", answer);
    page.gap();
    verdict::print(page, answer);
    findings::short(page, answer.findings);
    memory::print(page, snapshot);
    tiers::print(page, snapshot);
    gain(page, answer);
    movement::print(page, answer.interval);
    pressure::print(page, &snapshot.psi);
    zones::print(page, snapshot);
    zram::print(page, snapshot);
    thp::print(page, snapshot);
    savers(page, answer);
    cgroups::print(page, answer.interval);
    processes::print(page, &snapshot.processes);
    settings::print(page, &snapshot.knobs);
    capabilities::print(page, &snapshot.capabilities);
    limits::problems(page, snapshot);
    limits::denied(page, snapshot);
    header::cost(page, answer);
}

/// What compressing would gain, where a sample of pages was looked at.
fn gain(page: &mut Page, answer: &Answer<'_>) {
    if let Some((whole, parts)) = answer.estimates.split_first() {
        page.gap();
        scan::gain(page, whole, parts.len());
    }
}

fn savers(page: &mut Page, answer: &Answer<'_>) {
    let facts = savers::facts(&answer.interval.end);
    if !facts.is_empty() {
        page.gap();
    }
    for (label, text) in facts {
        page.fact(label, &text);
    }
}
