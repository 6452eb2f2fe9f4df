// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The changes between two hosts, or of one host between two times.

use pagewise_model::{
    ActivityChange, ActivityUnit, Bytes, ComparedHost, Comparison, Name, Nanos, Percent, Presence,
    ProgramChange, Quantity, Relation, SettingChange, SizeChange,
};

use super::kit::{Line, Page, Role};
use super::movement::format_per_second;
use super::table::{Cell, Column, NONE, Table};
use super::words::{cell, cell_with, count, plural, seconds};
use crate::time;

/// Maximum number of rows of cgroups and of processes; JSON has all.
const SHOWN: usize = 12;
const INDENT: usize = 4;

pub(super) fn print(page: &mut Page, comparison: &Comparison) {
    print_hosts(page, comparison);
    print_settings(page, comparison);
    print_effect(page, comparison);
    print_memory(page, &comparison.memory);
    print_pressure(page, comparison);
    print_activity(page, comparison);
    print_threads(page, comparison);
    print_cgroups(page, comparison);
    print_programs(page, &comparison.processes);
}

fn print_hosts(page: &mut Page, comparison: &Comparison) {
    print_host(page, "before", &comparison.before);
    print_host(page, "after", &comparison.after);
    let reasons = comparison.reasons.join("; ");
    let (role, text) = match comparison.relation {
        Relation::SameBoot => {
            let apart = comparison.seconds.map(|apart| format!("{} apart, ", seconds(apart)));
            (Role::Quiet, format!("{}the same boot: {reasons}", apart.unwrap_or_default()))
        }
        Relation::AnotherBoot => (
            Role::Warning,
            format!(
                "not the same boot: {reasons}. Counters began again, so there are no rates over the time \
                 between, only averages since each boot"
            ),
        ),
        Relation::AnotherHost => {
            (Role::Warning, format!("two different machines: {reasons}. They are compared as such"))
        }
    };
    page.prose(8, role, &text);
}

fn print_host(page: &mut Page, label: &str, host: &ComparedHost) {
    let root = if host.root.as_str() == "live" { "this machine now" } else { host.root.as_str() };
    let mut items = vec![root.to_owned()];
    items.extend(host.name.value().map(ToString::to_string));
    items.extend(host.kernel.value().map(|kernel| format!("Linux {kernel}")));
    let time = time::timestamp(host.unix_seconds);
    items.extend(time.map(|time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()));
    items.extend(host.uptime_seconds.map(|uptime| format!("up {}", seconds(uptime))));
    let start = Line::default().span(Role::Strong, label).pad_to(8);
    page.hang(start, 8, Role::Plain, &items.join(" · "));
}

/// A table with a name and then numbers.
fn table_with_titles<const N: usize>(titles: [&str; N]) -> Table {
    let titles = titles.map(Column::right);
    Table::new(INDENT, [Column::left("")].into_iter().chain(titles).collect())
}

/// For two machines, settings that only one kernel has are counted instead of listed: kernels
/// differ in dozens of them.
fn print_settings(page: &mut Page, comparison: &Comparison) {
    let are_two = comparison.relation == Relation::AnotherHost;
    let is_knob = |it: &SettingChange| it.instance.is_none() && it.name.contains('.');
    let is_counted =
        |it: &&SettingChange| are_two && is_knob(it) && (it.from.is_none() || it.to.is_none());
    let (counted, settings): (Vec<_>, Vec<_>) = comparison.settings.iter().partition(is_counted);
    if comparison.settings.is_empty() {
        page.gap();
        return page.fact("Settings", "none changed that pagewise knows");
    }
    page.heading("Settings", "");
    let columns = [Column::left(""), Column::path("of"), Column::name("before")];
    let columns = columns.into_iter().chain([Column::words("after")]).collect();
    let mut table = Table::new(INDENT, columns);
    let shown = |value: &Option<Name>| value.as_ref().map_or(NONE.to_owned(), Name::to_string);
    for SettingChange { name, instance, from, to } in settings {
        let of = instance.as_ref().map(Name::to_string).unwrap_or_default();
        table.row(vec![name.as_str().into(), of.into(), shown(from).into(), shown(to).into()]);
    }
    table.print(page);
    if !counted.is_empty() {
        let number = count(counted.len() as u64);
        let text =
            format!("and {number} more that only one of the two kernels has; --json has all");
        page.prose(INDENT, Role::Quiet, &text);
    }
}

