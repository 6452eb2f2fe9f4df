// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A subject with its values, a diagram, and errors that are common in guides.

use pagewise_model::{Bar, Explanation, NamedValue, NextCommand, Outcome, Section};
use unicode_width::UnicodeWidthStr;

use super::bars;
use super::kit::{Line, Page, Role};
use super::table::{Cell, Column, NONE, Table};

/// Number of cells of the longest bar.
const LONGEST: usize = 40;
const INDENT: usize = 4;

/// Prints the list of subjects that `explain` knows.
pub(super) fn print_list(page: &mut Page, subjects: &[(&str, &str)]) {
    let columns = vec![Column::left("subject"), Column::words("what it explains")];
    let mut table = Table::new(0, columns);
    for (name, title) in subjects {
        table.row(vec![Cell::new(Role::Strong, *name), (*title).into()]);
    }
    table.print(page);
    page.gap();
    page.command(Line::indent(0), 0, "pagewise explain SUBJECT");
}

pub(super) fn print(page: &mut Page, explanation: &Explanation) {
    let head = Line::default().span(Role::Strong, explanation.subject);
    page.line(&head.plain(": ").plain(explanation.title));
    for section in &explanation.sections {
        match section {
            Section::Text { text } => {
                page.gap();
                page.prose(2, Role::Plain, text);
            }
            Section::Values { title, values } => print_values(page, title, values),
            Section::Bars { title, whole, bars } => print_bars(page, title, *whole, bars),
            Section::Correction { claim, fact } => {
                page.gap();
                page.hang(Line::indent(2).span(Role::Warning, "not so  "), 10, Role::Plain, claim);
                page.hang(Line::indent(2).span(Role::Good, "but     "), 10, Role::Plain, fact);
            }
        }
    }
    print_next(page, &explanation.next);
}

fn print_values(page: &mut Page, title: &str, values: &[NamedValue]) {
    page.heading(title, "");
    let columns = vec![Column::left(""), Column::right(""), Column::path("")];
    let mut table = Table::new(INDENT, columns);
    for NamedValue { name, reading } in values {
        let (shown, beside) = match &reading.outcome {
            Outcome::Value(value) => (value.as_str(), reading.source.to_string()),
            Outcome::Absent(why) => (NONE, why.to_string()),
            Outcome::Denied(help) => (NONE, help.to_string()),
        };
        table.row(vec![name.as_str().into(), shown.into(), Cell::new(Role::Quiet, beside)]);
    }
    table.print(page);
}

fn print_bars(page: &mut Page, title: &str, whole: Option<u64>, bars: &[Bar]) {
    page.heading(title, "");
    let names = bars.iter().map(|bar| bar.name.width()).max().unwrap_or_default();
    let amounts = bars.iter().map(|bar| bar.shown.width()).max().unwrap_or_default();
    let largest = || bars.iter().map(|bar| bar.amount).max().unwrap_or_default();
    let whole = whole.unwrap_or_else(largest);
    let room = page.width().saturating_sub(INDENT + names + amounts + 4);
    for bar in bars {
        let cells = bars::draw_bar(bar.amount, whole, room.min(LONGEST));
        let space = " ".repeat(amounts.saturating_sub(bar.shown.width()));
        let line = Line::indent(INDENT).plain(bar.name.as_str()).pad_to(INDENT + names + 2);
        let line = line.plain(space).plain(bar.shown.as_str()).plain("  ");
        page.line(&line.span(Role::Info, cells.trim_end_matches('░')));
    }
}

fn print_next(page: &mut Page, next: &[NextCommand]) {
    page.gap();
    for (index, NextCommand { command, shows }) in next.iter().enumerate() {
        let label = if index == 0 { "next" } else { "" };
        let start = Line::indent(2).span(Role::Quiet, label);
        page.command(start, 10, &format!("{command}  # {shows}"));
    }
}
