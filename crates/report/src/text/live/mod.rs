// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints a live view as lines of a screen, the most important first: if it does not fit, the
//! lowest sections are left out.
//!
//! No line is wider than the window, and there are never more lines than it has. The last line
//! shows the keys.

mod ascii;
mod details;
mod host;
mod replay;
mod table;

use super::kit::{Line, Page, Role, wrap};
use super::verdict;
use crate::live::{LiveFrame, LiveLine, LiveOrder, LiveView, LiveWindow};

/// Column at which the content of labelled facts starts.
const FACTS: usize = 10;
/// In windows with fewer lines there is no table until a row is selected.
const LOW: usize = 14;

/// The lines of a frame, at most as many as the window has.
pub fn live(frame: &LiveFrame<'_>, window: LiveWindow) -> Vec<LiveLine> {
    live_with_rows(frame, window).0
}

/// The lines of a frame, and the number of rows of processes or groups that fit.
pub fn live_with_rows(frame: &LiveFrame<'_>, window: LiveWindow) -> (Vec<LiveLine>, usize) {
    let mut rows = 0;
    if window.height == 0 || window.width == 0 {
        return (Vec::new(), rows);
    }
    let room = window.height - 1;
    let mut lines = Vec::new();
    if let Some(replay) = frame.replay {
        lines.extend(render(window, |page| page.line(&replay::first_line(replay, window.width))));
    }
    lines.extend(verdict_lines(frame, window));
    lines.truncate(room.max(1));
    let wanted = table_lines(frame.view, window.height).min(room.saturating_sub(lines.len()));
    if frame.view.shows_help {
        lines.extend(render(window, |page| match frame.replay {
            Some(_) => print_help(page, &replay::KEYS),
            None => print_help(page, &LIVE_KEYS),
        }));
    } else {
        for section in host::sections(frame, window) {
            if lines.len() + section.len() + wanted <= room {
                lines.extend(section);
            }
        }
        let left = room.saturating_sub(lines.len());
        lines.extend(render(window, |page| match &frame.sample.detail {
            Some(detail) if frame.view.open.is_some() => details::print(page, detail),
            _ => {
                rows = left.saturating_sub(1);
                table::print(page, frame, rows);
            }
        }));
    }
    lines.truncate(room);
    lines.resize(room, LiveLine::default());
    lines.extend(render(window, |page| page.line(&last_line(frame))).into_iter().take(1));
    for span in lines.iter_mut().flat_map(|line| &mut line.spans) {
        if !window.unicode {
            span.text = ascii::spell(&span.text);
        }
        if !window.colour {
            span.role = Role::Plain;
        }
    }
    (lines, rows)
}

/// Number of lines reserved for the table of processes or groups.
fn table_lines(view: &LiveView, height: usize) -> usize {
    let is_chosen = view.selected.is_some() || view.open.is_some() || view.groups;
    match (is_chosen || !view.filter.is_empty(), height) {
        (true, height) if height < 2 * LOW => height / 2,
        (false, ..LOW) => 0,
        _ => height / 3,
    }
}

fn render(window: LiveWindow, print: impl FnOnce(&mut Page)) -> Vec<LiveLine> {
    let mut page = Page::for_window(window.width);
    print(&mut page);
    page.into_screen()
}

/// The verdict in the words of `status`, in at most a fifth of the window.
fn verdict_lines(frame: &LiveFrame<'_>, window: LiveWindow) -> Vec<LiveLine> {
    let unreadable = verdict::unreadable(&frame.interval.end);
    let role = match unreadable {
        Some(_) => Role::Strong,
        None => verdict::role(frame.verdict.level),
    };
    let text = unreadable.as_deref().unwrap_or(&frame.verdict.line);
    let most = (window.height / 5).max(1);
    let mut lines = wrap(text, window.width.min(120));
    if lines.len() > most {
        let rest = lines.split_off(most - 1).join(" ");
        lines.push(rest);
    }
    render(window, |page| {
        lines.into_iter().for_each(|line| page.line(&Line::default().span(role, line)));
    })
}

/// Prints a label and its content, cut to the width of the window.
fn print_fact(page: &mut Page, label: &str, text: impl Into<String>) {
    print_fact_line(page, label, |line| line.plain(text));
}

fn print_fact_line(page: &mut Page, label: &str, fill: impl FnOnce(Line) -> Line) {
    let start = Line::default().span(Role::Strong, label).pad_to(FACTS - 1).plain(" ");
    page.line(&fill(start));
}

/// Keys with another meaning in a recording.
const LIVE_KEYS: [(&str, &str); 3] = [
    ("q", "quit"),
    ("space", "freeze the view, or go on"),
    ("up, down", "select a row (also k and j)"),
];

const KEYS: [(&str, &str); 6] = [
    ("s", "next order: size, growth, swap, faults"),
    ("g", "processes or cgroups"),
    ("Enter", "open the selected process or cgroup"),
    ("Esc", "close what is open, or remove the filter"),
    ("/", "show only names that contain a text"),
    ("?", "this help"),
];

fn print_help(page: &mut Page, special: &[(&str, &str)]) {
    for (key, meaning) in special.iter().chain(&KEYS) {
        print_fact(page, key, *meaning);
    }
}

fn last_line(frame: &LiveFrame<'_>) -> Line {
    let view = frame.view;
    if view.is_typing {
        let typed = Line::default().span(Role::Strong, "filter: ").plain(view.filter.as_str());
        return typed.plain("_").span(Role::Quiet, "  Enter keep  Esc remove");
    }
    if let Some(line) = frame.replay.and_then(replay::jump_line) {
        return line;
    }
    let mut line = Line::default();
    if view.is_frozen {
        line = line.span(Role::Warning, "FROZEN").plain("  ");
    }
    let order = order_name(view);
    let space = frame.replay.map_or_else(|| "space freeze".to_owned(), replay::keys);
    let keys = if view.open.is_some() {
        format!("q quit  Esc close  {space}  ? help")
    } else {
        let other = if view.groups { "processes" } else { "cgroups" };
        format!("q quit  ? help  {space}  s by {order}  g {other}  / filter  Enter open")
    };
    if !view.filter.is_empty() {
        line = line.plain(format!("filter {}  ", view.filter));
    }
    line.span(Role::Quiet, keys)
}

fn order_name(view: &LiveView) -> &'static str {
    match (view.order, view.groups) {
        (LiveOrder::Size, _) => "size",
        (LiveOrder::Growth, _) => "growth",
        (LiveOrder::Swap, _) => "swap",
        (LiveOrder::Faults, false) => "major faults",
        (LiveOrder::Faults, true) => "refaults",
    }
}
