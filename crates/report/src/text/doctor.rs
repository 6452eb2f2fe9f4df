// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise doctor`: every finding in full, with its proof.

use super::kit::{Page, Role};
use super::{findings, header, verdict};
use crate::Answer;

pub(super) fn print(page: &mut Page, answer: &Answer<'_>) {
    header::print(page, "doctor", answer);
    if answer.findings.is_empty() {
        return match verdict::unreadable(&answer.interval.end) {
            Some(why) => page.prose(2, Role::Strong, &why),
            None => findings::none(page),
        };
    }
    let counted = verdict::counted(answer.findings);
    page.gap();
    page.prose(2, Role::Plain, &format!("{counted}."));
    answer.findings.iter().for_each(|finding| findings::full(page, finding));
}
