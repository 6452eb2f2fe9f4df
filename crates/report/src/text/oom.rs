// SPDX-License-Identifier: Apache-2.0 OR MIT
//! OOM kills, each in full: `doctor --oom`.

use jiff::Timestamp;
use pagewise_model::{
    KernelLog, LogText, Name, OomConstraint, OomExplanation, OomKill, OomProof, OomVictim,
    RebuiltRun, Snapshot, UserKiller, WhatIf, WhatIfEffect, WhatIfKind,
};

use super::kit::{Line, Page, Role};
use super::table::{Cell, Column, NONE, Table};
use super::words::{count, describe_lack, plural};
use super::{findings, header};
use crate::{Answer, OomFound, OomText, time};

/// Columns at which the label and the text of a fact begin.
const LABEL: usize = 4;
const FACT: usize = 21;

/// Prints the OOM kills, the newest first. If the log has no reports, prints the findings that are
/// based on counters.
pub(super) fn print(
    page: &mut Page,
    answer: &Answer<'_>,
    found: &OomFound<'_>,
    elsewhere: &[String],
) {
    let snapshot = &answer.interval.end;
    let explained = found.explained;
    header::print(page, "doctor", answer);
    page.gap();
    page.prose(2, Role::Plain, &log(snapshot, explained.len()));
    if explained.is_empty() {
        answer.findings.iter().for_each(|finding| findings::print_full(page, finding));
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
    print_found(page, &snapshot.kernel_log, found, today);
}

/// Prints the time line, and all explanations.
fn print_found(page: &mut Page, log: &KernelLog, found: &OomFound<'_>, today: Option<Timestamp>) {
    print_time_line(page, found, today);
    found.explained.iter().for_each(|kill| print_full(page, kill, today));
    print_programs(page, found.programs, today);
    print_failures(page, log, found.failures);
    print_hung(page, log, found.hung);
}

/// Prints one row for each kill, oldest first, if not all of them are by the kernel.
fn print_time_line(page: &mut Page, found: &OomFound<'_>, today: Option<Timestamp>) {
    let events = found.time_line;
    if events.len() < 2 || found.programs.is_empty() {
        return;
    }
    let from = events.len().saturating_sub(LISTED);
    let note = match from {
        0 => "by the kernel and by programs, oldest first".to_owned(),
        from => {
            format!("the newest, oldest first; {} older ones are not shown", count(from as u64))
        }
    };
    page.heading("Kills in order of time", &note);
    let columns = vec![
        Column::left("time"),
        Column::left("killer"),
        Column::path("killed"),
        Column::right("pid"),
        Column::words("its limit"),
    ];
    let mut table = Table::new(LABEL, columns);
    for event in &events[from..] {
        let when = event.unix_seconds.and_then(time::timestamp).map(|at| format_clock(at, today));
        let when = when.or_else(|| event.stamp.as_ref().map(ToString::to_string));
        table.row(vec![
            when.unwrap_or_else(|| NONE.to_owned()).into(),
            event.by.into(),
            event.victim.as_str().into(),
            event.pid.map_or_else(|| NONE.to_owned(), |pid| pid.to_string()).into(),
            event.rule.as_str().into(),
        ]);
    }
    table.print(page);
}

/// Prints the failed allocations, if there are any.
fn print_failures(page: &mut Page, log: &KernelLog, failures: &[OomExplanation]) {
    if failures.is_empty() {
        return;
    }
    let all = log.failures.len() as u64 + log.failures_left_out;
    let note = format!("{} in the log; no process was killed for these", count(all));
    page.heading("Failed allocations", &note);
    for failure in failures {
        print_explained(page, failure, None, (Role::Warning, "failed"));
    }
}

/// Maximum number of reports of OOM kills listed.
const LISTED: usize = 50;

/// Prints one row for each report of an OOM kill, the newest first, after a text about the logs
/// that were searched.
pub(super) fn print_list(page: &mut Page, snapshot: &Snapshot) {
    let kills = &snapshot.kernel_log.kills;
    let shown = kills.len().min(LISTED);
    page.heading("OOM kills", "reports of the OOM killer, the newest first");
    page.prose(2, Role::Plain, &log(snapshot, shown));
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
    let when = kill.unix_seconds.and_then(time::timestamp).map(|at| format_clock(at, None));
    let victim = kill.victim.as_ref();
    let none = || NONE.to_owned();
    vec![
        when.unwrap_or_else(|| format!("{:.0} s after boot", kill.boot_seconds)).into(),
        victim.map_or("nothing could be killed", |victim| victim.name.as_str()).into(),
        victim.map_or_else(none, |victim| victim.pid.to_string()).into(),
        victim.and_then(OomVictim::resident).map_or_else(none, |size| size.to_string()).into(),
        describe_shortage(kill).into(),
    ]
}

/// Describes what ran out of memory: the machine, NUMA nodes, or the limit of a cgroup.
fn describe_shortage(kill: &OomKill) -> String {
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

/// Prints the kills and failed allocations of a text from any machine, the newest first.
pub(super) fn print_text(page: &mut Page, name: &str, log: &KernelLog, text: &OomText<'_>) {
    let start = Line::default().span(Role::Strong, "pagewise oom");
    page.hang_items(start, 2, &[name.to_owned(), describe_text(text.about)]);
    page.gap();
    page.prose(2, Role::Plain, &describe_found(log, text));
    print_found(page, log, &text.found, None);
}

/// Prints the tasks that did not run, if there are any.
fn print_hung(page: &mut Page, log: &KernelLog, hung: &[OomExplanation]) {
    if hung.is_empty() {
        return;
    }
    let all = log.hung_tasks.len() as u64 + log.hung_tasks_left_out;
    page.heading(
        "Tasks that did not run",
        &format!("{} in the log; none was killed for it", count(all)),
    );
    for task in hung {
        print_explained(page, task, None, (Role::Warning, "waited"));
    }
}

/// Prints the kills by programs, and the units of which systemd reports, oldest first.
fn print_programs(page: &mut Page, programs: &[OomExplanation], today: Option<Timestamp>) {
    if programs.is_empty() {
        return;
    }
    page.heading("Kills by programs", "messages of programs, each with a limit of its own");
    let from = programs.len().saturating_sub(LISTED);
    programs[from..]
        .iter()
        .for_each(|kill| print_explained(page, kill, today, (Role::Critical, "killed")));
}

/// Describes in a few words what kind of text was read: lines, boots, machines, kernels and prefixes.
fn describe_text(text: &LogText) -> String {
    let mut items = vec![plural(text.lines, "line")];
    items.extend((text.boots > 1).then(|| format!("{} boots", count(text.boots))));
    items.extend((text.machines.len() > 1).then(|| format!("{} machines", text.machines.len())));
    items.extend((!text.kernels.is_empty()).then(|| {
        let kernels: Vec<&str> = text.kernels.iter().map(Name::as_str).collect();
        format!("Linux {}", kernels.join(" and "))
    }));
    let forms: Vec<&str> = text.forms.iter().map(Name::as_str).collect();
    items.push(if forms.is_empty() {
        "messages without a prefix".to_owned()
    } else {
        format!("prefixes: {}", forms.join(", "))
    });
    items.extend(text.page_size.map(|size| format!("pages of {size}")));
    items.join(" · ")
}

/// Describes what was found in a text, and what was not understood or not used.
fn describe_found(log: &KernelLog, text: &OomText<'_>) -> String {
    let all = log.kills.len() as u64 + log.left_out;
    let shown = text.found.explained.len() as u64;
    let mut told = vec![match all {
        // Docker reports the kernel's kills
        0 if log.user_kills.iter().any(|kill| kill.by == UserKiller::Docker) => {
            "No report of the kernel about a kill was found; other messages report kills."
                .to_owned()
        }
        0 if !log.user_kills.is_empty() => {
            "No kill by the kernel was found; programs killed for lack of memory.".to_owned()
        }
        0 if !log.hung_tasks.is_empty() => {
            "No kill was found; the kernel says of tasks that they did not run.".to_owned()
        }
        0 => format!("No kill was found in {}.", plural(text.about.lines, "line")),
        all if all > shown => {
            format!("{}, the last {shown} of which are shown.", format_report_count(all))
        }
        all => format!("{}.", format_report_count(all)),
    }];
    told.extend(describe_not_understood(log));
    told.extend(describe_signs(text.about).filter(|_| all == 0));
    if text.about.by_programs > 0 {
        told.push(format!(
            "{} about kills were written by programs and not by the kernel, and are not used.",
            plural(text.about.by_programs, "message")
        ));
    }
    if all > 0 && !text.about.names_kernel {
        told.push("Nothing in the text says that the kernel wrote it.".to_owned());
    }
    if text.about.is_reversed {
        told.push(
            "The newest line is the first (journalctl -r): only the lines about the kills were used, without the \
             sizes. Turn the text round: tac FILE | pagewise oom -."
                .to_owned(),
        );
    }
    if text.about.is_cut {
        told.push("The end of the text was not read: it is too long. A packed text is read up to 200 times its size; unpack \
             it first to read the rest.".to_owned());
    }
    if text.about.files_unread > 0 {
        told.push(format!(
            "{} of journald could not be read: damaged, too new, or too many.",
            plural(text.about.files_unread, "file")
        ));
    }
    if text.about.messages_unread > 0 {
        told.push(format!(
            "At least {} of the kernel could not be read: a file is damaged, or its end is missing.",
            plural(text.about.messages_unread, "message")
        ));
    }
    if all > 0 && text.about.page_size.is_none() {
        told.push("No report shows the size of a page; 4 KiB is assumed.".to_owned());
    }
    told.join(" ")
}

/// Says that something was killed of which the text has no report.
fn describe_signs(about: &LogText) -> Option<String> {
    (about.signs > 0).then(|| {
        let first = about.first_sign.as_ref();
        let first = first.map_or_else(String::new, |first| format!(" (the first: {first})"));
        let say = if about.signs == 1 { "says" } else { "say" };
        format!(
            "{}{first} {say} that something was killed for lack of memory; the kernel's report of it is not in the text.",
            plural(about.signs, "message")
        )
    })
}

/// Says how many records about kills were not understood, and where the first is.
fn describe_not_understood(log: &KernelLog) -> Option<String> {
    (log.not_understood > 0).then(|| {
        let first = log.first_not_understood.as_ref();
        let first = first.map_or_else(String::new, |first| format!(" (the first: {first})"));
        format!(
            "{} about kills {} not understood{first}: the form is not known, or a part is missing.",
            plural(log.not_understood, "message"),
            if log.not_understood == 1 { "was" } else { "were" }
        )
    })
}

/// Says what the kernel's own counter says, if it counts kills of which no report was found.
fn describe_kernel_counter(snapshot: &Snapshot) -> Option<String> {
    let kills = snapshot.vmstat.get("oom_kill").get().filter(|kills| *kills > 0)?;
    Some(format!(
        "The kernel counts {} since boot (oom_kill in /proc/vmstat), of which no report was found.",
        plural(kills, "kill")
    ))
}

/// Describes the logs that were searched, and how far back they go.
fn log(snapshot: &Snapshot, shown: usize) -> String {
    let log = &snapshot.kernel_log;
    let searched = [records(log), journal(log)];
    let searched: Vec<&str> = searched.iter().flatten().map(String::as_str).collect();
    let all = log.kills.len() as u64 + log.left_out;
    let counted = describe_kernel_counter(snapshot).filter(|_| all == 0);
    let is_sure = log.not_understood == 0 && counted.is_none() && !log.wrapped;
    let is_by_programs = !log.user_kills.is_empty() || !log.unit_kills.is_empty();
    let knows_programs = log.program_messages.get().is_some();
    let found = match all {
        0 if is_by_programs => {
            "No report of the kernel about a kill was found; other messages report kills".to_owned()
        }
        0 if is_sure && knows_programs => "No process was killed for lack of memory".to_owned(),
        0 if is_sure => "The kernel killed no process for lack of memory".to_owned(),
        0 => "No kill was found".to_owned(),
        all if all > shown as u64 => {
            format!("{}, the last {shown} of which are shown", format_report_count(all))
        }
        all => format_report_count(all),
    };
    let found = format!("{found}: {}.", searched.join("; "));
    let told = Some(found).filter(|_| all > 0 || !searched.is_empty());
    let more = counted.into_iter().chain(describe_not_understood(log));
    told.into_iter().chain(more).chain(describe_not_read(log)).collect::<Vec<_>>().join(" ")
}

/// The kernel log itself; other sources are logs that somebody collected.
const KMSG: &str = "/dev/kmsg";

fn records(log: &KernelLog) -> Option<String> {
    let records = log.records.get()?;
    let source = &log.records.source;
    if source.path() != KMSG {
        return Some(format!("{} of {source}", plural(records, "line")));
    }
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
fn describe_not_read(log: &KernelLog) -> Vec<String> {
    let mut told = Vec::new();
    if log.records.get().is_none() {
        let why = describe_lack(&log.records).unwrap_or_else(|| "not read".to_owned());
        let or = if log.records.is_denied() {
            ", or kernel.dmesg_restrict=0 to let every user read it"
        } else {
            ""
        };
        told.push(format!("The kernel log could not be read: {why}{or}."));
    }
    if log.journal_files.is_denied() {
        let help = describe_lack(&log.journal_files).unwrap_or_default();
        told.push(format!("Files of journald could not be read: {help}."));
    }
    if log.program_messages.get().is_none() {
        let why = describe_lack(&log.program_messages).unwrap_or_else(|| "not read".to_owned());
        told.push(format!(
            "Kills by programs (systemd-oomd, earlyoom and others): not known: {why}."
        ));
    }
    if log.program_messages_left_out > 0 {
        told.push(format!(
            "{} of such programs were not read: older ones, or in damaged files.",
            plural(log.program_messages_left_out, "message")
        ));
    }
    told
}

fn format_report_count(number: u64) -> String {
    format!("{} of the OOM killer", plural(number, "report"))
}

fn print_full(page: &mut Page, kill: &OomExplanation, today: Option<Timestamp>) {
    print_explained(page, kill, today, (Role::Critical, "killed"));
}

/// Prints an explanation; `word` is printed in place of the time if that is not known.
fn print_explained(
    page: &mut Page,
    kill: &OomExplanation,
    today: Option<Timestamp>,
    (role, word): (Role, &str),
) {
    page.gap();
    let when = kill.unix_seconds.and_then(time::timestamp).map(|at| format_clock(at, today));
    let when = when.or_else(|| kill.stamp.as_ref().map(ToString::to_string));
    let start = Line::indent(2).span(role, when.unwrap_or_else(|| word.to_owned()));
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
    for (at, what_if) in kill.what_if.iter().enumerate() {
        let start = if at == 0 { label("what if") } else { Line::indent(FACT) };
        page.hang(start, FACT + 2, Role::Plain, &describe_what_if(what_if));
    }
}

/// Describes another condition and its effect: `a limit of 96.0 MiB for /a: would have delayed it
/// by about 3 minutes: …`.
fn describe_what_if(what_if: &WhatIf) -> String {
    let effect = match what_if.effect {
        WhatIfEffect::Avoided => "would have avoided it",
        WhatIfEffect::Delayed => "would have delayed it",
        WhatIfEffect::None => "would not have avoided it",
        WhatIfEffect::NotKnown => "not known",
    };
    let join = match what_if.effect {
        WhatIfEffect::Avoided if what_if.because.starts_with("if ") => ", ",
        WhatIfEffect::Delayed => " ",
        _ => ": ",
    };
    format!("{}: {effect}{join}{}", what_if.change, what_if.because)
}

/// Prints the runs of a kill that was done again in a guest.
pub(super) fn print_proof(page: &mut Page, proof: &OomProof) {
    let capacity = proof.runs.first().map(|run| run.capacity).unwrap_or_default();
    let of = proof.rebuild.capacity;
    let note = format!("Linux {}; {capacity} there stand for {of} of the log", proof.kernel);
    page.heading("The newest kill, done again in a guest", &note);
    for (run, agrees) in proof.runs.iter().zip(&proof.agrees) {
        let change = run.change.and_then(|index| proof.rebuild.changes.get(index as usize));
        let name = change.map_or("as it was", |change| change.change.as_str());
        let verdict = match agrees {
            Some(true) => ", as was said",
            Some(false) => ", which differs from what was said",
            None => "",
        };
        let text = format!("{name}: {}{verdict}", describe_run(proof, run));
        page.hang(Line::indent(LABEL), LABEL + 2, Role::Plain, &text);
    }
    if proof.runs.first().is_some_and(|run| !run.is_killed && run.trouble.is_none()) {
        page.prose(
            LABEL,
            Role::Warning,
            "The kill did not happen again as it was, so that nothing is proven: what the log shows is not all that \
             took memory.",
        );
    }
    page.prose(
        LABEL,
        Role::Quiet,
        "Room is proven here, and not time: the memory of the guest is written once and then rests, and its swap takes \
         exactly its size.",
    );
}

fn describe_run(proof: &OomProof, run: &RebuiltRun) -> String {
    if let Some(trouble) = &run.trouble {
        return format!("not done: {trouble}");
    }
    let held = run.scale_back(&proof.rebuild, run.held);
    if run.is_killed {
        return format!("killed when what grew held {held}");
    }
    let without = |index: u32| {
        let change = proof.rebuild.changes.get(index as usize);
        change.is_some_and(|change| change.kind == WhatIfKind::WithoutProcess)
    };
    if run.change.is_some_and(without) {
        return "nothing was killed".to_owned();
    }
    format!("nothing was killed; what grew held all that it takes, {held}")
}

fn label(label: &str) -> Line {
    Line::indent(LABEL).span(Role::Quiet, label).pad_to(FACT)
}

/// Formats a time; without the date if it is on the day of the reading.
fn format_clock(at: Timestamp, today: Option<Timestamp>) -> String {
    let day = |time: Timestamp| time.strftime("%Y-%m-%d").to_string();
    if today.is_some_and(|today| day(today) == day(at)) {
        at.strftime("%H:%M:%S UTC").to_string()
    } else {
        at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
    }
}

/// The number of kills in the kernel log; `None` if there are none.
pub(super) fn number(snapshot: &Snapshot) -> Option<String> {
    let log = &snapshot.kernel_log;
    let all = log.kills.len() as u64 + log.left_out;
    (all > 0).then(|| format!("{} in the log", plural(all, "OOM kill")))
}

/// Describes the number of kills in the logs, and the time of the last one; `None` if there are none.
pub(super) fn glance(snapshot: &Snapshot) -> Option<String> {
    let log = &snapshot.kernel_log;
    let last = log.kills.last()?;
    let when = last
        .unix_seconds
        .and_then(time::timestamp)
        .map(|at| format_clock(at, time::time_of(snapshot)));
    let when = when.map_or_else(String::new, |when| format!(", the last at {when}"));
    let all = count(log.kills.len() as u64 + log.left_out);
    let searched = log.journal_files.get().is_some_and(|files| files > 0);
    let logs = if searched { "the kernel log and the journal" } else { "the kernel log" };
    Some(format!("{all} in {logs}{when} (pagewise doctor --oom)"))
}
