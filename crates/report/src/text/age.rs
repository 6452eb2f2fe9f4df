// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise age`: the refaults of a cgroup before and after each aging.

use pagewise_model::{
    AgedNode, Aging, AgingEnd, AgingRecord, AgingReport, Name, Refaults, group_digits,
};

use super::kit::{Line, Page, Role};
use super::words::plural;
use crate::time;

/// At most this many earlier agings are listed, the newest of them.
const LISTED: usize = 40;

pub(super) fn print(page: &mut Page, report: &AgingReport) {
    match &report.aging {
        Some(aging) => print_run(page, aging),
        None => print_history(page, &report.history),
    }
    if !report.damaged_lines.is_empty() {
        let lines: Vec<String> = report.damaged_lines.iter().map(ToString::to_string).collect();
        let text = format!("lines of the record that were changed later: {}", lines.join(", "));
        page.fact("Damaged", &text);
    }
}

fn print_run(page: &mut Page, aging: &Aging) {
    let group = Name::from(aging.group.as_str());
    let start = Line::default().span(Role::Strong, format!("aging of {group}"));
    page.hang_items(start, 2, &[result(aging)]);
    if aging.before.seconds > 0.0 {
        page.fact("before", &describe(&aging.before));
    }
    for round in &aging.rounds {
        page.fact(&format!("aging {}", round.round), &describe_round(round));
    }
    page.fact("meaning", meaning(aging.ended));
    if !aging.rounds.is_empty() {
        page.fact("undo", UNDO);
    }
}

const UNDO: &str = "nothing to undo: aging evicts nothing, and changes no setting and no contents; \
                    `pagewise age --history` lists it";

/// Describes the outcome in a few words.
fn result(aging: &Aging) -> String {
    let times = match aging.rounds.len() as u64 {
        1 => "once".to_owned(),
        times => format!("{} times", group_digits(times)),
    };
    let share = aging.after().map(|after| percent(after, &aging.before));
    match (aging.ended, share) {
        (AgingEnd::FewRefaults, _) => "not aged: it has few refaults of files".to_owned(),
        (AgingEnd::Stopped, _) if aging.rounds.is_empty() => {
            "stopped before it was aged".to_owned()
        }
        (AgingEnd::Stopped, _) | (_, None) => {
            format!("stopped; aged {times}, and the effect of the last aging was not counted")
        }
        (AgingEnd::Fell, Some(share)) => {
            format!("aged {times}; its refaults fell to {share} of those before")
        }
        (AgingEnd::DidNotFall, Some(share)) => {
            format!("aged {times}; its refaults did not fall: {share} of those before")
        }
        (AgingEnd::Budget, Some(share)) => {
            format!("aged {times}, as often as allowed; its refaults are {share} of those before")
        }
    }
}

fn percent(after: &Refaults, before: &Refaults) -> String {
    format!("{:.0} %", after.per_second() / before.per_second() * 100.0)
}

const fn meaning(ended: AgingEnd) -> &'static str {
    match ended {
        AgingEnd::FewRefaults => {
            "aging helps a group that reads the same files again and again; this one read less than 50 pages per \
             second again"
        }
        AgingEnd::Fell => {
            "the kernel can now tell which pages of the group are in use. A program that does something else \
             meanwhile changes its refaults as well: read them again after some minutes. If they return, age it again"
        }
        AgingEnd::DidNotFall => {
            "the cause is probably another one: its limit may be too small for what it uses. `pagewise doctor` names \
             the limit and what to do next. If they rose, pages in use may have been evicted that are read back now: \
             no further aging was done"
        }
        AgingEnd::Budget => {
            "they did not fall to a quarter. `pagewise age --times N` allows more agings; a limit that is too small \
             for what the group uses is not mended by any"
        }
        AgingEnd::Stopped => "what was aged stays aged",
    }
}

/// Describes the refaults over a time.
fn describe(refaults: &Refaults) -> String {
    let swap = refaults.swap.map(|swap| format!("; {swap} in swap")).unwrap_or_default();
    format!(
        "{} refaults per second ({} of files, {} from swap, in {:.1} s){swap}",
        group_digits(to_page_count(refaults.per_second())),
        group_digits(refaults.file),
        group_digits(refaults.anon),
        refaults.seconds
    )
}

fn to_page_count(per_second: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of pages")]
    let pages = per_second.round().max(0.0) as u64;
    pages
}

fn describe_round(round: &AgingRecord) -> String {
    let after = match &round.after {
        Some(after) => format!("then {}", describe(after)),
        None => "its effect was not counted".to_owned(),
    };
    format!("{}; {after}", describe_nodes(&round.nodes))
}

/// Describes which generations were added: that of the first node, and how many more there are.
fn describe_nodes(nodes: &[AgedNode]) -> String {
    let Some(first) = nodes.first() else { return "it has no generations".to_owned() };
    let to = first.to.map_or_else(|| "?".to_owned(), |to| to.to_string());
    let on = if first.node == 0 { String::new() } else { format!(" on node {}", first.node) };
    let more = match nodes.len() as u64 - 1 {
        0 => String::new(),
        more => format!(" (and {} of cgroups below it or of other nodes)", group_digits(more)),
    };
    format!("youngest generation {} → {to}{on}{more}", first.from)
}

/// Describes the refaults before an aging: those after the aging before it, or before its run.
fn describe_before(earlier: &[AgingRecord], record: &AgingRecord) -> String {
    let last = earlier.iter().rfind(|it| it.group == record.group);
    let last = last.filter(|last| last.round + 1 == record.round).and_then(|last| last.after);
    match last {
        _ if record.round <= 1 => format!("before: {}", describe(&record.before)),
        Some(after) => format!("before: {}", describe(&after)),
        None => format!("before its run: {}", describe(&record.before)),
    }
}

fn print_history(page: &mut Page, history: &[AgingRecord]) {
    let start = Line::default().span(Role::Strong, "pagewise age --history");
    let items = [plural(history.len() as u64, "aging"), "nothing to undo".to_owned()];
    page.hang_items(start, 2, &items);
    let older = history.len().saturating_sub(LISTED);
    for (at, record) in history.iter().enumerate().skip(older) {
        #[expect(clippy::cast_precision_loss, reason = "Unix time")]
        let time = time::timestamp(record.unix_seconds as f64);
        let time = time.map_or_else(
            || "at an unknown time".to_owned(),
            |time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        );
        let group = Name::from(record.group.as_str());
        let label = Line::indent(2).span(Role::Strong, format!("{time}  {group}"));
        page.hang_items(label, 4, &[format!("aging {} of its run", record.round)]);
        page.prose(4, Role::Plain, &describe_before(&history[..at], record));
        page.prose(4, Role::Plain, &describe_round(record));
    }
    if older > 0 {
        let text = format!("and {}; --json lists all", plural(older as u64, "older aging"));
        page.prose(2, Role::Quiet, &text);
    }
}
