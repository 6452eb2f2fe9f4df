// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The first screen of the report: the verdict, who causes it, and what to do now, in [`ROWS`] rows of
//! a terminal.
//!
//! The machine, the verdict, the first finding with its command, and the actor are always shown. Whatever else fits
//! is added, the most useful first. A command is never shortened; if a row has no space, the text before the
//! command is shortened.

use std::borrow::Cow;

use pagewise_model::{Actor, Bytes, Level, Process, Severity, Snapshot};

use super::kit::{Line, Page, Role};
use super::verdict::{findings_line, label, role, unreadable};
use super::words::{describe_stall, part_of};
use super::{findings, header, memory, oom, pressure, processes};
use crate::Answer;

/// Rows of the screen: one less than the smallest usual terminal has, for the prompt or the last line
/// of the pager.
const ROWS: usize = 23;
/// Maximum number of rows of the verdict; beyond that, its last sentences are left out.
const VERDICT_ROWS: usize = 7;
/// Number of rows that the verdict gets even if they do not fit.
const LEAST_VERDICT_ROWS: usize = 2;
/// Column at which facts start.
const FACTS: usize = 8;
/// Maximum number of findings that are shown.
const FINDINGS: usize = 3;
/// Maximum number of processes that are named, the actor included.
const LARGEST: usize = 3;
/// Minimum share of RAM that a process must hold to be named beside another, in percent.
const NAMED_PERCENT: f64 = 2.0;

/// Prints the first screen; `rest_follows` if the sections of the report are printed after it.
pub(super) fn print(page: &mut Page, answer: &Answer<'_>, rest_follows: bool) {
    let snapshot = &answer.interval.end;
    let part = |print: &dyn Fn(&mut Page)| {
        let mut part = page.part();
        print(&mut part);
        part
    };
    let header = part(&|page| header::print(page, "report", answer));
    let who = part(&|page| print_who(page, answer));
    let state = part(&|page| print_state(page, snapshot));
    let bar = part(&|page| print_bar(page, snapshot));
    let numbered = (1..).zip(answer.findings.iter().take(FINDINGS));
    let shown: Vec<Page> = numbered
        .map(|(number, finding)| part(&|page| findings::print_now(page, number, finding)))
        .collect();
    // the number of rows does not depend on what follows, so the screen alone is the beginning of the report
    let last = part(&|page| print_more(page, answer, false)).rows();
    let first = shown.first().map_or(0, |first| first.rows() + 1);
    let fixed = header.rows() + 1 + first + 1 + who.rows() + 1 + last;
    let verdict = part(&|page| print_verdict(page, answer, ROWS.saturating_sub(fixed)));

    let mut left = ROWS.saturating_sub(fixed + verdict.rows());
    let mut fits = |rows: usize| {
        let fits = rows <= left;
        left -= if fits { rows } else { 0 };
        fits
    };
    let has_state = fits(state.rows());
    let further = shown.iter().skip(1).take_while(|finding| fits(finding.rows() + 1)).count();
    let has_bar = fits(bar.rows());

    page.append(&header);
    page.gap();
    page.append(&verdict);
    for finding in shown.iter().take(1 + further) {
        page.gap();
        page.append(finding);
    }
    page.gap();
    let facts = [(&bar, has_bar), (&state, has_state), (&who, true)];
    facts.into_iter().filter(|(_, fits)| *fits).for_each(|(fact, _)| page.append(fact));
    page.gap();
    print_more(page, answer, rest_follows);
}

/// Prints the verdict and the number of findings. If they need more than `most` rows, the end is left out: `doctor`
/// and the sections of the report have it.
fn print_verdict(page: &mut Page, answer: &Answer<'_>, most: usize) {
    let snapshot = &answer.interval.end;
    if let Some(why) = unreadable(snapshot) {
        return page.prose(2, Role::Strong, &why);
    }
    let verdict = answer.verdict;
    let number = findings_line(answer.findings, &snapshot.psi);
    let rows = |print: &dyn Fn(&mut Page)| {
        let mut part = page.part();
        print(&mut part);
        part.rows()
    };
    let number_rows = rows(&|page| page.prose(2, Role::Plain, &number));
    let most = most.saturating_sub(number_rows).clamp(LEAST_VERDICT_ROWS, VERDICT_ROWS);
    let mut text = Cow::Borrowed(verdict.line.as_str());
    while rows(&|page| print_level(page, verdict.level, &text)) > most {
        let Some(shorter) = without_end(&text) else { break };
        text = Cow::Owned(shorter);
    }
    print_level(page, verdict.level, &text);
    page.prose(2, Role::Plain, &number);
}

