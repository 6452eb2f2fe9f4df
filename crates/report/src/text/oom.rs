// SPDX-License-Identifier: Apache-2.0 OR MIT
//! OOM kills, each in full: `doctor --oom`.

use jiff::Timestamp;
use pagewise_model::{
    KernelLog, Name, OomConstraint, OomExplanation, OomKill, OomVictim, Snapshot,
};

use super::kit::{Line, Page, Role};
use super::table::{Cell, Column, NONE, Table};
use super::words::{count, lack, plural};
use super::{findings, header};
use crate::{Answer, time};

/// Columns at which the label and the text of a fact begin.
const LABEL: usize = 4;
const FACT: usize = 21;

/// Prints the OOM kills, the newest first. If the log has no reports, prints the findings that are
/// based on counters.
pub(super) fn print(
    page: &mut Page,
    answer: &Answer<'_>,
    explained: &[OomExplanation],
    elsewhere: &[String],
) {
    let snapshot = &answer.interval.end;
    header::print(page, "doctor", answer);
    page.gap();
    page.prose(2, Role::Plain, &log(&snapshot.kernel_log, explained.len()));
    if explained.is_empty() {
        answer.findings.iter().for_each(|finding| findings::full(page, finding));
    }
    // the findings already contain these commands
    if !explained.is_empty() || answer.findings.is_empty() {
        let mut start = Line::indent(2).span(Role::Quiet, "next").pad_to(LABEL + 4);
        for command in elsewhere {
            page.command(start, LABEL + 4, command);
            start = Line::indent(LABEL + 4);
        }
    }
    let today = time::time_of(snapshot);
    explained.iter().for_each(|kill| full(page, kill, today));
}

/// Maximum number of reports of OOM kills listed.
const LISTED: usize = 50;

/// Prints one row for each report of an OOM kill, the newest first, after a text about the logs
/// that were searched.
pub(super) fn list(page: &mut Page, snapshot: &Snapshot) {
    let kills = &snapshot.kernel_log.kills;
    let shown = kills.len().min(LISTED);
    page.heading("OOM kills", "reports of the OOM killer, the newest first");
    page.prose(2, Role::Plain, &log(&snapshot.kernel_log, shown));
    if kills.is_empty() {
        return;
    }
    let columns = vec![
        Column::left("time"),
        Column::name("killed"),
        Column::right("pid"),
        Column::right("in RAM"),
        Column::words("ran out"),
    ];
    let mut table = Table::new(LABEL, columns);
    kills.iter().rev().take(shown).for_each(|kill| table.row(row(kill)));
    table.print(page);
}

fn row(kill: &OomKill) -> Vec<Cell> {
    let when = kill.unix_seconds.and_then(time::timestamp).map(|at| clock(at, None));
    let victim = kill.victim.as_ref();
    let none = || NONE.to_owned();
    vec![
        when.unwrap_or_else(|| format!("{:.0} s after boot", kill.boot_seconds)).into(),
        victim.map_or("nothing could be killed", |victim| victim.name.as_str()).into(),
        victim.map_or_else(none, |victim| victim.pid.to_string()).into(),
        victim.and_then(OomVictim::resident).map_or_else(none, |size| size.to_string()).into(),
        ran_out(kill).into(),
    ]
}

/// What ran out of memory: the machine, NUMA nodes, or the limit of a cgroup.
fn ran_out(kill: &OomKill) -> String {
    let group = kill.group.as_ref().map(Name::as_str);
    match (kill.constraint, group) {
        (Some(OomConstraint::Host), _) => "the machine".to_owned(),
        (Some(OomConstraint::Cpuset), _) => "the NUMA nodes of a cpuset".to_owned(),
        (Some(OomConstraint::Policy), _) => "the NUMA nodes of a policy".to_owned(),
        (Some(OomConstraint::Cgroup), Some(group)) => format!("the limit of {group}"),
        (Some(OomConstraint::Cgroup), None) => "the limit of a cgroup".to_owned(),
        (None, _) => NONE.to_owned(),
    }
}

