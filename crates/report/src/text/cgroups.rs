// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The largest memory cgroups. A group's numbers include the groups below it.

use pagewise_model::{Cgroup, Cgroups, Hierarchy, Interval, Limit, Percent, Reading, Snapshot};

use super::kit::{Page, Role};
use super::movement::per_second;
use super::table::{Cell, Column, Table};
use super::words::{cell, cell_as, count, plural, shown, stalled};

const SHOWN: usize = 10;

pub(super) fn print(page: &mut Page, interval: &Interval) {
    let cgroups = &interval.end.cgroups;
    let groups = largest(cgroups);
    if groups.is_empty() {
        return nothing(page, cgroups);
    }
    page.heading("Memory cgroups", &summary(cgroups, groups.len()));
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
    ];
    let mut table = Table::new(4, columns);
    groups.iter().for_each(|group| table.row(row(interval, group)));
    table.print(page);
    if matches!(cgroups.hierarchy, Hierarchy::V1 | Hierarchy::Hybrid) {
        page.prose(4, Role::Quiet, VERSION_1);
    }
}

const VERSION_1: &str = "Memory is in cgroup version 1, which has no pressure per group, no memory.high \
    and no memory.reclaim. systemd.unified_cgroup_hierarchy=1 on the kernel's command line asks for \
    version 2.";

fn nothing(page: &mut Page, cgroups: &Cgroups) {
    if cgroups.hierarchy != Hierarchy::None {
        page.gap();
        page.fact(
            "Memory cgroups",
            &format!("{}; no group says what it uses", layout(cgroups.hierarchy)),
        );
    }
}

/// The groups that use most, without the root, which is the whole machine.
fn largest(cgroups: &Cgroups) -> Vec<&Cgroup> {
    let mut groups: Vec<&Cgroup> =
        cgroups.groups.iter().filter(|group| uses_memory(group)).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.current.get()));
    groups.truncate(SHOWN);
    groups
}

fn uses_memory(group: &Cgroup) -> bool {
    !is_root(group) && group.current.get().is_some_and(|current| current.get() > 0)
}

fn is_root(group: &Cgroup) -> bool {
    group.path.as_str() == "/"
}

fn summary(cgroups: &Cgroups, shown: usize) -> String {
    let named = cgroups.groups.iter().filter(|group| !is_root(group)).count() as u64;
    let all = named + cgroups.left_out;
    let left_out = match cgroups.left_out {
        0 => String::new(),
        left_out => format!(" ({} not read)", count(left_out)),
    };
    format!(
        "{}; {} of {}{left_out}, largest first, children included",
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

fn row(interval: &Interval, group: &Cgroup) -> Vec<Cell> {
    vec![
        group.path.as_str().into(),
        cell(&group.current),
        cell_as(&group.max, limit),
        cell(&group.swap_current),
        cell_as(&group.swap_max, limit),
        refaults(interval, group),
        waited(&group.pressure.some.avg60),
        oom_kills(&group.events.oom_kill),
    ]
}

fn limit(limit: &Limit) -> String {
    match limit {
        Limit::Max => "none".to_owned(),
        Limit::Bytes(bytes) => bytes.to_string(),
    }
}

/// Refaults of both kinds: per second over the interval, else since the group was made.
fn refaults(interval: &Interval, group: &Cgroup) -> Cell {
    if interval.seconds().is_none() {
        let both = group.refault_file.get().zip(group.refault_anon.get());
        return both.map_or_else(
            || shown(&group.refault_file).into(),
            |(file, anon)| count(file.saturating_add(anon)).into(),
        );
    }
    let grown = |pick: fn(&Cgroup) -> &Reading<u64>| {
        interval.change(|snapshot| {
            find(snapshot, group).map_or_else(Reading::not_read, |group| pick(group).clone())
        })
    };
    let changes = [grown(|group| &group.refault_file), grown(|group| &group.refault_anon)];
    let known: Vec<f64> = changes.into_iter().flatten().map(|change| change.per_second).collect();
    match known.iter().sum::<f64>() {
        _ if known.is_empty() => Cell::new(Role::Quiet, "–"),
        none if none <= 0.0 => "0".into(),
        rate => per_second(rate).into(),
    }
}

fn find<'a>(snapshot: &'a Snapshot, group: &Cgroup) -> Option<&'a Cgroup> {
    snapshot.cgroups.groups.iter().find(|other| other.path == group.path)
}

/// Share of the last minute in which one of its tasks waited for memory; version 1 does not count it.
fn waited(some: &Reading<Percent>) -> Cell {
    some.get().map_or_else(Cell::default, |some| stalled(some.get()).into())
}

fn oom_kills(kills: &Reading<u64>) -> Cell {
    match kills.get() {
        None => Cell::default(),
        Some(0) => Cell::default(),
        Some(kills) => Cell::new(Role::Warning, count(kills)),
    }
}