/// The text without its last sentence; a single sentence without its last word. `None` if nothing would
/// be left.
fn without_end(text: &str) -> Option<String> {
    if let Some(end) = text.trim_end_matches('.').rfind(". ") {
        return Some(text[..=end].to_owned());
    }
    let end = text.trim_end_matches([' ', '…']).rfind(' ')?;
    Some(format!("{} …", &text[..end]))
}

fn print_level(page: &mut Page, level: Level, text: &str) {
    let label = label(level);
    let start = Line::indent(2).span(role(level), label);
    let start = if label.is_empty() { start } else { start.plain("  ") };
    let indent = start.width();
    page.hang(start, indent, Role::Strong, text);
}

fn fact(label: &str) -> Line {
    Line::indent(2).span(Role::Strong, label).pad_to(FACTS)
}

fn print_bar(page: &mut Page, snapshot: &Snapshot) {
    let Some(total) = snapshot.memory.total.get() else { return };
    let parts = memory::parts(snapshot, total);
    memory::print_bar(page, fact("RAM"), &parts, total);
    let legend: Vec<String> = parts.iter().map(super::MemoryPart::glance).collect();
    page.item_row(Line::indent(FACTS), FACTS, &legend);
}

/// Prints how much memory is left, for how much of the time programs wait, and how often processes were killed.
fn print_state(page: &mut Page, snapshot: &Snapshot) {
    let memory = &snapshot.memory;
    let mut items = Vec::new();
    let available = memory.available.get().zip(memory.total.get());
    items.extend(available.map(|(left, all)| format!("{} available", part_of(left, all))));
    let swap = memory.swap_total.get().zip(memory.swap_free.get());
    items.extend(swap.map(|(all, free)| match all.get() {
        0 => "no swap".to_owned(),
        _ => format!("swap {} used", part_of(all.saturating_sub(free), all)),
    }));
    items.extend(describe_stalls(snapshot));
    items.extend(oom::number(snapshot));
    if !items.is_empty() {
        page.item_row(fact("now"), FACTS, &items);
    }
}

fn describe_stalls(snapshot: &Snapshot) -> Option<String> {
    if let Some(why) = pressure::unknown(&snapshot.psi) {
        return Some(format!("pressure: {why}"));
    }
    let psi = &snapshot.psi;
    let all = [("memory", &psi.memory), ("io", &psi.io), ("cpu", &psi.cpu)];
    let shares = all.iter().filter_map(|(name, pressure)| {
        Some(format!("{name} {}", describe_stall(pressure.some.avg10.get()?.get())))
    });
    let shares: Vec<String> = shares.collect();
    (!shares.is_empty()).then(|| format!("waiting (10 s): {}", shares.join(", ")))
}

