// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The verdict: one to three lines decided elsewhere, then the number of findings.

use pagewise_model::{Finding, Level, Psi, Severity, Snapshot};

use super::kit::{Page, Role};
use super::pressure;
use super::words::{MISSING, absence, join_words, lack, plural};
use crate::Answer;

pub(super) fn print(page: &mut Page, answer: &Answer<'_>) {
    let snapshot = &answer.interval.end;
    if let Some(why) = unreadable(snapshot) {
        page.prose(2, Role::Strong, &why);
        if answer.findings.is_empty() {
            return;
        }
    } else {
        page.prose(2, role(answer.verdict.level), &answer.verdict.line);
    }
    page.prose(2, Role::Plain, &second(answer.findings, &snapshot.psi));
}

/// The text if the reading is unusable: not even the total memory is known.
pub(super) fn unreadable(snapshot: &Snapshot) -> Option<String> {
    let total = &snapshot.memory.total;
    if total.value().is_some() {
        return None;
    }
    let why = match absence(total) {
        Some(MISSING) if snapshot.host.root.as_str() == "live" => {
            Some("no such file; is /proc mounted?".to_owned())
        }
        Some(MISSING) => Some("not in this recording".to_owned()),
        _ => lack(total),
    };
    let why = why.map(|why| format!(" ({}: {why})", total.source));
    Some(format!("The state of memory on this host could not be read{}.", why.unwrap_or_default()))
}

/// The colour of a level of memory shortage.
pub(super) fn role(level: Level) -> Role {
    match level {
        Level::Critical => Role::Critical,
        Level::Short => Role::Warning,
        Level::Tight | Level::Unknown => Role::Strong,
        Level::Calm => Role::Good,
    }
}

/// The second line of the verdict: the number of findings, and what limits the diagnosis.
fn second(findings: &[Finding], psi: &Psi) -> String {
    let mut sentences = vec![match findings.len() {
        0 => "No rule found anything to improve.".to_owned(),
        _ => format!("{}.", count_findings(findings)),
    }];
    if let Some(why) = pressure::unknown(psi) {
        sentences.push(format!("How long programs wait for memory is not known: {why}."));
    }
    sentences.join(" ")
}

/// Counts findings by severity: `3 findings: 1 critical, 1 warning and 1 worth knowing`, or `2
/// warnings` if all have the same severity.
pub(super) fn count_findings(findings: &[Finding]) -> String {
    let of =
        |severity| findings.iter().filter(|finding| finding.severity == severity).count() as u64;
    let all = findings.len() as u64;
    let parts = [
        (of(Severity::Critical), "critical".to_owned()),
        (of(Severity::Warning), plural(of(Severity::Warning), "warning")),
        (of(Severity::Info), "worth knowing".to_owned()),
    ];
    if of(Severity::Warning) == all {
        return plural(all, "warning");
    }
    if of(Severity::Critical) == all {
        return plural(all, "critical finding");
    }
    if of(Severity::Info) == all {
        return format!("{} worth knowing", plural(all, "finding"));
    }
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(number, _)| *number > 0)
        .map(
            |(number, name)| {
                if name.starts_with(char::is_numeric) { name } else { format!("{number} {name}") }
            },
        )
        .collect();
    format!("{}: {}", plural(findings.len() as u64, "finding"), join_words(&parts))
}
