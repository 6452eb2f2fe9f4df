// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise thp collapse`: what was collapsed, what was skipped, and the cost.

use pagewise_model::{BudgetMeasure, ByAccess, Bytes, Collapse, CollapsedProcess, UnitCollapse};

use crate::Collapsed;
use crate::text::kit::{Line, Page, Role};
use crate::text::words::{count, plural, share};

pub(in crate::text) fn print(page: &mut Page, done: &Collapsed<'_>) {
    for UnitCollapse { unit, collapse, .. } in &done.collapse.units {
        print_one(page, collapse, &format!("{unit}: "));
    }
    match done.collapse {
        one if !one.units.is_empty() => (),
        one if one.processes.is_empty() => page.prose(0, Role::Plain, NOBODY),
        one => print_one(page, one, ""),
    }
}

const NOBODY: &str =
    "No process with as much anonymous memory as a huge page was started with PAGEWISE_THP=on.";

fn print_one(page: &mut Page, collapse: &Collapse, unit: &str) {
    let targets = describe_targets(&collapse.processes);
    let what = if collapse.dry_run { "would collapse in" } else { "collapse of" };
    let start = Line::default().span(Role::Strong, format!("{unit}{what} {targets}"));
    page.hang_items(start, 2, &describe_made(collapse));
    page.fact_items("  memory", &memory(collapse));
    if let Some(by_access) = &collapse.by_access {
        page.fact_items("  first", &[describe_first(by_access)]);
    }
    let left = describe_left(collapse);
    if !left.is_empty() {
        page.fact_items("  left alone", &left);
    }
    for process in &collapse.processes {
        if let Some(why) = &process.left_out {
            page.prose(2, Role::Warning, why);
        }
    }
    if let Some(why) = &collapse.stopped {
        page.prose(2, Role::Warning, &format!("ended early: {why}"));
    }
}

fn describe_targets(processes: &[CollapsedProcess]) -> String {
    let done = || processes.iter().filter(|process| process.left_out.is_none());
    match (done().next(), done().count()) {
        (Some(one), 1) => format!("{} (pid {})", one.name, one.pid),
        (_, many) => plural(many as u64, "process"),
    }
}

fn describe_made(collapse: &Collapse) -> Vec<String> {
    let of = |huge: Bytes, all: Bytes| share(huge.get(), all.get()).unwrap_or("0 %".to_owned());
    let before = of(collapse.huge_before, collapse.anon_before);
    let after = of(collapse.huge_after, collapse.anon_after);
    let mut items = if collapse.dry_run {
        vec![
            format!("coverage {before} of {}", collapse.anon_before),
            plural(collapse.would_collapse, "block"),
        ]
    } else {
        vec![
            format!("coverage {before} → {after} of {}", collapse.anon_after),
            plural(collapse.collapsed, "block"),
        ]
    };
    if collapse.passes > 1 {
        items.push(format!("in {} passes", count(collapse.passes)));
    }
    items.push(format!("{:.2} s CPU in {:.1} s", collapse.cpu_seconds, collapse.wall_seconds));
    items
}

fn memory(collapse: &Collapse) -> Vec<String> {
    let measure = match collapse.measure {
        BudgetMeasure::ProportionalSize => "proportional size",
        BudgetMeasure::CgroupCharge => "the cgroup's charge",
    };
    let (before, after) = (collapse.memory_before, collapse.memory_after);
    let growth = if collapse.dry_run {
        format!("{} would be added", collapse.growth)
    } else {
        format!("{} added by collapsing", collapse.growth)
    };
    let mut items = vec![growth];
    if !collapse.dry_run {
        items.push(format!("{measure} {before} → {after}"));
    }
    items.push(format!("at most {} allowed", collapse.memory_limit));
    items
}

fn describe_first(by_access: &ByAccess) -> String {
    let ByAccess { blocks, used, unknown } = by_access;
    match unknown {
        Some(why) => format!("what is fullest; access is not known: {why}"),
        None => format!("what is in use: {} of {}", count(*used), plural(*blocks, "block")),
    }
}

fn describe_left(collapse: &Collapse) -> Vec<String> {
    let left = &collapse.left_alone;
    let kinds = [
        (left.shared, "shared with another process"),
        (left.sparse, "less than half full"),
        (left.swapped, "partly in swap"),
        (left.over_budget, "over the budget"),
        (
            left.refused,
            "refused by the kernel (up to 6.12 also where nothing was written since a fork)",
        ),
        (left.not_reached, "not reached"),
        (left.changed, "changed meanwhile"),
        (collapse.failed.no_memory, "without a free huge page"),
        (collapse.failed.busy, "busy"),
    ];
    let some = kinds.iter().filter(|(number, _)| *number > 0);
    some.map(|(number, why)| format!("{} {why}", count(*number))).collect()
}
