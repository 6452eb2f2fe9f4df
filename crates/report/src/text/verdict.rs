// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The verdict: one to three lines decided elsewhere, then the number of findings.

use pagewise_model::{Finding, Level, Psi, Severity, Snapshot};

use super::kit::{Page, Role};
use super::pressure;
use super::words::{MISSING, absence_reason, describe_lack, join_words, plural};
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
    page.prose(2, Role::Plain, &findings_line(answer.findings, &snapshot.psi));
}

/// The text if the reading is unusable: not even the total memory is known.
pub(super) fn unreadable(snapshot: &Snapshot) -> Option<String> {
    let total = &snapshot.memory.total;
    if total.value().is_some() {
        return None;
    }
    let why = match absence_reason(total) {
        Some(MISSING) if snapshot.host.root.as_str() == "live" => {
            Some("no such file; is /proc mounted?".to_owned())
        }
        Some(MISSING) => Some("not in this recording".to_owned()),
        _ => describe_lack(total),
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

/// The label of a level of memory shortage; empty if it is unknown.
pub(super) fn label(level: Level) -> &'static str {
    match level {
        Level::Critical => "CRITICAL",
        Level::Short => "SHORT",
        Level::Tight => "TIGHT",
        Level::Calm => "CALM",
        Level::Unknown => "",
    }
}

/// The sentences of the verdict with their levels: a sentence that names a cgroup has the cgroup's
/// level, any other one that of the host. Empty if the state of memory could not be read.
pub(super) fn sentences(answer: &Answer<'_>) -> Vec<(Level, String)> {
    let verdict = answer.verdict;
    if unreadable(&answer.interval.end).is_some() || verdict.line.is_empty() {
        return Vec::new();
    }
    let level_of = |sentence: &str| {
        let named = verdict.groups.iter().find(|group| sentence.contains(group.group.as_str()));
        named.map_or(verdict.host, |group| group.level)
    };
    let mut sentences: Vec<(Level, String)> = verdict
        .line
        .split_inclusive(". ")
        .map(|sentence| (level_of(sentence), sentence.trim_end().to_owned()))
        .collect();
    // a sentence that names its cgroup in other words
    if sentences.iter().all(|(level, _)| *level != verdict.level) {
        if let Some((level, _)) = sentences.last_mut() {
            *level = verdict.level;
        }
    }
    sentences
}

/// The second line of the verdict: the number of findings, and what limits the diagnosis.
pub(super) fn findings_line(findings: &[Finding], psi: &Psi) -> String {
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
