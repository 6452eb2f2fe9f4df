// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise doctor`: every finding in full, with its evidence.

use super::kit::{Page, Role};
use super::words::plural;
use super::{findings, header, verdict};
use crate::Answer;

pub(super) fn print(page: &mut Page, answer: &Answer<'_>, ignored: usize) {
    header::print(page, "doctor", answer);
    page.gap();
    print_summary(page, answer, ignored);
    answer.findings.iter().for_each(|finding| findings::print_full(page, finding));
}

/// Prints the verdict, and the number of findings.
pub(super) fn print_summary(page: &mut Page, answer: &Answer<'_>, ignored: usize) {
    if let Some(why) = verdict::unreadable(&answer.interval.end) {
        page.prose(2, Role::Strong, &why);
    } else {
        page.prose(2, verdict::role(answer.verdict.level), &answer.verdict.line);
    }
    if verdict::unreadable(&answer.interval.end).is_none()
        && answer.findings.is_empty()
        && answer.hidden + ignored == 0
    {
        return findings::print_none(page);
    }
    let counted = count_findings(answer, ignored);
    if !counted.is_empty() {
        page.prose(2, Role::Plain, &counted);
    }
}

/// The number of findings, and of those that the user's options exclude.
fn count_findings(answer: &Answer<'_>, ignored: usize) -> String {
    let mut sentences = Vec::new();
    if !answer.findings.is_empty() {
        sentences.push(format!("{}.", verdict::count_findings(answer.findings)));
    }
    if answer.hidden > 0 {
        let hidden = plural(answer.hidden as u64, "finding");
        sentences.push(format!("{hidden} below --min-severity not shown."));
    }
    if ignored > 0 {
        sentences.push(format!("{} ignored.", plural(ignored as u64, "finding")));
    }
    sentences.join(" ")
}
