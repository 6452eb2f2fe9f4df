// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of a live view: processes or cgroups in the selected order, around the selected row.

use pagewise_model::{Bytes, LiveGroup, LiveProcess, LiveSubject};

use super::super::kit::{Page, Role};
use super::super::process_table::describe_growth;
use super::super::table::{Cell, Column, NONE, Table};
use super::super::words::describe_stall;
use crate::live::{LiveFrame, LiveView, shown_groups, shown_processes, visible_rows};

/// Prints the table's title and at most `rows` rows.
pub(super) fn print(page: &mut Page, frame: &LiveFrame<'_>, rows: usize) {
    let view = frame.view;
    if rows == 0 {
        return;
    }
    if view.groups {
        let all = shown_groups(frame.sample, view);
        let is_selected = |group: &&LiveGroup| is_group(view, group);
        let shown = visible_rows(&all, all.iter().position(is_selected), rows);
        print_groups(page, shown, view);
    } else {
        let all = shown_processes(frame.sample, view);
        let is_selected = |process: &&LiveProcess| is_process(view, process);
        let shown = visible_rows(&all, all.iter().position(is_selected), rows);
        print_processes(page, shown, view);
    }
}

fn is_process(view: &LiveView, process: &LiveProcess) -> bool {
    matches!(&view.selected, Some(LiveSubject::Process(pid)) if *pid == process.pid)
}

fn is_group(view: &LiveView, group: &LiveGroup) -> bool {
    matches!(&view.selected, Some(LiveSubject::Group(path)) if *path == group.path)
}

fn print_processes(page: &mut Page, shown: &[&LiveProcess], view: &LiveView) {
    let columns = vec![
        Column::left(" "),
        Column::right("pid"),
        Column::name("name"),
        Column::right("resident"),
        Column::right("anon").spare(4),
        Column::right("swap").spare(1),
        Column::right("growth/s").spare(2),
        Column::right("faults/s").spare(3),
        Column::right("CPU").spare(5),
    ];
    let mut table = Table::new(0, columns);
    for process in shown {
        let is_selected = is_process(view, process);
        table.row(vec![
            mark(is_selected),
            Cell::new(Role::Quiet, process.pid.to_string()),
            name(process.name.as_str(), is_selected),
            process.resident.to_string().into(),
            process.anon.to_string().into(),
            size(process.swap),
            known_cell(process.growth_per_second.map(describe_growth)),
            known_cell(process.faults_per_second.map(|rate| format!("{rate:.0}"))),
            known_cell(process.cpu_percent.map(describe_stall)),
        ]);
    }
    print_rows(page, table, view);
}

fn print_groups(page: &mut Page, shown: &[&LiveGroup], view: &LiveView) {
    let columns = vec![
        Column::left(" "),
        Column::path("group"),
        Column::right("usage"),
        Column::right("limit").spare(4),
        Column::right("swap").spare(1),
        Column::right("growth/s").spare(2),
        Column::right("refaults/s").spare(3),
    ];
    let mut table = Table::new(0, columns);
    for group in shown {
        let is_selected = is_group(view, group);
        table.row(vec![
            mark(is_selected),
            name(group.path.as_str(), is_selected),
            group.current.to_string().into(),
            known_cell(group.limit.map(|limit| limit.to_string())),
            size(group.swap),
            known_cell(group.growth_per_second.map(describe_growth)),
            known_cell(group.refaults_per_second.map(|rate| format!("{rate:.0}"))),
        ]);
    }
    print_rows(page, table, view);
}

fn print_rows(page: &mut Page, table: Table, view: &LiveView) {
    if !table.is_empty() {
        return table.print(page);
    }
    let what = if view.groups { "cgroup" } else { "process" };
    let named = match view.filter.as_str() {
        "" => String::new(),
        filter => format!(" with {filter:?} in its name"),
    };
    super::print_fact(page, "", format!("no {what}{named}"));
}

/// The cell that marks the selected row. The column is never empty, so that the other columns do
/// not move when a row is selected.
fn mark(is_selected: bool) -> Cell {
    Cell::new(Role::Strong, if is_selected { ">" } else { " " })
}

fn name(text: &str, is_selected: bool) -> Cell {
    Cell::new(if is_selected { Role::Info } else { Role::Strong }, text)
}

fn size(size: Option<Bytes>) -> Cell {
    known_cell(size.map(|size| size.to_string()))
}

fn known_cell(text: Option<String>) -> Cell {
    text.map_or_else(|| Cell::new(Role::Quiet, NONE), Cell::from)
}
