// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Findings: numbered and short in the report, in full for `doctor`.

use pagewise_model::{Evidence, Finding, Severity};

use super::kit::{Line, Page, Role, make_printable_line};
use super::words::count;

const SHOWN: usize = 6;
/// Width of the number and the severity of a finding together, in columns.
const TITLE: usize = 15;
/// Indent of the text of a full finding, in columns.
const BODY: usize = 9;

/// Prints the most important findings under a heading.
pub(super) fn print_section(page: &mut Page, findings: &[Finding]) {
    if !findings.is_empty() {
        page.heading(
            "Findings",
            "the most severe first, each with its reason and the next command",
        );
        print_short(page, findings);
    }
}

/// Prints the most important findings, each with its reason and the first command. A reason that
/// several findings share, such as kills in several cgroups, is printed once, and the other
/// findings refer to it.
pub(super) fn print_short(page: &mut Page, findings: &[Finding]) {
    if findings.is_empty() {
        return;
    }
    for (number, finding) in (1..).zip(findings.iter().take(SHOWN)) {
        page.gap();
        print_head(page, number, finding);
        let earlier = (1..number).zip(findings).find(|(_, other)| other.why == finding.why);
        match earlier {
            Some((first, other)) if other.next.first() == finding.next.first() => {
                print_labelled_prose(
                    page,
                    "why   ",
                    &format!("as for {first}, with the same next command"),
                );
            }
            Some((first, _)) => {
                print_labelled_prose(page, "why   ", &format!("as for {first}"));
                print_command(page, finding);
            }
            None => {
                print_labelled_prose(page, "why   ", &finding.why);
                print_command(page, finding);
            }
        }
    }
    if findings.len() > SHOWN {
        let rest = &findings[SHOWN..];
        let some_info = rest.iter().any(|finding| finding.severity == Severity::Info);
        let command =
            if some_info { "pagewise doctor --min-severity info" } else { "pagewise doctor" };
        let start = Line::indent(2).plain(format!("and {} more:", count(rest.len() as u64)));
        page.gap();
        page.command(start, TITLE, command);
    }
}

/// Prints a finding as the first screen shows it: its title, and the first command.
pub(super) fn print_now(page: &mut Page, number: u32, finding: &Finding) {
    print_head(page, number, finding);
    if let Some(command) = finding.next.first() {
        page.command(Line::indent(5).span(Role::Quiet, "now"), TITLE, command);
    }
}

fn print_head(page: &mut Page, number: u32, finding: &Finding) {
    let start = Line::indent(2)
        .plain(format!("{number}  "))
        .span(role(finding.severity), label(finding.severity))
        .pad_to(TITLE);
    page.hang(start, TITLE, Role::Strong, &finding.title);
}

fn print_labelled_prose(page: &mut Page, label: &str, text: &str) {
    let start = Line::indent(TITLE).span(Role::Quiet, label);
    page.hang(start, TITLE + 6, Role::Plain, text);
}

fn print_command(page: &mut Page, finding: &Finding) {
    if let Some(command) = finding.next.first() {
        page.command(Line::indent(TITLE).span(Role::Quiet, "next  "), TITLE + 6, command);
    }
}

pub(super) fn role(severity: Severity) -> Role {
    match severity {
        Severity::Critical => Role::Critical,
        Severity::Warning => Role::Warning,
        Severity::Info => Role::Info,
    }
}

pub(super) fn label(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "CRITICAL",
        Severity::Warning => "WARNING",
        Severity::Info => "INFO",
    }
}

/// Prints everything about one finding.
pub(super) fn print_full(page: &mut Page, finding: &Finding) {
    page.gap();
    let start = Line::default()
        .span(role(finding.severity), label(finding.severity))
        .pad_to(BODY + 1)
        .span(Role::Strong, finding.id)
        .plain("   ");
    page.hang(start, BODY, Role::Strong, &finding.title);
    page.hang(label_line("what"), BODY, Role::Plain, &finding.what);
    page.hang(label_line("why"), BODY, Role::Plain, &finding.why);
    print_proof(page, &finding.evidence);
    print_next(page, &finding.next);
}

fn label_line(label: &str) -> Line {
    Line::indent(2).span(Role::Quiet, label).pad_to(BODY)
}

/// Prints the source of each number, one line each.
fn print_proof(page: &mut Page, evidence: &[Evidence]) {
    let mut start = label_line("proof");
    for evidence in evidence {
        let line = evidence.line.map(|line| format!(":{line}")).unwrap_or_default();
        page.hang(
            start,
            BODY + 2,
            Role::Plain,
            &format!("{}{line}  {}", evidence.path, evidence.value),
        );
        start = Line::indent(BODY);
    }
}

fn print_next(page: &mut Page, commands: &[String]) {
    let mut start = label_line("next");
    for command in commands {
        page.command(start, BODY, command);
        start = Line::indent(BODY);
    }
}

/// A finding in one line: `WARNING zram-full: /dev/zram0 is full`, with a trailing newline.
pub(super) fn one_line_of(finding: &Finding) -> String {
    let text = format!("{} {}: {}", label(finding.severity), finding.id, finding.title);
    make_printable_line(text) + "\n"
}

/// Prints the text if there are no findings.
pub(super) fn print_none(page: &mut Page) {
    page.gap();
    page.prose(2, Role::Good, "No findings: no rule saw anything wrong.");
    page.prose(
        2,
        Role::Plain,
        "A rule stays silent where a value that it needs is missing; `pagewise report` says at its end what was missing.",
    );
}
