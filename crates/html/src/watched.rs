// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of a collapse that was watched: the result, charts over time, and the phases of the
//! program.

use pagewise_model::WatchPhase;

use crate::page::{escape, page};
use pagewise_report::text::machine;
use pagewise_report::{WatchReport, phrases};

use crate::chart;

/// Returns the self-contained HTML page of a watched collapse.
pub fn watched_page(watched: &WatchReport<'_>) -> String {
    let collapse = watched.done.collapse;
    let names: Vec<String> = collapse
        .processes
        .iter()
        .map(|process| format!("{} (pid {})", process.name, process.pid))
        .collect();
    let title = format!("Huge pages of {}", names.join(", "));
    let body = [
        format!("<h1>{}</h1>\n", escape(&title)),
        format_quiet(&machine(watched.done.snapshot).join(" · ")),
        summary(watched),
        pictures(watched),
        table(watched),
    ]
    .concat();
    page(&title, &body)
}

fn format_quiet(text: &str) -> String {
    format!("<p class=\"quiet\">{}</p>\n", escape(text))
}

fn summary(watched: &WatchReport<'_>) -> String {
    let collapse = watched.done.collapse;
    let text = format!(
        "{} blocks were collapsed in {} passes, which took {} of processor time and added {}. Memory \
         was {} before and {} at most, {} were allowed. It ended: {}.",
        collapse.collapsed,
        collapse.passes,
        phrases::format_precise(collapse.cpu_seconds),
        collapse.growth,
        collapse.memory_before,
        collapse.memory_peak,
        collapse.memory_limit,
        collapse.stopped.as_deref().unwrap_or("all was done"),
    );
    format!("<p>{}</p>\n", escape(&text))
}

fn pictures(watched: &WatchReport<'_>) -> String {
    let all = chart::draw_watched(watched.samples, watched.course);
    if all.is_empty() {
        return format_quiet("It ended before there was anything to draw.");
    }
    let counted = watched.counter.map_or_else(
        || "Nobody counts its requests: --counter does.".to_owned(),
        |counter| format!("Requests are counted by: {counter}."),
    );
    let caption = format!(
        "Grey behind the lines: another process, as a fork that saves, maps its memory too. Lines from \
         top to bottom: blocks were collapsed. {counted}"
    );
    let caption = escape(&caption);
    format!("<figure>\n{}\n<figcaption>{caption}</figcaption>\n</figure>\n", all.join("\n"))
}

fn table(watched: &WatchReport<'_>) -> String {
    let used = if watched.course.counts_requests { "CPU for a request" } else { "CPU in a second" };
    let phases = watched.course.phases.iter();
    let rows: String = phases.enumerate().map(|(at, phase)| row(phase, at == 0)).collect();
    format!(
        "<h2>Phases</h2>\n<div class=\"wide\" role=\"group\" tabindex=\"0\" aria-label=\"Phases\"><table><caption>From one collapse or fork to the next</caption>\n<tr><th scope=\"col\">phase</th><th scope=\"col\" class=\"number\">seconds</th>\
         <th scope=\"col\" class=\"number\">in huge pages, at its end</th><th scope=\"col\" class=\"number\">memory, at most</th>\
         <th scope=\"col\" class=\"number\">{used}</th></tr>\n{rows}</table></div>\n"
    )
}

fn row(phase: &WatchPhase, is_first: bool) -> String {
    let none = || "–".to_owned();
    let cells = [
        format!("{:.1} to {:.1}", phase.seconds[0], phase.seconds[1]),
        phase.covered.map_or_else(none, |percent| format!("{percent:.1} %")),
        phase.most.map_or_else(none, |most| most.to_string()),
        phase.used.map_or_else(none, phrases::format_precise),
    ];
    let cells: String =
        cells.iter().map(|cell| format!("<td class=\"number\">{}</td>", escape(cell))).collect();
    format!("<tr><td>{}</td>{cells}</tr>\n", escape(&phase_name(phase, is_first)))
}

fn phase_name(phase: &WatchPhase, is_first: bool) -> String {
    let blocks = phase.collapsed;
    match (is_first, phase.shared, blocks) {
        (true, _, 0) => "before".to_owned(),
        (_, true, 0) => "a fork shares its memory".to_owned(),
        (_, true, _) => format!("{blocks} blocks collapsed, a fork shares others"),
        (_, false, 0) => "the fork is gone".to_owned(),
        (_, false, _) => format!("{blocks} blocks collapsed"),
    }
}

#[cfg(test)]
mod tests {
    use pagewise_model::{Collapse, CollapsedProcess, Cost, Name, Snapshot, WatchCourse};

    use super::*;
    use crate::testing::watched_server;
    use pagewise_report::Collapsed;

    #[test]
    fn the_page_says_what_was_done_and_stays_text() {
        let process = CollapsedProcess { pid: 7, name: Name::from("<b>"), left_out: None };
        let collapse = Collapse { processes: vec![process], collapsed: 350, ..Collapse::default() };
        let snapshot = Snapshot::default();
        let done = Collapsed { snapshot: &snapshot, collapse: &collapse, cost: Cost::default() };
        let (samples, course) = watched_server();
        let counter = Some("count <x>");
        let page = watched_page(&WatchReport { done, samples: &samples, course: &course, counter });
        for text in ["&lt;b&gt; (pid 7)", "350 blocks", "the fork is gone", "count &lt;x&gt;"] {
            assert!(page.contains(text), "{text}: {page}");
        }
        assert_eq!((page.matches("<svg").count(), page.matches("2.00 µs").count()), (3, 5));
        let course = WatchCourse::default();
        let empty =
            watched_page(&WatchReport { done, samples: &[], course: &course, counter: None });
        assert!(empty.contains("before there was anything"), "{empty}");
    }
}
