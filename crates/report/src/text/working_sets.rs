// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The limit that each cgroup needs: a table of all, or one cgroup with the reasons.

use pagewise_model::{
    Bytes, Confidence, IdleMemory, IdleMethod, Limit, LimitAdvice, LimitSurvey, LimitVerdict,
    Outcome, ProcessUse, Quantity, Reading, WatchCost, WorkingSet,
};

use super::kit::{Line, Page, Role};
use super::movement::format_per_second;
use super::table::{Cell, Column, NONE, Table};
use super::words::{cell, cell_with, count, describe_stall, plural, seconds};

/// Maximum number of rows of cgroups and of processes; JSON has all.
const SHOWN: usize = 20;
const INDENT: usize = 4;

pub(super) fn print_list(page: &mut Page, survey: &LimitSurvey) {
    if survey.groups.is_empty() {
        return page.prose(0, Role::Plain, "no memory cgroup holds memory, or none may be read");
    }
    let columns = vec![
        Column::path("group"),
        Column::right("used"),
        Column::right("peak").spare(3),
        Column::right("limit"),
        Column::right("refaults/s").spare(4),
        Column::right("waited (60 s)").spare(5),
        Column::right("idle").spare(2),
        Column::right("could be"),
        Column::left("confidence").spare(1),
    ];
    let mut table = Table::new(0, columns);
    survey.groups.iter().take(SHOWN).for_each(|group| table.row(row(group)));
    table.print(page);
    let more = survey.groups.len().saturating_sub(SHOWN) as u64 + survey.left_out;
    if more > 0 {
        let text = format!(
            "and {} with less memory; --json has all that were read",
            plural(more, "group")
        );
        page.prose(0, Role::Quiet, &text);
    }
    page.gap();
    page.prose(0, Role::Plain, LEGEND);
    print_unknown(page, &survey.unknown);
    page.gap();
    page.command(
        Line::indent(0),
        0,
        "pagewise limits --cgroup PATH  # one cgroup, with reasons and commands",
    );
}

const LEGEND: &str = "Usage includes the groups below. \"could be\" is a limit under which the group would keep what \
                      it uses, plus a margin; with \"at least\" the limit is too low. It is only as good as the \
                      confidence says.";

fn print_unknown(page: &mut Page, unknown: &[String]) {
    for why in unknown {
        page.hang(Line::default().span(Role::Quiet, "not known  "), 11, Role::Quiet, why);
    }
}

fn row(group: &WorkingSet) -> Vec<Cell> {
    let advice = &group.advice;
    vec![
        group.group.as_str().into(),
        cell(&group.current),
        cell(&group.peak),
        cell_with(&group.limit, limit),
        group.refaults_per_second.map_or_else(empty_cell, |rate| refaults(rate).into()),
        cell_with(&group.waited, |waited| describe_stall(waited.get())),
        group.idle.as_ref().map_or_else(empty_cell, |idle| idle_size(idle).into()),
        advice_cell(advice),
        advice.confidence.map_or_else(empty_cell, |confidence| confidence.word().into()),
    ]
}

fn empty_cell() -> Cell {
    Cell::new(Role::Quiet, NONE)
}

fn limit(limit: &Limit) -> String {
    limit.bytes().map_or("none".to_owned(), |bytes| bytes.to_string())
}

fn refaults(rate: f64) -> String {
    if rate > 0.0 { format_per_second(rate) } else { "0".to_owned() }
}

fn idle_size(idle: &IdleMemory) -> String {
    idle.anon.unwrap_or_default().saturating_add(idle.file).to_string()
}

fn advice_cell(advice: &LimitAdvice) -> Cell {
    match (advice.verdict, advice.size) {
        (LimitVerdict::TooLow, Some(size)) => Cell::new(Role::Warning, format!("at least {size}")),
        (LimitVerdict::CouldBe, Some(size)) => Cell::new(Role::Good, size.to_string()),
        (LimitVerdict::Fits, _) => "fits".into(),
        _ => Cell::new(Role::Quiet, "not known"),
    }
}

/// Prints the working set of the selected cgroup in full.
pub(super) fn print(page: &mut Page, survey: &LimitSurvey) {
    let Some(group) = survey.groups.first() else {
        return page.prose(0, Role::Plain, "this memory cgroup is gone");
    };
    page.line(&Line::default().span(Role::Strong, group.group.as_str()));
    let (role, text) = headline(group);
    page.prose(2, role, &text);
    for reason in &group.advice.reasons {
        page.hang(Line::indent(2).span(Role::Quiet, "· "), 4, Role::Plain, reason);
    }
    print_readings(page, group);
    print_processes(page, &survey.processes, survey.watched.is_some());
    if let Some(cost) = &survey.watched {
        print_cost(page, cost);
    }
    page.gap();
    print_unknown(page, &survey.unknown);
    print_commands(page, &group.advice.commands);
}

fn headline(group: &WorkingSet) -> (Role, String) {
    let sure = |confidence: Option<Confidence>| {
        confidence.map_or_else(String::new, |it| format!(" (confidence: {})", it.word()))
    };
    let advice = &group.advice;
    let sure = sure(advice.confidence);
    let has_limit = group.limit.get().is_some_and(|limit| limit != Limit::Max);
    match (advice.verdict, advice.size) {
        (LimitVerdict::TooLow, Some(size)) => {
            (Role::Warning, format!("the limit is too low: it should be at least {size}{sure}"))
        }
        (LimitVerdict::CouldBe, Some(size)) if has_limit => {
            (Role::Good, format!("the limit could be {size}{sure}"))
        }
        (LimitVerdict::CouldBe, Some(size)) => {
            (Role::Good, format!("it has no limit of its own; one could be {size}{sure}"))
        }
        (LimitVerdict::Fits, _) => (Role::Good, format!("the limit fits{sure}")),
        _ => (Role::Quiet, "which limit it needs is not known".to_owned()),
    }
}

