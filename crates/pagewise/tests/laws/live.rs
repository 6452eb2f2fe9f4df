// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The live view of every recorded host, in windows of several sizes.

use pagewise_model::{LiveProcess, LiveSample};
use pagewise_report::live::{LiveFrame, LiveLine, LiveView, LiveWindow};
use pagewise_report::text::{self, Role};
use pagewise_testkit::scene::{interval, recording, slugs};

fn texts(lines: &[LiveLine]) -> Vec<String> {
    lines.iter().map(LiveLine::text).collect()
}

fn has_roles(lines: &[LiveLine]) -> bool {
    lines.iter().flat_map(|line| &line.spans).any(|span| span.role != Role::Plain)
}

#[test]
fn frames_of_every_host_fit_their_window_and_say_the_same_with_colours() {
    for slug in slugs() {
        let interval = interval(&pagewise_observe::open(&recording(&slug)).unwrap());
        let verdict = pagewise_decide::judge(&interval);
        let live = |process: &pagewise_model::Process| LiveProcess {
            pid: process.pid,
            name: process.name.clone(),
            resident: process.resident().unwrap_or_default(),
            swap: process.swap.get(),
            ..LiveProcess::default()
        };
        let processes = interval.end.processes.list.iter().map(live).collect();
        let sample = LiveSample { processes, ..LiveSample::default() };
        let frame = LiveFrame {
            interval: &interval,
            verdict: &verdict,
            sample: &sample,
            pressure: &[0.0, 3.0, 100.0],
            pressure_seconds: 3.0,
            kills: Some(0),
            view: &LiveView::default(),
            replay: None,
        };
        for (width, height) in [(40, 10), (80, 24), (120, 40)] {
            let window = |colour| LiveWindow { width, height, colour, unicode: true };
            let uncoloured = text::live(&frame, window(false));
            assert!(!has_roles(&uncoloured), "{slug}");
            let lines = texts(&uncoloured);
            assert_eq!(lines.len(), height, "{slug}");
            for line in &lines {
                assert!(text::width(line) <= width, "{slug}: {line:?}");
            }
            let coloured = text::live(&frame, window(true));
            assert!(has_roles(&coloured), "{slug}");
            assert_eq!(texts(&coloured), lines, "{slug}");
            let said = lines.concat();
            assert!(said.contains("Memory") && said.contains("Pressure"), "{slug}: {said}");
            let first: String =
                verdict.line.split_whitespace().take(3).collect::<Vec<_>>().join(" ");
            assert!(lines[0].starts_with(&first), "{slug}: {:?}", lines[0]);
        }
    }
}
