// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise lab show` and `lab list`: a description of experiments that have not run yet.

use super::kit::{Line, Page, Role};
use super::table::{Cell, Column, Table};
use crate::PlannedExperiment;
use pagewise_model::duration::format_rough;

pub(super) fn print(page: &mut Page, planned: &PlannedExperiment) {
    let title = Line::default().span(Role::Strong, format!("{}: ", planned.experiment));
    page.hang(title, 2, Role::Plain, &planned.about);
    if let Some(claim) = &planned.claim {
        page.prose(2, Role::Quiet, claim);
    }
    page.heading("Workload", "");
    for (name, value) in &planned.workload {
        page.fact(name, value);
    }
    print_arms(page, planned);
    page.heading("Machine", "");
    planned.machines.iter().for_each(|machine| page.prose(2, Role::Plain, machine));
    page.heading("Measured", "");
    for (name, value) in &planned.measured {
        page.fact(name, value);
    }
    page.fact("Runs", &planned.runs.to_string());
    page.fact("Takes", &format!("about {}", format_rough(planned.seconds)));
}

/// Prints the settings of the arms; those that all arms share are printed once.
fn print_arms(page: &mut Page, planned: &PlannedExperiment) {
    page.heading("Arms", "the others are compared with the first");
    let settings = |sets: &'_ str| -> Vec<String> {
        sets.split(", ").filter(|set| !set.is_empty()).map(str::to_owned).collect()
    };
    let all: Vec<Vec<String>> = planned.arms.iter().map(|[.., sets]| settings(sets)).collect();
    let is_common = |set: &&String| all.iter().all(|sets| sets.contains(set));
    let common: Vec<String> =
        all.first().into_iter().flatten().filter(is_common).cloned().collect();
    let mut table = Table::new(2, vec![Column::left("arm"), Column::words("swap; what it sets")]);
    for ([name, swap, _], sets) in planned.arms.iter().zip(&all) {
        let own: Vec<&str> =
            sets.iter().filter(|set| !common.contains(set)).map(String::as_str).collect();
        let words =
            if own.is_empty() { swap.clone() } else { format!("{swap}; {}", own.join(", ")) };
        table.row(vec![Cell::new(Role::Strong, name.clone()), words.into()]);
    }
    table.print(page);
    if !common.is_empty() {
        page.prose(2, Role::Plain, &format!("All of them set {}.", common.join(", ")));
    }
}

pub(super) fn print_list(page: &mut Page, listed: &[(String, String)]) {
    let widest = listed.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, about) in listed {
        let name = Line::default().span(Role::Strong, name.clone()).pad_to(widest + 2);
        page.hang(name, widest + 2, Role::Plain, about);
    }
}