/// Prints every value of the working set with its file, or why there is none.
fn print_readings(page: &mut Page, group: &WorkingSet) {
    page.gap();
    let columns = vec![Column::left(""), Column::right(""), Column::path("")];
    let mut table = Table::new(2, columns);
    value(&mut table, "used", &group.current);
    value(&mut table, "peak", &group.peak);
    add_value(&mut table, "limit", &group.limit, limit);
    let headroom = group.headroom.map(|it| it.to_string());
    add_computed(&mut table, "left under the limit", headroom, "");
    value(&mut table, "in swap", &group.swap);
    let rate = group.refaults_per_second.map(refaults);
    add_computed(&mut table, "refaults/s", rate, "of files and from swap, over the interval");
    add_value(&mut table, "waited (60 s)", &group.waited, |waited| describe_stall(waited.get()));
    value(&mut table, "times at the limit", &group.max_events);
    value(&mut table, "OOM kills", &group.oom_kills);
    value(&mut table, "unevictable", &group.unevictable);
    if let Some(idle) = &group.idle {
        // `None` if idle memory was estimated from the inactive file list, which contains no anonymous pages
        if let Some(anon) = idle.anon {
            add_computed(&mut table, "idle anonymous", Some(anon.to_string()), &method(idle));
        }
        add_computed(&mut table, "idle file cache", Some(idle.file.to_string()), &method(idle));
    }
    let hot = group.hot.map(|hot| hot.to_string());
    add_computed(
        &mut table,
        "in use",
        hot,
        "without what is idle and can be dropped or swapped out",
    );
    table.print(page);
}

fn value<T: Quantity>(table: &mut Table, name: &str, reading: &Reading<T>) {
    add_value(table, name, reading, Quantity::shown);
}

fn add_value<T>(table: &mut Table, name: &str, reading: &Reading<T>, spell: fn(&T) -> String) {
    let (shown, beside) = match &reading.outcome {
        Outcome::Value(value) => (spell(value), reading.source.to_string()),
        Outcome::Absent(why) => (NONE.to_owned(), why.to_string()),
        Outcome::Denied(help) => (NONE.to_owned(), help.to_string()),
    };
    table.row(vec![name.into(), shown.into(), Cell::new(Role::Quiet, beside)]);
}

fn add_computed(table: &mut Table, name: &str, value: Option<String>, beside: &str) {
    if let Some(value) = value {
        table.row(vec![name.into(), value.into(), Cell::new(Role::Quiet, beside)]);
    }
}

fn method(idle: &IdleMemory) -> String {
    let method = match idle.method {
        IdleMethod::AccessedBits => "by accessed bits",
        IdleMethod::Generations => "by generations",
        IdleMethod::InactiveList => "by the inactive list of files",
    };
    let time = idle.seconds.map(seconds);
    let time =
        time.map_or("how long is not known".to_owned(), |time| format!("not used for {time}"));
    format!("{method}: {time}")
}

fn print_processes(page: &mut Page, processes: &[ProcessUse], is_watched: bool) {
    if processes.is_empty() {
        return;
    }
    page.heading("Processes", "resident sizes count shared pages in full");
    let columns = vec![
        Column::right("PID"),
        Column::name("name"),
        Column::right("resident"),
        Column::right("swap"),
        Column::right("locked").spare(1),
        Column::right(if is_watched { "idle" } else { "" }),
    ];
    let mut table = Table::new(INDENT, columns);
    let size = |size: Option<Bytes>| size.map_or_else(empty_cell, |size| size.to_string().into());
    for process in processes.iter().take(SHOWN) {
        table.row(vec![
            process.pid.to_string().into(),
            process.name.as_str().into(),
            size(process.resident),
            cell(&process.swap),
            cell(&process.locked),
            size(process.idle),
        ]);
    }
    table.print(page);
    if processes.len() > SHOWN {
        let more = plural((processes.len() - SHOWN) as u64, "process");
        page.prose(INDENT, Role::Quiet, &format!("and {more} with less memory; --json has all"));
    }
}

fn print_cost(page: &mut Page, cost: &WatchCost) {
    let not_read = match cost.not_read {
        0 => String::new(),
        more => format!(", {} could not be read", count(more)),
    };
    let text = format!(
        "Accessed bits of {} ({}{not_read}) were cleared and read after {}; the calls took {}. For a while, reclaim \
         knows less about which of this memory is in use.",
        plural(cost.processes, "process"),
        cost.looked_at,
        seconds(cost.seconds),
        seconds(cost.own_seconds)
    );
    page.gap();
    page.prose(2, Role::Quiet, &text);
}

/// Prints commands that the user may run; none of them was run.
fn print_commands(page: &mut Page, commands: &[String]) {
    page.gap();
    for (index, command) in commands.iter().enumerate() {
        let label = if index == 0 { "next" } else { "" };
        page.command(Line::indent(2).span(Role::Quiet, label), 10, command);
    }
}
