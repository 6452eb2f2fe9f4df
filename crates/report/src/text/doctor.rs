// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise doctor`: every finding in full, with its proof.

use super::kit::Page;
use super::{findings, header};
use crate::Answer;

pub(super) fn print(page: &mut Page, answer: &Answer<'_>) {
    header::print(page, "doctor", answer);
    if answer.findings.is_empty() {
        return findings::none(page);
    }
    answer.findings.iter().for_each(|finding| findings::full(page, finding));
    findings::total(page, answer.findings);
}