fn print_effect(page: &mut Page, comparison: &Comparison) {
    let effect = &comparison.effect;
    page.heading("Did it help?", "");
    let measures = |all: &[String]| match all {
        [] => "no measure by 20 % or more".to_owned(),
        all => all.join(" · "),
    };
    let rows = [
        (Role::Good, "better", measures(&effect.better)),
        (Role::Warning, "worse", measures(&effect.worse)),
        (Role::Strong, "before", comparison.before.verdict.clone()),
        (Role::Strong, "after", comparison.after.verdict.clone()),
    ];
    for (role, label, text) in rows {
        page.hang(Line::indent(INDENT).span(role, label).pad_to(12), 12, Role::Plain, &text);
    }
    page.prose(INDENT, Role::Quiet, &effect.caveat);
    if let Some(command) = &effect.trial {
        let start = Line::indent(INDENT).span(Role::Quiet, "next");
        let what = "runs CMD with each setting in turn, and says how certain a difference is";
        page.command(start, 12, &format!("{command}  # {what}"));
    }
}

fn print_memory(page: &mut Page, sizes: &[SizeChange]) {
    page.heading("Memory", "");
    let mut table = table_with_titles(["before", "after", "change"]);
    let is_used = |it: &&SizeChange| [&it.before, &it.after].iter().any(|size| size.get() != ZERO);
    for SizeChange { name, before, after } in sizes.iter().filter(is_used) {
        let change = signed_difference(before.get(), after.get());
        table.row(vec![(*name).into(), cell(before), cell(after), change.into()]);
    }
    table.print(page);
}

const ZERO: Option<Bytes> = Some(Bytes::new(0));

/// Formats the change of a size with its sign; empty if it is zero or unknown.
fn signed_difference(before: Option<Bytes>, after: Option<Bytes>) -> String {
    let (Some(before), Some(after)) = (before, after) else { return String::new() };
    let sign = if before < after {
        "+"
    } else if before > after {
        "−"
    } else {
        return String::new();
    };
    format!("{sign}{}", Bytes::new(before.get().abs_diff(after.get())))
}

fn print_pressure(page: &mut Page, comparison: &Comparison) {
    if comparison.pressure.is_empty() {
        return;
    }
    let note = "share of time that tasks waited, over the 60 s before each reading, and between";
    page.heading("Pressure", note);
    let mut table = table_with_titles(["before", "after", "between"]);
    for change in &comparison.pressure {
        let shown = |reading| cell_with(reading, |share: &Percent| share.format_share_of_time());
        let (before, after) = (shown(&change.before), shown(&change.after));
        table.row(vec![change.name.into(), before, after, share(change.between)]);
    }
    table.print(page);
}

fn share(share: Option<Percent>) -> Cell {
    share.map(Percent::format_share_of_time).unwrap_or_default().into()
}

/// The time over which the rates of each host were measured; empty if none were.
fn describe_intervals(comparison: &Comparison) -> String {
    let hosts = [("before", &comparison.before), ("after", &comparison.after)];
    let length = |(label, host): (&str, &ComparedHost)| {
        Some(format!("{label}: over {}", seconds(host.interval_seconds?)))
    };
    hosts.into_iter().filter_map(length).collect::<Vec<String>>().join("; ")
}

fn print_activity(page: &mut Page, comparison: &Comparison) {
    let moved = |it: &&ActivityChange| {
        let rates = [it.before, it.after, it.between].into_iter().flatten();
        rates.chain(it.since_boot.into_iter().flatten()).any(|rate| rate > 0.0)
    };
    let rows: Vec<&ActivityChange> = comparison.activity.iter().filter(moved).collect();
    if rows.is_empty() {
        page.gap();
        let none = "nothing was reclaimed, swapped or read again, as far as is known";
        return page.fact("Activity", none);
    }
    page.heading("Activity", &describe_intervals(comparison));
    let mut table =
        table_with_titles(["before", "after", "between", "in all", "boot: before", "boot: after"]);
    for row in rows {
        let rate = |rate: Option<f64>| -> Cell {
            rate.map_or(String::new(), |rate| format_rate(row, rate)).into()
        };
        let [boot_before, boot_after] = row.since_boot.map_or([None; 2], |both| both.map(Some));
        let in_all = row.between_count.map_or(String::new(), |count| format_amount(row, count));
        let mut cells = vec![Cell::from(row.name)];
        cells.extend([row.before, row.after, row.between].map(rate));
        cells.push(in_all.into());
        cells.extend([boot_before, boot_after].map(rate));
        table.row(cells);
    }
    table.print(page);
}

fn format_rate(row: &ActivityChange, rate: f64) -> String {
    match (row.unit, row.page_bytes) {
        (ActivityUnit::Pages, Some(page)) => {
            format!("{}/s", Percent::new(rate * 100.0).share_of(page))
        }
        _ => format!("{}/s", format_per_second(rate)),
    }
}

fn format_amount(row: &ActivityChange, number: u64) -> String {
    let size = |page: Bytes| Bytes::new(number.saturating_mul(page.get())).to_string();
    row.page_bytes.map_or_else(|| count(number), size)
}