/// Describes the logs that were searched, and how far back they go.
fn log(log: &KernelLog, shown: usize) -> String {
    let searched = [records(log), journal(log)];
    let searched: Vec<&str> = searched.iter().flatten().map(String::as_str).collect();
    let all = log.kills.len() as u64 + log.left_out;
    let found = match all {
        0 => "No process was killed for lack of memory".to_owned(),
        all if all > shown as u64 => {
            format!("{}, the last {shown} of which are shown", reports(all))
        }
        all => reports(all),
    };
    let found = format!("{found}: {}.", searched.join("; "));
    let told = Some(found).filter(|_| all > 0 || !searched.is_empty());
    told.into_iter().chain(not_read(log)).collect::<Vec<_>>().join(" ")
}

fn records(log: &KernelLog) -> Option<String> {
    let records = log.records.get()?;
    let begins = log.oldest_boot_seconds.filter(|_| log.wrapped);
    let begins = begins.map_or_else(String::new, |seconds| {
        format!(" (older ones than {seconds:.0} s after boot were overwritten)")
    });
    Some(format!("{} records of the kernel log{begins}", count(records)))
}

/// Describes the journal files that were searched: `3 files of journald since 2026-11-20`.
fn journal(log: &KernelLog) -> Option<String> {
    let files = log.journal_files.get()?;
    let since = log.journal_unix_seconds.and_then(time::timestamp);
    let since = since.map_or_else(String::new, |at| at.strftime(" since %Y-%m-%d").to_string());
    let left_out = match log.journal_files_left_out {
        0 => String::new(),
        left_out => format!(" ({} more could not be searched in full)", count(left_out)),
    };
    let files = if files == 1 { "1 file".to_owned() } else { format!("{} files", count(files)) };
    Some(format!("{files} of journald{since}{left_out}"))
}

/// Describes the logs that could not be read, and what would help.
fn not_read(log: &KernelLog) -> Vec<String> {
    let mut told = Vec::new();
    if log.records.get().is_none() {
        let why = lack(&log.records).unwrap_or_else(|| "not read".to_owned());
        let or = if log.records.is_denied() {
            ", or kernel.dmesg_restrict=0 to let every user read it"
        } else {
            ""
        };
        told.push(format!("The kernel log could not be read: {why}{or}."));
    }
    if log.journal_files.is_denied() {
        let help = lack(&log.journal_files).unwrap_or_default();
        told.push(format!("Files of journald could not be read: {help}."));
    }
    told
}

fn reports(number: u64) -> String {
    format!("{} of the OOM killer", plural(number, "report"))
}

fn full(page: &mut Page, kill: &OomExplanation, today: Option<Timestamp>) {
    page.gap();
    let when = kill.unix_seconds.and_then(time::timestamp).map(|at| clock(at, today));
    let start = Line::indent(2).span(Role::Critical, when.unwrap_or_else(|| "killed".to_owned()));
    page.hang(start.plain("  "), LABEL, Role::Strong, &kill.title);
    for fact in &kill.facts {
        page.hang(label(fact.label), FACT, Role::Plain, &fact.text);
    }
    page.hang(label("proof"), FACT, Role::Plain, &kill.source.to_string());
    let mut start = label("change");
    for command in &kill.change {
        page.command(start, FACT, command);
        start = Line::indent(FACT);
    }
}

fn label(label: &str) -> Line {
    Line::indent(LABEL).span(Role::Quiet, label).pad_to(FACT)
}

/// Formats a time; without the date if it is on the day of the reading.
fn clock(at: Timestamp, today: Option<Timestamp>) -> String {
    let day = |time: Timestamp| time.strftime("%Y-%m-%d").to_string();
    if today.is_some_and(|today| day(today) == day(at)) {
        at.strftime("%H:%M:%S UTC").to_string()
    } else {
        at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
    }
}

/// Describes the number of kills in the log, and the time of the last; `None` if there are none.
pub(super) fn glance(snapshot: &Snapshot) -> Option<String> {
    let log = &snapshot.kernel_log;
    let last = log.kills.last()?;
    let when =
        last.unix_seconds.and_then(time::timestamp).map(|at| clock(at, time::time_of(snapshot)));
    let when = when.map_or_else(String::new, |when| format!(", the last at {when}"));
    let all = count(log.kills.len() as u64 + log.left_out);
    let searched = log.journal_files.get().is_some_and(|files| files > 0);
    let logs = if searched { "the kernel log and the journal" } else { "the kernel log" };
    Some(format!("{all} in {logs}{when} (pagewise doctor --oom)"))
}
