// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes in the selected order, with the selected columns.
//!
//! Only processes with a value above zero in that order are shown: one without swap is not in a
//! table sorted by swap. A process that started after the first reading has no earlier value; its
//! growth is its whole size divided by its age.

use pagewise_model::{Bytes, Interval, Millis, Process, ProcessChange, unit_of};

use super::kit::{Page, Role};
use super::processes::{print_left_out, proportional};
use super::table::{Cell, Column, NONE, Table};
use super::words::{cell, count, describe_stall, plural, seconds};
use crate::view::{Field, ProcessView, Sort, View};

/// The processes of a view in its order; also used to find out which processes will be shown.
pub fn shown_processes<'a>(interval: &'a Interval, view: &View) -> Vec<&'a Process> {
    let rows = sort_rows(interval, view.sort()).into_iter().take(view.most_rows());
    rows.map(|row| row.process).collect()
}

pub(super) fn print(page: &mut Page, interval: &Interval, view: &View, chosen: &ProcessView) {
    let all = sort_rows(interval, chosen.sort);
    let shown = &all[..all.len().min(view.most_rows())];
    if shown.is_empty() {
        return print_nothing(page, interval, chosen.sort);
    }
    page.heading("Processes", &summary(interval, chosen.sort, shown.len(), all.len()));
    let fields = chosen.shown_fields();
    let mut table = Table::new(4, fields.iter().map(|field| column(*field)).collect());
    for row in shown {
        table.row(fields.iter().map(|field| value(*field, row, interval, chosen)).collect());
    }
    table.print(page);
    print_notes(page, interval, chosen, &fields);
}

/// Prints the text if no process has a value in this order.
fn print_nothing(page: &mut Page, interval: &Interval, sort: Sort) {
    let is_rate = matches!(sort, Sort::Growth | Sort::Refaults | Sort::Cpu);
    let text = match sort {
        _ if is_rate && interval.seconds().is_none() => {
            "unknown: the host was read once, and this needs two readings".to_owned()
        }
        _ if is_rate && !is_known_at_start(interval) => {
            "not known: the recording has no processes at its earlier end".to_owned()
        }
        _ => {
            let all = plural(interval.end.processes.list.len() as u64, "process");
            let deed = match sort {
                Sort::Swap => "has memory in swap".to_owned(),
                Sort::Size => "has a known size".to_owned(),
                Sort::Growth | Sort::Refaults | Sort::Cpu => verb_of(interval, sort),
            };
            format!("none of {all} {deed}")
        }
    };
    page.gap();
    page.fact("Processes", &text);
    print_left_out(page, &interval.end.processes);
}

/// A process and its change over the interval.
#[derive(Debug, Clone, Copy)]
struct Row<'a> {
    process: &'a Process,
    change: Option<ProcessChange<'a>>,
}

fn sort_rows(interval: &Interval, sort: Sort) -> Vec<Row<'_>> {
    let list = interval.end.processes.list.iter();
    let mut rows: Vec<(f64, Row<'_>)> = list
        .map(|process| Row { process, change: interval.process_change(process) })
        .filter_map(|row| Some((measure(interval, &row, sort)?, row)))
        .filter(|(measure, _)| *measure > 0.0 || sort == Sort::Size)
        .collect();
    rows.sort_by(|(a, left), (b, right)| {
        b.total_cmp(a).then(left.process.pid.cmp(&right.process.pid))
    });
    rows.into_iter().map(|(_, row)| row).collect()
}

/// The value by which the rows are sorted; `None` if it is unknown.
fn measure(interval: &Interval, row: &Row<'_>, sort: Sort) -> Option<f64> {
    let size = |bytes: Bytes| bytes.get() as f64;
    match sort {
        Sort::Size => row.process.proportional.get().or_else(|| row.process.resident()).map(size),
        Sort::Swap => row.process.swap.get().map(size),
        Sort::Growth => growth(interval, row),
        Sort::Refaults => faults_per_second(row),
        Sort::Cpu => row.change?.cpu_percent(),
    }
}

/// Growth of a process in bytes per second.
fn growth(interval: &Interval, row: &Row<'_>) -> Option<f64> {
    match row.change {
        Some(change) => change.growth_per_second(),
        None => {
            let age = new_process_age(interval, row)?;
            let least = Millis::new(10);
            Some(row.process.anonymous()?.get() as f64 * 1000.0 / age.max(least).get() as f64)
        }
    }
}

/// The age of a process that started after the first reading.
fn new_process_age(interval: &Interval, row: &Row<'_>) -> Option<Millis> {
    let age = interval.end.age(row.process)?;
    (age.get() as f64 <= interval.seconds()? * 1000.0).then_some(age)
}

fn faults_per_second(row: &Row<'_>) -> Option<f64> {
    let change = row.change?;
    Some(change.major_faults()? as f64 / change.seconds)
}

fn summary(interval: &Interval, sort: Sort, shown: usize, found: usize) -> String {
    let all = plural(interval.end.processes.list.len() as u64, "process");
    let order = match sort {
        Sort::Size => {
            return format!(
                "{shown} of {all}, largest first: by proportional size where read, else resident"
            );
        }
        Sort::Growth => "the fastest first",
        Sort::Swap | Sort::Refaults | Sort::Cpu => "the most first",
    };
    let part = if shown < found { format!("; {shown} shown") } else { String::new() };
    format!("{} of {all} {}; {order}{part}", count(found as u64), verb_of(interval, sort))
}

