// SPDX-License-Identifier: Apache-2.0 OR MIT
//! HTML pages of `doctor`, `scan`, `bench` and `thp`: a chart, and the same content as in the
//! terminal.

use pagewise_model::Snapshot;
use pagewise_report::text::{self, Block};
use pagewise_report::{Answer, Benched, HugeSeen, ScanReport};

use crate::blocks::Writer;
use crate::page::page;
use crate::report::{findings, footer, head, verdict};
use crate::{chart, figure};

/// Returns the page of `doctor`, with the complete findings. `ignored` is the number of findings
/// whose rules the user ignores.
pub fn doctor_page(answer: &Answer<'_>, ignored: usize) -> String {
    let title = "Findings about memory";
    let findings = match answer.findings {
        [] => String::new(),
        some => format!("<h2>Findings</h2>\n{}", findings(some)),
    };
    let body = [
        head(title, &answer.interval.end),
        verdict(answer, &text::doctor_verdict(answer, ignored)),
        findings,
        footer("doctor", answer),
    ];
    page(title, &body.concat())
}

/// Returns the page of `scan`: estimates of compressed memory.
pub fn scan_page(scanned: &ScanReport<'_>) -> String {
    let chart = scanned.estimates.first().and_then(figure::draw_ratios);
    complete_page(
        "What compressing would save",
        scanned.snapshot,
        chart,
        &text::scan_blocks(scanned),
    )
}

/// Returns the page of `bench`: the cost of each algorithm.
pub fn bench_page(benched: &Benched<'_>) -> String {
    let title = format!("{}: read time and ratio", benched.benchmark.input.name);
    let chart = chart::draw_pareto(&title, &benched.benchmark.pareto);
    complete_page("Costs of compressed swap", benched.snapshot, chart, &text::bench_blocks(benched))
}

/// Returns the page of `thp`: which memory is in huge pages.
pub fn thp_page(seen: &HugeSeen<'_>) -> String {
    let snapshot = &seen.interval.end;
    let chart = figure::draw_huge_pages(&snapshot.memory);
    complete_page("Huge pages", snapshot, chart, &text::thp_blocks(seen))
}

fn complete_page(
    title: &str,
    snapshot: &Snapshot,
    chart: Option<String>,
    blocks: &[Block],
) -> String {
    let mut writer = Writer::of_page(title);
    writer.write_figure(&chart.unwrap_or_default());
    writer.write_blocks(blocks);
    page(title, &(head(title, snapshot) + &writer.finish()))
}
