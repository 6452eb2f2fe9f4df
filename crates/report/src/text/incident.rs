// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise why`: what happened to memory in some time.

use pagewise_model::{
    Grown, GrownArea, Incident, IncidentEvent, IncidentEventKind, Name, SarHistory, SarTime,
    UnreadFile, duration,
};

use super::block::{Block, TextCell, TextTable};
use super::kit::{Line, Page, Role};
use super::verdict;
use super::words::plural;
use crate::time;

/// Events that are listed; --json has all.
const SHOWN: usize = 40;
/// Kills that are listed one by one if they come one after the other.
const KILLS: usize = 4;
const INDENT: usize = 12;

pub(super) fn print(page: &mut Page, incident: &Incident) {
    if incident.readings == 0 {
        return page.prose(0, Role::Plain, "there is no reading of this time");
    }
    let start = Line::default().span(Role::Strong, "pagewise why");
    let times = [incident.from_unix_seconds, incident.to_unix_seconds].map(day_and_time);
    let [from, to] = times;
    let items = [format!("{from} to {to} UTC"), plural(incident.readings, "reading")];
    page.hang_items(start, 2, &items);
    page.gap();
    match &incident.trouble {
        Some(trouble) => {
            let (role, word) = (verdict::role(trouble.level), verdict::label(trouble.level));
            page.hang(
                Line::indent(2).span(role, word).pad_to(INDENT),
                INDENT,
                Role::Plain,
                &trouble.line,
            );
            let begun = format_clock(trouble.begun_unix_seconds);
            let worst = format_clock(trouble.worst_unix_seconds);
            let lasted = match trouble.ended_unix_seconds {
                Some(ended) => {
                    let seconds = ended - trouble.begun_unix_seconds;
                    format!(
                        "from {begun} to {} ({})",
                        format_clock(ended),
                        duration::format_rough(seconds)
                    )
                }
                None => format!("from {begun} until the last reading"),
            };
            let verdict = format!("{lasted}; this is the verdict at {worst}, the worst reading");
            page.prose(INDENT, Role::Plain, &verdict);
        }
        None => {
            let text = "memory was not short at any of these readings, and none shows a new kill";
            page.prose(2, Role::Plain, text);
        }
    }
    print_events(page, &incident.events);
    if let Some(sar) = &incident.sar {
        print_sar(page, sar);
    }
    let has_facts =
        !incident.growers.is_empty() || !incident.areas.is_empty() || !incident.change.is_empty();
    if has_facts || !incident.unknown.is_empty() || !incident.unread.is_empty() {
        if page.keeps_blocks() {
            page.heading("What grew, and what would have helped", "");
        }
        page.gap();
    }
    if !incident.growers.is_empty() {
        let grown: Vec<String> = incident.growers.iter().map(describe_growth).collect();
        page.fact_items("who grew", &grown);
    }
    if !incident.areas.is_empty() {
        let grown: Vec<String> = incident.areas.iter().map(describe_area).collect();
        page.fact_items("what grew", &grown);
    }
    for change in &incident.change {
        page.fact("change", change);
    }
    for unknown in &incident.unknown {
        page.fact("not known", unknown);
    }
    for file in &incident.unread {
        page.fact_in("not read", Role::Warning, &describe_unread(file));
    }
}

fn print_events(page: &mut Page, events: &[IncidentEvent]) {
    if events.is_empty() {
        return;
    }
    if page.keeps_blocks() {
        page.heading("Events", "the time is UTC");
        return page.keep(Block::Table(event_table(&join_kills(events))));
    }
    let events = join_kills(events);
    page.gap();
    for event in events.iter().take(SHOWN) {
        let role = event_role(event.kind);
        let label =
            Line::indent(2).span(Role::Quiet, format_clock(event.unix_seconds)).pad_to(INDENT);
        page.hang(label, INDENT, role, &event.text);
    }
    let more = events.len().saturating_sub(SHOWN) as u64;
    if more > 0 {
        page.prose(
            INDENT,
            Role::Quiet,
            &format!("and {}; --json has all", plural(more, "more event")),
        );
    }
}

/// Joins what comes after the first few of a series of kills into one event. A storm of processes, or
/// a program that is started again and again, can cause hundreds.
fn join_kills(events: &[IncidentEvent]) -> Vec<IncidentEvent> {
    let is_kill = |event: &IncidentEvent| event.kind == IncidentEventKind::Kill;
    let mut all = Vec::new();
    for series in events.chunk_by(|one, next| is_kill(one) && is_kill(next)) {
        let (listed, joined) = match series {
            [first, ..] if is_kill(first) && series.len() > KILLS + 1 => series.split_at(KILLS),
            _ => (series, &[][..]),
        };
        all.extend_from_slice(listed);
        if let [.., last] = joined {
            let number = plural(joined.len() as u64, "more process");
            let until = format_clock(last.unix_seconds);
            let text = format!("{number} were killed until {until}; --json lists each");
            all.push(IncidentEvent { text, ..joined[0].clone() });
        }
    }
    all
}

