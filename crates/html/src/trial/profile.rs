// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Formats a table of the functions in which kswapd spent its time.

use super::arms::side_by_side_table;
use pagewise_report::{TrialReport, phrases, profile};

pub(super) fn table(tried: &TrialReport<'_>) -> String {
    let all = profile::samples(tried.trial, tried.runs);
    if all.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = all.iter().map(|samples| samples.arm).collect();
    format!(
        "<h2>Where kswapd spent its time</h2>\n{}<p class=\"quiet\">{}</p>\n",
        side_by_side_table("function", &names, &profile::rows(&all, phrases::NONE)),
        profile::MEANING
    )
}
