// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rules of `doctor`: a list, and one in full.

use pagewise_model::RuleExplanation;

use super::findings::{label, role};
use super::kit::{Line, Page, Role};
use super::table::{Cell, Column, Table};

pub(super) fn print_list(page: &mut Page, rules: &[RuleExplanation]) {
    let columns =
        vec![Column::left("id"), Column::left("severity"), Column::words("what it looks for")];
    let mut table = Table::new(0, columns);
    for rule in rules {
        let severity = Cell::new(role(rule.most), severities(rule));
        table.row(vec![Cell::new(Role::Strong, rule.id), severity, rule.doc.into()]);
    }
    table.print(page);
    page.gap();
    page.command(Line::indent(0), 0, "pagewise doctor --explain ID");
}

/// The severities that a rule's findings may have: `WARNING`, or `INFO to CRITICAL`.
fn severities(rule: &RuleExplanation) -> String {
    if rule.least == rule.most {
        label(rule.most).to_owned()
    } else {
        format!("{} to {}", label(rule.least), label(rule.most))
    }
}

pub(super) fn explain(page: &mut Page, rule: &RuleExplanation, subject: Option<&str>) {
    let head = Line::default().span(Role::Strong, rule.id).plain("   ");
    page.line(&head.span(role(rule.most), severities(rule)));
    print_part(page, "what", rule.doc);
    print_part(page, "reads", &rule.readings.join(", "));
    print_part(page, "when", rule.thresholds);
    print_part(page, "act", rule.act);
    if let Some(subject) = subject {
        print_part(page, "more", &format!("pagewise explain {subject}"));
    }
    print_part(page, "quiet", &format!("pagewise doctor --ignore {}", rule.id));
}

fn print_part(page: &mut Page, label: &str, text: &str) {
    page.hang(Line::indent(2).span(Role::Quiet, label).pad_to(9), 9, Role::Plain, text);
}
