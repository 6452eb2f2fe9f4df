// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The answer in one or two sentences, from the findings' severities and the pressure that was read.
//!
//! It repeats what others decided: memory is short where a finding says so, and the numbers beside it
//! are only shown. It never says that memory is fine where pressure is unknown.

use pagewise_model::{Finding, Psi, Severity, Snapshot};

use super::kit::{Page, Role};
use super::words::{MISSING, absence, lack, listed, part_of, plural, stalled};
use super::{SHORT_OF_MEMORY, pressure};
use crate::Answer;

pub(super) fn print(page: &mut Page, answer: &Answer<'_>) {
    let snapshot = &answer.interval.end;
    if let Some(why) = unreadable(snapshot) {
        page.prose(2, Role::Strong, &why);
        if answer.findings.is_empty() {
            return;
        }
    } else {
        let worst = answer.findings.iter().map(|finding| finding.severity).max();
        page.prose(2, role(worst), &sentence(answer.findings, worst, snapshot));
    }
    page.prose(2, Role::Plain, &second(answer.findings, &snapshot.psi));
}

/// Said where not even the totals are known.
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
    Some(format!("What memory is doing here could not be read{}.", why.unwrap_or_default()))
}

fn role(worst: Option<Severity>) -> Role {
    match worst {
        Some(Severity::Critical) => Role::Critical,
        Some(Severity::Warning) => Role::Strong,
        Some(Severity::Info) | None => Role::Good,
    }
}

fn sentence(findings: &[Finding], worst: Option<Severity>, snapshot: &Snapshot) -> String {
    let waited = waited(&snapshot.psi);
    if let Some(short) = findings.iter().find(|finding| finding.id == SHORT_OF_MEMORY) {
        return format!("Memory is short: {}.", short.title);
    }
    let available = available(snapshot);
    match (worst, waited) {
        (Some(Severity::Critical), Some(_)) => {
            format!("Memory will hurt work at the next peak, if not now: {available}.")
        }
        (Some(Severity::Critical), None) => {
            format!("Memory hurts work here, or will at the next peak: {available}.")
        }
        (Some(Severity::Warning), Some(_)) => {
            format!("Memory is not short, but it is not used well: {available}.")
        }
        (Some(Severity::Warning), None) => format!("Memory is not used well: {available}."),
        (_, Some(some)) => {
            format!("Memory is not short: {available}, and {}.", waiting(&snapshot.psi, some))
        }
        (_, None) => format!("Nothing wrong was found: {available}."),
    }
}

/// Share of the last minute in which some task waited for memory.
fn waited(psi: &Psi) -> Option<f64> {
    psi.memory.some.avg60.get().map(pagewise_model::Percent::get)
}

fn waiting(psi: &Psi, some: f64) -> String {
    if some <= 0.0 {
        return "nobody waited for it in the last minute".to_owned();
    }
    let everybody = psi.memory.full.avg60.get().filter(|full| full.get() > 0.0);
    let everybody = everybody.map(|full| format!(", everybody {}", stalled(full.get())));
    let everybody = everybody.unwrap_or_default();
    format!("somebody waited for it {} of the last minute{everybody}", stalled(some))
}

fn available(snapshot: &Snapshot) -> String {
    match snapshot.memory.available.get().zip(snapshot.memory.total.get()) {
        Some((available, total)) => {
            format!("{} are available", part_of(available, total))
        }
        None => "how much is available is not known".to_owned(),
    }
}

/// How many findings there are, and what keeps us from knowing more.
fn second(findings: &[Finding], psi: &Psi) -> String {
    let mut sentences = vec![match findings.len() {
        0 => "No rule found anything to improve.".to_owned(),
        _ => format!("{}.", counted(findings)),
    }];
    if let Some(why) = pressure::unknown(psi) {
        sentences.push(format!("How long programs wait for memory is not known: {why}."));
    }
    sentences.join(" ")
}

/// `3 findings: 1 critical, 1 warning and 1 worth knowing`, or `2 warnings` where all are alike.
pub(super) fn counted(findings: &[Finding]) -> String {
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
    format!("{}: {}", plural(findings.len() as u64, "finding"), listed(&parts))
}