fn print_threads(page: &mut Page, comparison: &Comparison) {
    if comparison.threads.is_empty() {
        return;
    }
    let note = "CPU time since each boot, and the share of one CPU between";
    page.heading("Kernel threads", note);
    let mut table =
        table_with_titles(["before", "after", "between", "boot: before", "boot: after"]);
    for change in &comparison.threads {
        let time = |time: &Nanos| seconds(time.get() as f64 / 1e9);
        let [before, after] =
            [&change.before, &change.after].map(|reading| cell_with(reading, time));
        let boots = change.since_boot.map_or([None; 2], |both| both.map(Some)).map(share);
        let row = vec![change.name.into(), before, after, share(change.between)];
        table.row(row.into_iter().chain(boots).collect());
    }
    table.print(page);
}

fn print_cgroups(page: &mut Page, comparison: &Comparison) {
    let unmatched = match comparison.unmatched_cgroups as u64 {
        0 => String::new(),
        many => {
            format!("{} left out: each recording numbers names otherwise", plural(many, "group"))
        }
    };
    if comparison.cgroups.is_empty() {
        page.gap();
        let none = ["none changed by 1 MiB or more", &unmatched].join(" · ");
        return page.fact("Cgroups", none.trim_end_matches(" · "));
    }
    page.heading("Cgroups", &unmatched);
    let rows = comparison.cgroups.iter().map(|group| {
        let mut cells = vec![Cell::from(group.path.as_str()), presence(group.presence)];
        cells.extend(change_of(group.memory_before.get(), group.memory_after.get()));
        cells.push(signed_swap(group.swap_before.get(), group.swap_after.get()));
        cells.push(share(group.waited));
        cells.push(group.refaults.map(count).unwrap_or_default().into());
        cells
    });
    print_rows(page, columns_of("cgroup", ["waited", "refaults"]), rows);
}

fn print_programs(page: &mut Page, programs: &[ProgramChange]) {
    if programs.is_empty() {
        page.gap();
        return page.fact("Processes", "none changed by 1 MiB or more");
    }
    page.heading("Processes", "resident memory; pages that processes share count in each of them");
    let rows = programs.iter().map(|program| {
        let mut cells = vec![Cell::from(name_of(program)), presence(program.presence)];
        cells.extend(change_of(program.resident_before, program.resident_after));
        cells.push(signed_swap(program.swap_before, program.swap_after));
        cells.push(program.cpu_seconds.map(seconds).unwrap_or_default().into());
        cells.push(program.major_faults.map(count).unwrap_or_default().into());
        cells
    });
    print_rows(page, columns_of("process", ["CPU", "major faults"]), rows);
}

/// Prints the first rows, and the number of the others.
fn print_rows(
    page: &mut Page,
    columns: Vec<Column>,
    rows: impl ExactSizeIterator<Item = Vec<Cell>>,
) {
    let more = rows.len().saturating_sub(SHOWN);
    let mut table = Table::new(INDENT, columns);
    rows.take(SHOWN).for_each(|row| table.row(row));
    table.print(page);
    if more > 0 {
        let text = format!("and {more} more, with smaller changes; --json has all");
        page.prose(INDENT, Role::Quiet, &text);
    }
}

fn columns_of(name: &str, spare: [&str; 2]) -> Vec<Column> {
    let sizes = ["before", "after", "change"].map(Column::right);
    let columns = [Column::path(name), Column::left("")].into_iter().chain(sizes);
    let columns = columns.chain([Column::right("swap").spare(1)]);
    columns.chain(spare.map(|title| Column::right(title).spare(2))).collect()
}

fn presence(presence: Presence) -> Cell {
    match presence {
        Presence::Same => Cell::from(""),
        Presence::Namesake => Cell::new(Role::Quiet, "another"),
        Presence::Gone => Cell::new(Role::Warning, "gone"),
        Presence::New => Cell::new(Role::Info, "new"),
    }
}

fn change_of(before: Option<Bytes>, after: Option<Bytes>) -> [Cell; 3] {
    let shown = |size: Option<Bytes>| size.map_or(NONE.to_owned(), |size| size.shown());
    [shown(before).into(), shown(after).into(), signed_difference(before, after).into()]
}

/// Formats the change of swap. A size that is missing on one side counts as 0, so that all swap of
/// a new or ended process or cgroup is the change.
fn signed_swap(before: Option<Bytes>, after: Option<Bytes>) -> Cell {
    signed_difference(before.or(ZERO), after.or(ZERO)).into()
}

/// Names a program in a comparison: `nginx (7)` for a process that exists at both times; `nginx × 4
/// → 6` for several.
fn name_of(program: &ProgramChange) -> String {
    let ProgramChange { name, pid, count_before, count_after, .. } = program;
    match (pid, count_before, count_after) {
        (Some(pid), _, _) => format!("{name} ({pid})"),
        (None, 0 | 1, 0 | 1) => name.to_string(),
        (None, before, after) => format!("{name} × {before} → {after}"),
    }
}
