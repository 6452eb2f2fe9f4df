// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise pin`: the locked code, file by file.

use pagewise_model::PinnedCode;

use super::kit::{Line, Page, Role};
use super::table::{Cell, Column, Table};
use super::words::plural;

/// Maximum number of files with locked code that are listed.
const FILES: usize = 12;

pub(super) fn print(page: &mut Page, pinned: &PinnedCode) {
    let start = Line::default().span(Role::Strong, "pagewise pin");
    let processes = plural(pinned.processes.len() as u64, "process");
    let of = format!("{} of {} of code in use are locked", pinned.locked, pinned.in_use);
    page.hang_items(start, 2, &[processes, of, format!("at most {}", pinned.budget)]);
    page.gap();
    let columns = vec![Column::path("file"), Column::right("in use"), Column::right("locked")];
    let mut table = Table::new(2, columns);
    for file in pinned.files.iter().take(FILES) {
        let (in_use, locked) = (file.in_use.to_string(), file.locked.to_string());
        table.row([file.name.as_str().to_owned(), in_use, locked].map(Cell::from).into());
    }
    table.print(page);
    let more = pinned.files.len().saturating_sub(FILES);
    if more > 0 {
        page.prose(2, Role::Quiet, &format!("and {}", plural(more as u64, "smaller file")));
    }
    if let Some(why) = &pinned.left_out {
        page.fact("Not locked", &format!("some of it: {why}"));
    }
    if pinned.files.is_empty() {
        page.prose(2, Role::Plain, "These processes have no code of files mapped.");
    }
}
