// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The HTML page of every recording: small and self-contained. The first screen of the report: enough.

use pagewise_decide::{diagnose, judge};
use pagewise_model::{Actor, Cost, ownership};
use pagewise_report::Answer;
use pagewise_report::text::{self, TextStyle};
use pagewise_report::view::View;

use crate::scene::{Scene, slugs};

/// Maximum bytes of a page.
const MOST: usize = 400 << 10;

fn page(scene: &Scene) -> String {
    let interval = scene.replay();
    let (findings, verdict) = (diagnose(&interval), judge(&interval));
    let owners = ownership(&interval.end);
    let answer = Answer {
        interval: &interval,
        verdict: &verdict,
        findings: &findings,
        hidden: 0,
        owners: &owners,
        estimates: &[],
        cost: Cost::default(),
    };
    pagewise_html::report_page(&answer, &View::default())
}

#[test]
fn every_recording_has_a_page_of_at_most_400_kib_that_needs_nothing_else() {
    let mut pages = 0;
    for name in slugs() {
        let page = page(&Scene::load(&name));
        assert!(page.len() <= MOST, "{name}: {} bytes", page.len());
        for outside in ["<script", "http:", "https:", "src=", "@import", "url("] {
            assert!(!page.contains(outside), "{name}: {outside}");
        }
        assert!(page.contains("id=\"memory\"") && page.contains("id=\"zones\""), "{name}");
        pages += 1;
    }
    assert!(pages > 30, "only {pages} recordings");
}

/// Rows that a terminal needs for these lines.
fn rows(text: &str, width: usize) -> usize {
    text.lines().map(|line| text::width(line).div_ceil(width).max(1)).sum()
}

/// The text in one line: continued commands and comments are joined, and indents become one space.
fn joined(text: &str) -> String {
    let words = text.split_whitespace().filter(|word| !matches!(*word, "\\" | "#"));
    words.collect::<Vec<&str>>().join(" ")
}

/// The screen that is enough at 3 a.m.: the verdict, the actor of the first finding and its first
/// command, which can be pasted, fit on a terminal of 24 rows.
#[test]
fn the_first_screen_of_every_recording_has_verdict_actor_and_command_in_24_rows() {
    let (mut screens, mut actors, mut commands) = (0, 0, 0);
    for name in slugs() {
        let interval = Scene::load(&name).replay();
        let (findings, verdict) = (diagnose(&interval), judge(&interval));
        let answer = Answer {
            interval: &interval,
            verdict: &verdict,
            findings: &findings,
            hidden: 0,
            owners: &[],
            estimates: &[],
            cost: Cost::default(),
        };
        for width in [80, 100] {
            let view = View { first_screen_only: true, ..View::default() };
            let look = TextStyle { width, colour: false };
            let screen = text::report_in_view(&answer, &view, look);
            assert!(rows(&screen, width) <= 24, "{name}, {width} columns:\n{screen}");
            let whole = text::report_in_view(&answer, &View::default(), look);
            let (above, _) = screen.split_once("\n  more  ").expect("the last line of the screen");
            assert!(whole.starts_with(above), "{name}");
            let screen = joined(&screen);
            let (first_sentence, _) = verdict.line.split_once(". ").unwrap_or((&verdict.line, ""));
            assert!(screen.contains(first_sentence), "{name}: {screen}");
            if let Some(finding) = findings.first() {
                let command = finding.next.first().expect("each finding has a command");
                // the undo has a line of its own
                let pasted = joined(command).replace("; undo with ", " undo with ");
                assert!(screen.contains(&pasted), "{name}: {command}\n{screen}");
                commands += 1;
            }
            if let Some(actor) = Actor::find_first(&findings, &verdict, &interval.end) {
                assert!(screen.contains(actor.name.as_str()), "{name}: {actor:?}\n{screen}");
                actors += 1;
            }
            screens += 1;
        }
    }
    assert!(screens > 60 && actors > 10 && commands > 40, "{screens} {actors} {commands}");
}