/// Describes what the processes in a table of this order have in common.
fn verb_of(interval: &Interval, sort: Sort) -> String {
    let over = interval.seconds().map_or_else(String::new, |time| format!(" in {}", seconds(time)));
    match sort {
        Sort::Size => "with a known size".to_owned(),
        Sort::Swap => "with memory in swap".to_owned(),
        Sort::Growth => format!("grew{over}"),
        Sort::Refaults => format!("had major faults{over}"),
        Sort::Cpu => format!("used a CPU{over}"),
    }
}

fn column(field: Field) -> Column {
    match field {
        Field::Pid => Column::right("pid"),
        Field::User => Column::name("user").spare(4),
        Field::Command => Column::name("command"),
        Field::Unit => Column::name("unit").spare(3),
        Field::Virtual => Column::right("virtual").spare(7),
        Field::Resident => Column::right("resident").spare(1),
        Field::Pss => Column::right("proportional").spare(5),
        Field::Anon => Column::right("anon").spare(6),
        Field::File => Column::right("file").spare(8),
        Field::Shmem => Column::right("shmem").spare(9),
        Field::Swap => Column::right("swap"),
        Field::Growth => Column::right("growth/s"),
        Field::Faults => Column::right("faults/s"),
        Field::Cpu => Column::right("CPU"),
        Field::Age => Column::right("age").spare(2),
        Field::Huge => Column::right("huge").spare(10),
    }
}

fn value(field: Field, row: &Row<'_>, interval: &Interval, chosen: &ProcessView) -> Cell {
    let process = row.process;
    match field {
        Field::Pid => Cell::new(Role::Quiet, process.pid.to_string()),
        Field::User => user(process, chosen),
        Field::Command => {
            let name = chosen.command_lines.get(&process.pid).unwrap_or(&process.name);
            Cell::new(Role::Strong, name.as_str())
        }
        Field::Unit => known_cell(process.cgroup.value().and_then(unit_of)),
        Field::Virtual => cell(&process.virtual_size),
        Field::Resident => known_cell(process.resident().map(|size| size.to_string())),
        Field::Pss => proportional(process),
        Field::Anon => cell(&process.rss_anon),
        Field::File => cell(&process.rss_file),
        Field::Shmem => cell(&process.rss_shmem),
        Field::Swap => cell(&process.swap),
        Field::Growth => known_cell(describe_row_growth(interval, row)),
        Field::Faults => known_cell(faults_per_second(row).map(|rate| format!("{rate:.0}"))),
        Field::Cpu => {
            known_cell(row.change.and_then(|change| change.cpu_percent()).map(describe_stall))
        }
        Field::Age => known_cell(interval.end.age(process).map(age)),
        Field::Huge => cell(&process.anon_huge),
    }
}

fn known_cell(text: Option<String>) -> Cell {
    text.map_or_else(|| Cell::new(Role::Quiet, NONE), Cell::from)
}

fn user(process: &Process, chosen: &ProcessView) -> Cell {
    let Some(uid) = process.uid.get() else { return cell(&process.uid) };
    chosen.users.get(&uid).map_or_else(|| uid.to_string().into(), |name| name.as_str().into())
}

/// Formats the growth of a process: `+24.0 MiB`, `-3.0 KiB`, `0`; with `new` for a process that
/// started meanwhile.
fn describe_row_growth(interval: &Interval, row: &Row<'_>) -> Option<String> {
    let rate = growth(interval, row)?;
    let new = if row.change.is_none() { " new" } else { "" };
    Some(describe_growth(rate) + new)
}

/// Formats a growth in bytes per second, with a sign.
pub(super) fn describe_growth(rate: f64) -> String {
    match rate {
        up if up >= 1.0 => format!("+{}", whole_bytes(up)),
        down if down <= -1.0 => format!("-{}", whole_bytes(-down)),
        _ => "0".to_owned(),
    }
}

/// Converts a rate above zero to a size.
fn whole_bytes(rate: f64) -> Bytes {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "above zero, and a number that does not fit becomes the largest"
    )]
    Bytes::new(rate.round() as u64)
}

/// Formats the age of a process in its largest unit: `14 s`, `3 min`, `5.0 h`, `12 d`.
fn age(age: Millis) -> String {
    seconds((age.get() / 1000) as f64)
}

/// Prints explanations of the table's columns.
fn print_notes(page: &mut Page, interval: &Interval, chosen: &ProcessView, fields: &[Field]) {
    let mut note = |text: &str| page.prose(4, Role::Quiet, text);
    let needs_start = fields.contains(&Field::Growth) || chosen.needs_rates();
    if needs_start && interval.seconds().is_none() {
        note("The host was read once: growth, faults and CPU time need two readings.");
    } else if needs_start && !is_known_at_start(interval) {
        note("The earlier look has no processes: growth, faults and CPU time are not known.");
    }
    if fields.contains(&Field::Growth) {
        note("growth/s: anonymous memory in RAM and in swap together, per second of the interval.");
    }
    if chosen.sort == Sort::Refaults {
        note(
            "faults/s: major faults, which waited for a disk or for compressed memory. The kernel \
            counts refaults per cgroup, not per process.",
        );
    }
    print_left_out(page, &interval.end.processes);
}

fn is_known_at_start(interval: &Interval) -> bool {
    interval.start.as_deref().is_some_and(|start| !start.processes.list.is_empty())
}
