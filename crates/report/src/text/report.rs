// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise report`: everything on one page, the first screen, then the sections.

use super::kit::Page;
use super::{
    capabilities, cgroups, findings, first_screen, header, limits, memory, movement, owners,
    pressure, process_table, processes, savers, scan, settings, thp, tiers, verdict, zones, zram,
};
use crate::Answer;
use crate::view::{SECTIONS, Section, View};

pub(super) fn print(page: &mut Page, answer: &Answer<'_>, view: &View) {
    if view.is_complete() {
        first_screen::print(page, answer, !view.first_screen_only);
        if view.first_screen_only {
            return;
        }
    } else {
        header::print(page, "report", answer);
        page.gap();
    }
    for (section, _, _) in SECTIONS {
        match section {
            // the first screen has the verdict
            Section::Findings if view.is_complete() => {
                findings::print_section(page, answer.findings);
            }
            section if view.shows(section) => print_section(page, answer, view, section),
            _ => (),
        }
    }
    header::print_cost(page, answer);
}

pub(super) fn print_section(page: &mut Page, answer: &Answer<'_>, view: &View, section: Section) {
    let snapshot = &answer.interval.end;
    match section {
        Section::Findings => {
            verdict::print(page, answer);
            findings::print_short(page, answer.findings);
        }
        Section::Memory => memory::print(page, snapshot),
        Section::Swap => tiers::print(page, snapshot),
        Section::Contents => print_gain(page, answer, view),
        Section::Movement => movement::print(page, answer.interval),
        Section::Pressure => pressure::print(page, &snapshot.psi),
        Section::Zones => zones::print(page, snapshot),
        Section::Zram => zram::print(page, snapshot),
        Section::Thp => thp::print(page, snapshot),
        Section::Savers => print_savers(page, answer),
        Section::Cgroups => cgroups::print(page, answer.interval, view),
        Section::Processes => match &view.processes {
            Some(chosen) => process_table::print(page, answer.interval, view, chosen),
            None => processes::print(page, &snapshot.processes, view.most_rows()),
        },
        Section::Settings => settings::print(page, &snapshot.knobs),
        Section::Owners => owners::print(page, answer.owners),
        Section::Missing => {
            limits::print_problems(page, snapshot);
            limits::print_denied(page, snapshot);
        }
        Section::Capabilities => capabilities::print_features(page, snapshot),
    }
}

/// Prints the estimated gain by compression if a sample of pages was read; otherwise the reason why
/// not, if the view has one.
fn print_gain(page: &mut Page, answer: &Answer<'_>, view: &View) {
    if let Some((whole, parts)) = answer.estimates.split_first() {
        page.gap();
        scan::print_gain(page, whole, parts.len());
    } else if let Some(why) = &view.no_contents {
        page.gap();
        page.fact("Compressible", why);
    }
}

fn print_savers(page: &mut Page, answer: &Answer<'_>) {
    let facts = savers::facts(&answer.interval.end);
    if !facts.is_empty() {
        page.gap();
    }
    for (label, text) in facts {
        page.fact(label, &text);
    }
}
