// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where kswapd spent its time: its most frequent functions, arm beside arm.

use super::arms::beside;
use crate::text::kit::{Page, Role};
use crate::text::table::NONE;
use crate::text::words::count;
use crate::{Tried, profile};

pub(super) fn print(page: &mut Page, tried: &Tried<'_>) {
    let all = profile::samples(tried.trial, tried.runs);
    if all.is_empty() {
        return;
    }
    page.heading("kswapd", "share of its samples");
    let names: Vec<&str> = all.iter().map(|samples| samples.arm).collect();
    let shown = |share: Option<f64>| share.map_or_else(|| NONE.to_owned(), profile::percent);
    let row = |function: &str| {
        (function.to_owned(), all.iter().map(|of| shown(of.share(function))).collect())
    };
    let mut rows: Vec<(String, Vec<String>)> =
        profile::functions(&all).into_iter().map(row).collect();
    rows.push(("its own top ten".to_owned(), all.iter().map(|of| shown(of.top())).collect()));
    rows.push(("samples".to_owned(), all.iter().map(|of| count(of.sum())).collect()));
    beside(page, "function", &names, &rows);
    let text = "A share is of the thread's samples, not of the machine's time.";
    page.prose(2, Role::Quiet, text);
}
