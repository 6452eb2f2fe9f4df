// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Feeds the readers of evidence, of guests' words and of experiments whatever somebody thinks of.
//!
//! Evidence is three files in one input, split at bytes `0xFF`, which no text holds: what was run, the
//! runs, and the summary, which may be missing.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use pagewise_guest::wire::{self, Event, How, Stream};
use pagewise_model::{Clock, RunEnd, Trial, TrialArm, TrialRun};
use pagewise_stats::{Experiment, Metric, judge};
use serde_json::Value;

use crate::experiment::{Described, Recorded};
use crate::library::{self, BUILT_IN, Choice, Lines, Told};

const BETWEEN: u8 = 0xff;

/// A reader, by name, with an input to begin with.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// What it reads.
    pub name: &'static str,
    /// Reads it. Whatever it holds, this returns.
    pub run: fn(&[u8]),
    /// Something that it understands.
    pub seed: fn() -> Vec<u8>,
}

/// All of them.
pub static TARGETS: &[Target] = &[
    Target { name: "evidence", run: |input| drop(black_box(judged(input))), seed: evidence },
    Target { name: "guest-events", run: events, seed: said },
    Target { name: "experiment", run: experiment, seed: built_in },
];

/// A folder of evidence, and what its runs say; nothing where it cannot be read.
#[must_use]
pub fn judged(input: &[u8]) -> Option<(Recorded, Trial, Vec<String>)> {
    let mut parts = input.split(|&byte| byte == BETWEEN);
    let (described, runs) = (parts.next()?, parts.next().unwrap_or_default());
    let recorded = Recorded::parse(Path::new("fuzz"), described, runs, parts.next()).ok()?;
    let trial = judge(&recorded.experiment, &recorded.runs);
    let differences = recorded.differences(&trial);
    Some((recorded, trial, differences))
}

/// Lines as the runner hears them: what the command in the guest prints is heard by the conductor.
fn events(input: &[u8]) {
    let mut lines = Lines::default();
    for line in input.split(|&byte| byte == b'\n') {
        match wire::event(line) {
            Some(Event::Output { bytes, .. } | Event::File { bytes, .. }) => {
                let bytes = wire::unpacked(&bytes).unwrap_or_default();
                black_box(lines.add(&bytes));
            }
            other => drop(black_box(other)),
        }
    }
    // and as if each line were one that the command prints
    black_box(lines.add(input));
}

fn experiment(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(file) = library::File::read("fuzz", "fuzz", text) else { return };
    black_box((file.about(), file.claim(), file.place()));
    for preview in [false, true] {
        let choice = Choice { preview, seed: 1, ..Choice::default() };
        if let Ok(cells) = library::cells(&file, &choice, Path::new("/proc/self/exe")) {
            let told = |cell| (library::runs(cell), library::seconds(cell));
            black_box(cells.iter().map(told).collect::<Vec<_>>());
        }
    }
}

/// What a short trial leaves.
#[must_use]
pub fn evidence() -> Vec<u8> {
    let arm = |name: &str| TrialArm { name: name.to_owned(), ..TrialArm::default() };
    let experiment = Experiment {
        command: vec!["true".to_owned()],
        arms: vec![arm("a"), arm("b")],
        metrics: vec![Metric::time()],
        pairs: 7,
        min_effect: 0.02,
        warm_up: 0,
        seed: 1,
        memory_limit_bytes: None,
        deadline: Duration::from_secs(60),
        clock: Clock::Real,
        profile: false,
    };
    let run = |number: u32| TrialRun {
        started_seconds: f64::from(number),
        end: RunEnd::Exited { status: 0 },
        values: BTreeMap::from([
            ("time".to_owned(), 1.0 + f64::from(number % 3)),
            ("cpu".to_owned(), 0.5),
        ]),
        ..TrialRun::not_yet(number, Some(number.div_ceil(2)), ["b", "a"][number as usize % 2])
    };
    let runs: Vec<TrialRun> = (1..=14).map(run).collect();
    let trial = judge(&experiment, &runs);
    let described = Described::new(experiment, Value::Null);
    let line = |run| serde_json::to_vec(run).unwrap_or_default();
    let lines: Vec<u8> =
        runs.iter().map(line).flat_map(|line| [line, vec![b'\n']].concat()).collect();
    let parts = [
        serde_json::to_vec(&described).unwrap_or_default(),
        lines,
        serde_json::to_vec(&trial).unwrap_or_default(),
    ];
    parts.join(&BETWEEN)
}

fn said() -> Vec<u8> {
    let told = Told::Trouble { what: "no zram".to_owned(), next: None }.line();
    let events = [
        Event::Up { release: "6.12.1".to_owned() },
        Event::Started,
        Event::Output { stream: Stream::Out, bytes: wire::packed(told.as_bytes()) },
        Event::File { path: "a/b".to_owned(), bytes: wire::packed(b"x") },
        Event::Trouble { what: "no clock".to_owned() },
        Event::Ended {
            how: How::Exited(0),
            left: 0,
            oom_kills: 1,
            ticks: Some(1),
            idle_milliseconds: 2,
            milliseconds: 3,
        },
        Event::Done,
    ];
    let line = |event: &Event| serde_json::to_vec(event).unwrap_or_default();
    events.iter().flat_map(|event| [line(event), vec![b'\n']].concat()).collect()
}

fn built_in() -> Vec<u8> {
    BUILT_IN.first().map(|(_, text)| text.as_bytes().to_vec()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_is_understood() {
        for target in TARGETS {
            (target.run)(&(target.seed)());
        }
        let (recorded, trial, differences) = judged(&evidence()).unwrap();
        assert_eq!((recorded.runs.len(), trial.pairs), (14, 7));
        assert_eq!(differences, [""; 0]);
        assert!(said().split(|&byte| byte == b'\n').filter_map(wire::event).count() == 7);
        let text = String::from_utf8(built_in()).unwrap();
        let file = library::File::read("x", "x", &text).unwrap();
        assert!(!library::cells(&file, &Choice::default(), Path::new("/")).unwrap().is_empty());
    }
}
