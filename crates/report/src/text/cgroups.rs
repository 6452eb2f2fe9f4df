// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The largest memory cgroups. The numbers of a group include its descendants.

use std::collections::BTreeMap;

use pagewise_model::{Bytes, Cgroup, Cgroups, Hierarchy, Interval, Limit, Percent, Reading};

use super::kit::{Page, Role};
use super::movement::format_per_second;
use super::process_table::describe_growth;
use super::table::{Cell, Column, NONE, Table};
use super::words::{cell, cell_with, count, describe_stall, format_reading, plural};
use crate::view::{Sort, View};

pub(super) fn print(page: &mut Page, interval: &Interval, view: &View) {
    let cgroups = &interval.end.cgroups;
    let start = Start::from_interval(interval);
    let groups = first(interval, &start, view);
    if groups.is_empty() {
        return print_nothing(page, cgroups, view.sort());
    }
    page.heading("Memory cgroups", &summary(cgroups, groups.len(), view.sort()));
    let rates = interval.seconds().is_some();
    let columns = vec![
        Column::path("group"),
        Column::right("usage"),
        Column::right("limit"),
        Column::right("swap"),
        Column::right("swap limit").spare(2),
        Column::right(if rates { "refaults/s" } else { "refaults" }).spare(1),
        Column::right("waited (60 s)").spare(1),
        Column::right("OOM kills").spare(3),
        Column::right("growth/s"),
    ];
    let mut table = Table::new(4, columns);
    for group in groups {
        let growth = match view.sort() {
            Sort::Growth => start.anonymous_growth_per_second(interval, group).map(describe_growth),
            _ => None,
        };
        let mut cells = row(interval, group, &start);
        cells.push(growth.map_or_else(Cell::default, Cell::from));
        table.row(cells);
    }
    table.print(page);
    if matches!(cgroups.hierarchy, Hierarchy::V1 | Hierarchy::Hybrid) {
        page.prose(4, Role::Quiet, VERSION_1);
    }
}

const VERSION_1: &str = "Version 1 of cgroups has no pressure per group, no memory.high and no memory.reclaim; \
    systemd.unified_cgroup_hierarchy=1 on the kernel's command line asks for version 2.";

/// The groups at the start of the interval, by path.
struct Start<'a>(BTreeMap<&'a str, &'a Cgroup>);

impl<'a> Start<'a> {
    fn from_interval(interval: &'a Interval) -> Self {
        let groups = interval.start.iter().flat_map(|start| &start.cgroups.groups);
        Self(groups.map(|group| (group.path.as_str(), group)).collect())
    }

    /// The growth of a group's counter per second; `None` if it is unknown at one end of the
    /// interval.
    fn rate(&self, interval: &Interval, group: &Cgroup, pick: Counter) -> Option<f64> {
        let before = pick(self.0.get(group.path.as_str())?).get()?;
        let grown = pick(group).get()?.checked_sub(before)?;
        Some(grown as f64 / interval.seconds()?)
    }

    /// Refaults of file and anonymous pages per second; `None` if both are unknown.
    fn refaults_per_second(&self, interval: &Interval, group: &Cgroup) -> Option<f64> {
        let kinds: [Counter; 2] = [|group| &group.refault_file, |group| &group.refault_anon];
        kinds.into_iter().filter_map(|pick| self.rate(interval, group, pick)).reduce(|a, b| a + b)
    }

    /// Growth of the cgroup's anonymous memory in bytes per second, RAM and swap together.
    fn anonymous_growth_per_second(&self, interval: &Interval, group: &Cgroup) -> Option<f64> {
        let before = anonymous(self.0.get(group.path.as_str())?)?;
        Some((anonymous(group)? - before) / interval.seconds()?)
    }
}

type Counter = fn(&Cgroup) -> &Reading<u64>;

fn anonymous(group: &Cgroup) -> Option<f64> {
    let swap = group.swap_current.get().unwrap_or_default();
    Some(group.anon.get()?.saturating_add(swap).get() as f64)
}

fn print_nothing(page: &mut Page, cgroups: &Cgroups, sort: Sort) {
    if matches!(sort, Sort::Swap | Sort::Growth | Sort::Refaults) && !cgroups.groups.is_empty() {
        let what = match sort {
            Sort::Swap => "has memory in swap",
            Sort::Growth => "grew over the interval",
            _ => "had refaults over the interval",
        };
        page.gap();
        return page.fact("Memory cgroups", &format!("no group {what}"));
    }
    if cgroups.hierarchy != Hierarchy::None {
        page.gap();
        page.fact(
            "Memory cgroups",
            &format!("{}; no group says what it uses", layout(cgroups.hierarchy)),
        );
    }
}

