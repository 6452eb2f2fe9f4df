// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The largest processes, and the meaning of the three sizes of a process.

use pagewise_model::{Bytes, Process, Processes};

use super::kit::{Page, Role};
use super::table::{Cell, Column, Table};
use super::words::{can_root_read, cell, count, plural};

pub(super) fn print(page: &mut Page, processes: &Processes, most: usize) {
    let largest = largest(processes, most);
    if largest.is_empty() {
        return;
    }
    page.heading("Processes", &summary(processes, largest.len()));
    let mut table = Table::new(4, columns());
    largest.iter().for_each(|process| table.row(row(process)));
    table.print(page);
    page.prose(4, Role::Quiet, MEANING);
    page.prose(4, Role::Quiet, &reading(processes));
    print_left_out(page, processes);
}

/// Says how many processes were not read, if the host has more than are read.
pub(super) fn print_left_out(page: &mut Page, processes: &Processes) {
    if processes.left_out > 0 {
        let read = processes.list.len() as u64;
        let all = plural(read.saturating_add(processes.left_out), "process");
        let text = format!(
            "{} of {all} were read: those with the most memory in RAM. The others are in no number here that is \
             summed over processes.",
            count(read)
        );
        page.prose(4, Role::Warning, &text);
    }
}

const MEANING: &str = "virtual: address space asked for, most of it never touched. resident: in RAM, \
    where pages shared by ten processes count ten times. proportional: shared pages divided among \
    their users; only this may be summed.";

fn columns() -> Vec<Column> {
    vec![
        Column::right("pid"),
        Column::name("name"),
        Column::right("virtual").spare(4),
        Column::right("resident"),
        Column::right("proportional"),
        Column::right("anon").spare(3),
        Column::right("file").spare(5),
        Column::right("shmem").spare(6),
        Column::right("swap").spare(1),
        Column::right("huge").spare(2),
    ]
}

/// The processes with the largest proportional size, or resident size if that was not read.
pub(super) fn largest(processes: &Processes, most: usize) -> Vec<&Process> {
    let mut all: Vec<(Bytes, &Process)> = processes
        .list
        .iter()
        .filter_map(|process| {
            Some((process.proportional.get().or_else(|| process.resident())?, process))
        })
        .collect();
    all.sort_by_key(|(size, process)| (std::cmp::Reverse(*size), process.pid));
    all.into_iter().take(most).map(|(_, process)| process).collect()
}

fn summary(processes: &Processes, shown: usize) -> String {
    let all = processes.list.len() as u64;
    format!(
        "{shown} of {}, largest first: by proportional size where read, else resident",
        count(all)
    )
}

fn row(process: &Process) -> Vec<Cell> {
    let resident = process
        .resident()
        .map_or_else(|| Cell::new(Role::Quiet, "–"), |size| size.to_string().into());
    vec![
        Cell::new(Role::Quiet, process.pid.to_string()),
        Cell::new(Role::Strong, process.name.as_str()),
        cell(&process.virtual_size),
        resident,
        proportional(process),
        cell(&process.rss_anon),
        cell(&process.rss_file),
        cell(&process.rss_shmem),
        cell(&process.swap),
        cell(&process.anon_huge),
    ]
}

/// A table's cell with a process's proportional size, or why it was not read.
pub(super) fn proportional(process: &Process) -> Cell {
    use pagewise_model::SmapsOutcome::{Denied, Gone, NotRead, Read, Smaller, Stuck};
    match process.smaps {
        Read | Denied => cell(&process.proportional),
        NotRead | Smaller => Cell::new(Role::Quiet, "not read"),
        Stuck => Cell::new(Role::Warning, "stuck"),
        Gone => Cell::new(Role::Quiet, "gone"),
    }
}

/// Describes how many proportional sizes were read, and why the others were not.
fn reading(processes: &Processes) -> String {
    let tally = &processes.smaps;
    let root_could = processes.list.iter().filter(|process| can_root_read(&process.proportional));
    let root_could = root_could.count() as u64;
    let others = [
        (tally.not_read, "not read (would not fit into the time allowed)"),
        (root_could, "denied to all but root"),
        (tally.denied.saturating_sub(root_could), "refused even to root"),
        (tally.stuck, "stuck (something holds the process's memory lock)"),
        (tally.gone, "gone meanwhile"),
        (tally.smaller, "not read (too small to be among the largest)"),
    ];
    let others = others.iter().filter(|(number, _)| *number > 0);
    let others: Vec<String> =
        others.map(|(number, why)| format!("{} {why}", count(*number))).collect();
    let read = format!("Proportional sizes were read of {}", plural(tally.read, "process"));
    if others.is_empty() { format!("{read}.") } else { format!("{read}; {}.", others.join(", ")) }
}
