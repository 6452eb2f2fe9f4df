// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of `fleet report`: what the terminal shows.

use pagewise_model::FleetReport;
use pagewise_report::text;

use crate::blocks::Writer;
use crate::page::{escape, page};

const TITLE: &str = "Memory of many machines";

/// Returns the self-contained HTML page of `fleet report`.
pub fn fleet_page(report: &FleetReport) -> String {
    let mut writer = Writer::of_page(TITLE);
    writer.write_blocks(&text::fleet_blocks(report));
    let head = format!("<header><h1>{}</h1></header>\n", escape(TITLE));
    page(TITLE, &(head + &writer.finish()))
}