/// The four numbers that decide what to do: memory that is left, swap, waiting, and who is first. Each
/// is a value and its meaning; one that is not known says so.
pub(super) fn tiles(answer: &Answer<'_>) -> [(String, String); 4] {
    let snapshot = &answer.interval.end;
    let memory = &snapshot.memory;
    let available = memory.available.get().zip(memory.total.get());
    let swap = memory.swap_total.get().zip(memory.swap_free.get());
    let stall = &snapshot.psi.memory.some;
    let waits = stall.avg10.get().map(|share| {
        let minute = stall.avg60.get().map(|share| describe_stall(share.get()));
        let minute =
            minute.map_or_else(String::new, |share| format!("; {share} of the last minute"));
        let meaning = format!("of the last 10 s some program waited for memory{minute}");
        (describe_stall(share.get()), meaning)
    });
    let who = actors(answer).into_iter().next();
    let unknown = |what: &str| ("not known".to_owned(), what.to_owned());
    [
        available.map_or_else(
            || unknown("memory available"),
            |(left, all)| (left.to_string(), format!("available of {all} of RAM")),
        ),
        match swap {
            Some((all, _)) if all.get() == 0 => ("none".to_owned(), "swap".to_owned()),
            Some((all, free)) => {
                (all.saturating_sub(free).to_string(), format!("of {all} of swap used"))
            }
            None => unknown("swap"),
        },
        waits.unwrap_or_else(|| unknown("time that programs waited for memory")),
        who.map_or_else(
            || unknown("the largest process"),
            |(is_actor, it)| {
                let size = it.ram.map_or_else(|| "not known".to_owned(), |ram| ram.to_string());
                let what = if is_actor { "held by " } else { "held by the largest process, " };
                (size, format!("{what}{}", describe(&Actor { ram: None, ..it })))
            },
        ),
    ]
}

/// The actor of the first finding, then the largest processes; each with whether it is the actor of the finding.
fn actors(answer: &Answer<'_>) -> Vec<(bool, Actor)> {
    let snapshot = &answer.interval.end;
    let actor = Actor::find_first(answer.findings, answer.verdict, snapshot);
    let is_other = |process: &&Process| actor.as_ref().is_none_or(|it| it.pid != Some(process.pid));
    let largest = processes::largest(&snapshot.processes, LARGEST);
    let others = largest.into_iter().filter(is_other).map(|it| (false, Actor::from_process(it)));
    actor.iter().cloned().map(|it| (true, it)).chain(others).collect()
}

/// Prints the actor of the first finding, then the largest processes that hold much memory.
fn print_who(page: &mut Page, answer: &Answer<'_>) {
    let snapshot = &answer.interval.end;
    let is_large = |it: &Actor| {
        let share = it.ram.and_then(|ram| ram.percent_of(snapshot.memory.total.get()?));
        share.is_some_and(|share| share.get() >= NAMED_PERCENT)
    };
    // the first of them is always named
    let named = actors(answer)
        .into_iter()
        .map(|(_, it)| it)
        .enumerate()
        .filter(|(at, it)| *at == 0 || is_large(it));
    let named = named.map(|(_, it)| it).take(LARGEST);
    let items: Vec<String> = named.map(|it| describe(&it)).collect();
    if !items.is_empty() {
        page.item_row(fact("who"), FACTS, &items);
    }
}

/// An actor with its memory: `java (pid 812, app.service) 1.0 GiB, swap 12.0 MiB`.
pub(super) fn describe(actor: &Actor) -> String {
    let unit =
        actor.unit.as_deref().filter(|unit| *unit != actor.name.as_str().trim_start_matches('/'));
    let pid = actor.pid.map(|pid| format!("pid {pid}"));
    let place: Vec<String> =
        pid.into_iter().chain(unit.filter(|_| actor.pid.is_some()).map(String::from)).collect();
    let place = if place.is_empty() { String::new() } else { format!(" ({})", place.join(", ")) };
    let ram = match actor.ram {
        Some(ram) if ram.get() == 0 && actor.pid.is_none() => " (empty now)".to_owned(),
        ram => ram.map_or_else(String::new, |ram| format!(" {ram}")),
    };
    let swap = actor.swap.filter(|swap| *swap > Bytes::new(0));
    let swap = swap.map_or_else(String::new, |swap| format!(", swap {swap}"));
    format!("{}{place}{ram}{swap}", actor.name)
}

fn print_more(page: &mut Page, answer: &Answer<'_>, rest_follows: bool) {
    let mut items = Vec::new();
    items.push(if rest_follows {
        "below: all sections".to_owned()
    } else {
        "pagewise report --all: all sections".to_owned()
    });
    if !answer.findings.is_empty() {
        let only_info = answer.findings.iter().all(|it| it.severity == Severity::Info);
        let level = if only_info { " --min-severity info" } else { "" };
        items.push(format!("pagewise doctor{level}: the proof"));
    }
    page.item_row(fact("more"), FACTS, &items);
}
