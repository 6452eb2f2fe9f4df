// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise doctor`: every finding in full, with its proof.

use super::kit::{Page, Role};
use super::words::plural;
use super::{findings, header, verdict};
use crate::Answer;

pub(super) fn print(page: &mut Page, answer: &Answer<'_>) {
    header::print(page, "doctor", answer);
    page.gap();
    if let Some(why) = verdict::unreadable(&answer.interval.end) {
        page.prose(2, Role::Strong, &why);
    } else {
        page.prose(2, verdict::role(answer.verdict.level), &answer.verdict.line);
    }
    if verdict::unreadable(&answer.interval.end).is_none()
        && answer.findings.is_empty()
        && answer.hidden == 0
    {
        return findings::none(page);
    }
    let counted = counted(answer);
    if !counted.is_empty() {
        page.prose(2, Role::Plain, &counted);
    }
    answer.findings.iter().for_each(|finding| findings::full(page, finding));
}

/// How many findings there are, those that the reader did not want included.
fn counted(answer: &Answer<'_>) -> String {
    let hidden = match answer.hidden {
        0 => String::new(),
        hidden => format!(" {} below --min-severity not shown.", plural(hidden as u64, "finding")),
    };
    match answer.findings.len() {
        0 => hidden.trim_start().to_owned(),
        _ => format!("{}.{hidden}", verdict::counted(answer.findings)),
    }
}