/// The first groups in the selected order, without the root, which is the whole machine.
fn first<'a>(interval: &'a Interval, start: &Start<'_>, view: &View) -> Vec<&'a Cgroup> {
    let all = interval.end.cgroups.groups.iter().filter(|group| uses_memory(group));
    let measured = all.filter_map(|group| {
        let bytes = |size: Bytes| size.get() as f64;
        let measure = match view.sort() {
            Sort::Size | Sort::Cpu => group.current.get().map(bytes),
            Sort::Swap => group.swap_current.get().map(bytes),
            Sort::Growth => start.anonymous_growth_per_second(interval, group),
            Sort::Refaults => start.refaults_per_second(interval, group),
        };
        Some((measure.filter(|measure| *measure > 0.0)?, group))
    });
    let mut groups: Vec<(f64, &Cgroup)> = measured.collect();
    groups.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    groups.truncate(view.most_rows());
    groups.into_iter().map(|(_, group)| group).collect()
}

fn uses_memory(group: &Cgroup) -> bool {
    !is_root(group) && group.current.get().is_some_and(|current| current.get() > 0)
}

fn is_root(group: &Cgroup) -> bool {
    group.path.as_str() == "/"
}

fn summary(cgroups: &Cgroups, shown: usize, sort: Sort) -> String {
    let order = match sort {
        Sort::Size | Sort::Cpu => "largest first",
        Sort::Swap => "the most in swap first",
        Sort::Growth => "the fastest growing first",
        Sort::Refaults => "the most refaults first",
    };
    let named = cgroups.groups.iter().filter(|group| !is_root(group)).count() as u64;
    let all = named + cgroups.left_out;
    let left_out = match cgroups.left_out {
        0 => String::new(),
        left_out => format!(" ({} not read)", count(left_out)),
    };
    format!(
        "{}; {} of {}{left_out}, {order}, children included",
        layout(cgroups.hierarchy),
        shown,
        plural(all, "group")
    )
}

fn layout(hierarchy: Hierarchy) -> &'static str {
    match hierarchy {
        Hierarchy::V2 => "version 2",
        Hierarchy::V1 => "version 1",
        Hierarchy::Hybrid => "hybrid (memory in version 1)",
        Hierarchy::None => "no memory controller",
    }
}

fn row(interval: &Interval, group: &Cgroup, start: &Start<'_>) -> Vec<Cell> {
    vec![
        group.path.as_str().into(),
        cell(&group.current),
        cell_with(&group.max, limit),
        cell(&group.swap_current),
        cell_with(&group.swap_max, limit),
        refaults_per_second(interval, group, start),
        wait_cell(&group.pressure.some.avg60),
        oom_kills(&group.events.oom_kill),
    ]
}

fn limit(limit: &Limit) -> String {
    match limit {
        Limit::Max => "none".to_owned(),
        Limit::Bytes(bytes) => bytes.to_string(),
    }
}

/// Refaults of file and anonymous pages: per second over the interval, or a total since the group
/// was created.
fn refaults_per_second(interval: &Interval, group: &Cgroup, start: &Start<'_>) -> Cell {
    if interval.seconds().is_none() {
        let both = group.refault_file.get().zip(group.refault_anon.get());
        return both.map_or_else(
            || format_reading(&group.refault_file).into(),
            |(file, anon)| count(file.saturating_add(anon)).into(),
        );
    }
    match start.refaults_per_second(interval, group) {
        None => Cell::new(Role::Quiet, NONE),
        Some(none) if none <= 0.0 => "0".into(),
        Some(rate) => format_per_second(rate).into(),
    }
}

/// Share of the last minute in which a task of the group was stalled on memory; version 1 does not
/// measure it.
fn wait_cell(some: &Reading<Percent>) -> Cell {
    some.get().map_or_else(Cell::default, |some| describe_stall(some.get()).into())
}

fn oom_kills(kills: &Reading<u64>) -> Cell {
    match kills.get() {
        None => Cell::default(),
        Some(0) => Cell::default(),
        Some(kills) => Cell::new(Role::Warning, count(kills)),
    }
}
