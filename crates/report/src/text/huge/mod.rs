// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise thp`: where huge pages are used, from the host down to a mapping, and the result of a
//! collapse.

pub(super) mod collapse;
mod coverage;
pub(super) mod profiles;
pub(super) mod restrain;
mod walks;

use pagewise_model::{Bytes, Cgroup, Interval, Process, Reading, Snapshot};

use coverage::Allowed;

use super::kit::{Line, Page, Role};
use super::table::{Cell, Column, NONE, Table};
use super::words::{cell, count, format_reading, seconds, share};
use crate::{HugeSeen, huge};

/// Maximum number of rows of a table.
const MOST: usize = 10;

pub(super) fn print(page: &mut Page, seen: &HugeSeen<'_>) {
    if seen.pids.is_none() || seen.cgroup.is_some() {
        print_host(page, seen.interval);
        print_groups(page, &huge::groups(seen));
    }
    print_processes(page, &huge::processes(seen), &seen.interval.end);
    for process in seen.looked {
        coverage::print(page, process, Allowed::select(&seen.interval.end, process.pid));
    }
    for why in seen.not_looked {
        page.prose(2, Role::Warning, why);
    }
    if let Some(walks) = seen.page_walks {
        walks::print(page, walks, seen.pids.is_some());
    }
    page.gap();
    page.prose(0, Role::Quiet, &format!("looking took {:.3} s of CPU", seen.cost.cpu_seconds));
}

fn print_host(page: &mut Page, interval: &Interval) {
    super::thp::print(page, &interval.end);
    let facts = [
        ("  khugepaged now", describe_khugepaged(interval)),
        ("  since boot", counters(&interval.end)),
    ];
    for (label, items) in facts.iter().filter(|(_, items)| !items.is_empty()) {
        page.fact_items(label, items);
    }
}

/// Describes what khugepaged did in the interval; it may be runnable but wait for a CPU.
fn describe_khugepaged(interval: &Interval) -> Vec<String> {
    let Some(((cpu, waited), over)) = huge::khugepaged(interval).zip(interval.seconds()) else {
        return Vec::new();
    };
    let of = |part: f64| format!("{:.1} % of {}", part * 100.0 / over, seconds(over));
    vec![format!("ran {}", of(cpu)), format!("waited for a processor {}", of(waited))]
}

/// Huge page counters of `/proc/vmstat` over all page sizes.
fn counters(end: &Snapshot) -> Vec<String> {
    const SHOWN: [(&str, &str); 8] = [
        ("thp_fault_alloc", "made at fault"),
        ("thp_fault_fallback", "fell back at fault"),
        ("thp_collapse_alloc", "taken to collapse into, by khugepaged or on request"),
        ("thp_collapse_alloc_failed", "no page to collapse into"),
        ("thp_split_page", "split"),
        ("thp_split_pmd", "mappings split"),
        ("thp_underused_split_page", "split as underused"),
        ("thp_swpout", "swapped out whole"),
    ];
    let number = |name: &str| end.vmstat.get(name).get().filter(|number| *number > 0);
    let describe = |(name, words): &(&str, &str)| Some(format!("{} {words}", count(number(name)?)));
    SHOWN.iter().filter_map(describe).collect()
}

fn print_groups(page: &mut Page, groups: &[&Cgroup]) {
    if groups.is_empty() {
        return;
    }
    // cgroup version 1 has no such counters
    let is_counted = groups
        .iter()
        .map(|group| huge::count_made(group))
        .any(|made| made.at_fault.get().is_some() || made.by_collapse.get().is_some());
    let about = if is_counted { ", and how many were made" } else { "" };
    let about = format!("anonymous memory, how much of it is in huge pages{about}");
    page.heading("Memory cgroups", &about);
    let columns = vec![
        Column::path("cgroup"),
        Column::right("anon"),
        Column::right("huge"),
        Column::right("coverage"),
        Column::right("at fault").spare(2),
        Column::right("by collapse").spare(1),
    ];
    let mut table = Table::new(4, columns);
    for group in groups.iter().take(MOST) {
        let made = huge::count_made(group);
        table.row(vec![
            Cell::new(Role::Plain, group.path.as_str()),
            cell(&group.anon),
            cell(&group.anon_thp),
            coverage(&group.anon_thp, group.anon.get()),
            number(&made.at_fault),
            number(&made.by_collapse),
        ]);
    }
    table.print(page);
    print_more(page, groups.len());
}

fn print_processes(page: &mut Page, processes: &[&Process], end: &Snapshot) {
    if processes.is_empty() {
        return;
    }
    page.heading("Processes", "those with most memory in small pages first");
    let columns = vec![
        Column::right("pid"),
        Column::name("name"),
        Column::right("anon"),
        Column::right("huge"),
        Column::right("coverage"),
        Column::right("shmem huge").spare(2),
        Column::right("file huge").spare(3),
        Column::right("page tables").spare(1),
        Column::left("").spare(4),
    ];
    let mut table = Table::new(4, columns);
    processes.iter().take(MOST).for_each(|process| table.row(row(process)));
    table.print(page);
    print_more(page, processes.len());
    let tally = &end.processes.smaps;
    if tally.not_read > 0 {
        let listed = format!(
            "{} not looked into: they did not fit into {} ms (--smaps-budget)",
            super::words::plural(tally.not_read, "process"),
            tally.budget.get()
        );
        page.prose(4, Role::Quiet, &listed);
    }
}

fn row(process: &Process) -> Vec<Cell> {
    let forbidden = process.thp_allowed.get() == Some(false);
    vec![
        process.pid.to_string().into(),
        Cell::new(Role::Strong, process.name.as_str()),
        cell(&process.rss_anon),
        cell(&process.anon_huge),
        coverage(&process.anon_huge, process.rss_anon.get()),
        size_cell(&process.shmem_huge),
        size_cell(&process.file_huge),
        cell(&process.page_tables),
        if forbidden { "switched off".into() } else { Cell::default() },
    ]
}

/// A table's cell with a size; empty if it is zero or unknown.
fn size_cell(size: &Reading<Bytes>) -> Cell {
    match size.get() {
        Some(size) if size > Bytes::new(0) => size.to_string().into(),
        Some(_) => Cell::default(),
        None => Cell::new(Role::Quiet, format_reading(size)),
    }
}

/// A table's cell with a count; empty if it is absent, as with cgroup version 1.
fn number(of: &Reading<u64>) -> Cell {
    of.get().map_or_else(Cell::default, |number| count(number).into())
}

fn coverage(huge: &Reading<Bytes>, all: Option<Bytes>) -> Cell {
    let part = huge.get().zip(all);
    // the two numbers are from different files and may not match exactly
    let part = part.and_then(|(huge, all)| share(huge.get().min(all.get()), all.get()));
    part.map_or_else(|| Cell::new(Role::Quiet, NONE), Cell::from)
}

fn print_more(page: &mut Page, all: usize) {
    if all > MOST {
        page.line(&Line::indent(4).span(Role::Quiet, format!("and {} more (--json)", all - MOST)));
    }
}
