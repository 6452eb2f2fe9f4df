// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where kswapd spent its time: its most frequent functions, one column for each arm.

use super::arms::print_beside;
use crate::text::kit::{Page, Role};
use crate::text::table::NONE;
use crate::{TrialReport, profile};

pub(super) fn print(page: &mut Page, tried: &TrialReport<'_>) {
    let all = profile::samples(tried.trial, tried.runs);
    if all.is_empty() {
        return;
    }
    page.heading("kswapd", "share of its samples");
    let names: Vec<&str> = all.iter().map(|samples| samples.arm).collect();
    print_beside(page, "function", &names, &profile::rows(&all, NONE));
    page.prose(2, Role::Quiet, profile::MEANING);
}