/// Prints what sysstat recorded. These values are not judged: most are averages of some minutes.
fn print_sar(page: &mut Page, sar: &SarHistory) {
    let note = match sar.texts.len() as u64 {
        0 => String::new(),
        texts => format!(
            "{}, {}; local time of that machine",
            plural(texts, "text"),
            plural(sar.times, "time")
        ),
    };
    page.heading("What sar recorded", &note);
    let worst = sar.most_waiting.as_ref().or(sar.least_available.as_ref());
    let all = [
        ("worst time", worst),
        ("least available", sar.least_available.as_ref()),
        ("most waiting", sar.most_waiting.as_ref()),
        ("fullest swap", sar.most_swap.as_ref()),
        ("most faults", sar.most_major_faults.as_ref()),
    ];
    let mut shown: Vec<&Name> = Vec::new();
    for (label, time) in all {
        let Some(time) = time else { continue };
        if !shown.contains(&&time.time) {
            shown.push(&time.time);
            page.fact_items(label, &describe_sar_time(time));
        }
    }
    if sar.times > 0 && worst.is_none() {
        page.fact(
            "not known",
            "the worst time: the texts have neither available memory nor pressure",
        );
    }
    for path in &sar.unread {
        page.fact_in(
            "not read",
            Role::Warning,
            &format!("{path}: not the output of sar -A, or larger than 8 MiB"),
        );
    }
    if let Some(first) = sar.binary.first() {
        let more = sar.binary.len().saturating_sub(1) as u64;
        let more =
            if more > 0 { format!(" and {}", plural(more, "more file")) } else { String::new() };
        let (folder, name) = first.as_str().rsplit_once('/').unwrap_or(("", first.as_str()));
        let day = name.trim_start_matches("sa");
        let text = format!(
            "{first}{more}: the format is binary. The sar of that machine, or a newer one, makes a text of it, \
             which pagewise reads from an unpacked folder: cd {folder} && LC_ALL=C sar -A -f {name} > sar{day}"
        );
        page.fact_in("not read", Role::Warning, &text);
    }
}

fn describe_sar_time(time: &SarTime) -> Vec<String> {
    let percent = |value: f64| format!("{value:.1} %");
    let mut items = vec![time.time.to_string()];
    items.extend(time.available.map(|size| format!("{size} available")));
    items.extend(time.used.map(|size| format!("{size} used")));
    items.extend(time.swap_percent.map(|value| format!("swap {} full", percent(value))));
    items.extend(
        time.some_percent.map(|value| format!("some task waited {} of the time", percent(value))),
    );
    items.extend(time.full_percent.map(|value| format!("all tasks {}", percent(value))));
    items.extend(time.major_faults_per_second.map(|value| format!("{value:.1} major faults/s")));
    items
}

/// All events as a table, which has room for all of them.
fn event_table(events: &[IncidentEvent]) -> TextTable {
    let columns = [("time", true), ("what happened", false)];
    let row = |event: &IncidentEvent| {
        let time = TextCell::new(Role::Quiet, format_clock(event.unix_seconds));
        vec![time, TextCell::new(event_role(event.kind), event.text.as_str())]
    };
    TextTable {
        columns: columns.map(|(title, is_number)| (title.to_owned(), is_number)).to_vec(),
        rows: events.iter().map(row).collect(),
    }
}

fn event_role(kind: IncidentEventKind) -> Role {
    match kind {
        IncidentEventKind::Kill => Role::Critical,
        IncidentEventKind::Level | IncidentEventKind::Full => Role::Strong,
        _ => Role::Plain,
    }
}

fn describe_unread(file: &UnreadFile) -> String {
    let UnreadFile { path, why, readable_until_unix_seconds } = file;
    match readable_until_unix_seconds {
        Some(last) => {
            format!("{path}: {why}; its last readable reading is of {} UTC", day_and_time(*last))
        }
        None => format!("{path}: {why}; none of its readings can be read"),
    }
}

fn describe_growth(grown: &Grown) -> String {
    let added = grown.to.saturating_sub(grown.from);
    let group = grown.group.as_ref().map_or_else(String::new, |it| format!(", {it}"));
    let time = duration::format_rough(grown.seconds);
    let which = match grown.processes {
        ..=1 => format!("pid {}", grown.pid),
        many => format_many_processes(many),
    };
    format!("{} ({which}{group}) +{added} in {time}: {} → {}", grown.name, grown.from, grown.to)
}

fn format_many_processes(number: u64) -> String {
    format!("{} processes", pagewise_model::group_digits(number))
}

fn describe_area(grown: &GrownArea) -> String {
    let added = grown.to.saturating_sub(grown.from);
    let time = duration::format_rough(grown.seconds);
    format!("{} +{added} in {time}: {} → {}", grown.name, grown.from, grown.to)
}

pub(super) fn format_clock(unix_seconds: f64) -> String {
    format_time(unix_seconds, "%H:%M:%S")
}

fn day_and_time(unix_seconds: f64) -> String {
    format_time(unix_seconds, "%Y-%m-%d %H:%M:%S")
}

fn format_time(unix_seconds: f64, format: &str) -> String {
    let time = time::timestamp(unix_seconds).map(|time| time.strftime(format).to_string());
    time.unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_of_kills_is_joined() {
        let event = |at: usize, kind| IncidentEvent {
            unix_seconds: 1e9 + at as f64,
            kind,
            text: format!("event {at}"),
            seconds_since_reading: None,
        };
        let kill = |at| event(at, IncidentEventKind::Kill);
        let few: Vec<IncidentEvent> = (0..=KILLS).map(kill).collect();
        assert_eq!(join_kills(&few), few);
        let level = event(200, IncidentEventKind::Level);
        let many: Vec<IncidentEvent> =
            (0..100).map(kill).chain([level.clone(), kill(300)]).collect();
        let joined = join_kills(&many);
        assert_eq!(joined.len(), KILLS + 3);
        assert_eq!(
            joined[KILLS].text,
            "96 more processes were killed until 01:48:19; --json lists each"
        );
        assert_eq!(joined[KILLS].unix_seconds, 1e9 + KILLS as f64);
        assert_eq!(joined[KILLS + 1..], [level, kill(300)]);
        assert_eq!(join_kills(&[]), []);
    }
}
