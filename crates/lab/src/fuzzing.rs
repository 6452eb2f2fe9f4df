// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzz targets: the parsers of evidence, of messages from guests and of experiment files.
//!
//! An input for evidence holds three files, separated by the byte `0xFF`, which is not valid in
//! text: `experiment.json`, the runs, and the summary, which may be missing.
//!
//! A target limits the length of inputs: all seeds fit, and longer inputs would only repeat what
//! shorter ones contain. Limits on lengths (lines, texts, numbers of runs) have unit tests instead.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use pagewise_guest::wire::{Event, JobExit, Stream};
use pagewise_model::{
    Clock, Course, Program, Refusal, RunEnd, Trial, TrialArm, TrialForecast, TrialRun, TrialSetting,
};
use pagewise_stats::{Experiment, Metric, judge};
use serde_json::Value;

use crate::experiment::{Described, Recorded, TrialEvent};
use crate::library::{self, BUILT_IN, Choice};

const BETWEEN: u8 = 0xff;

/// A parser with its name and seeds.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Name of what the target parses.
    pub name: &'static str,
    /// Parses the input. The function must return without a panic, whatever the input is.
    pub run: fn(&[u8]),
    /// Makes valid inputs from which fuzzing starts.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Maximum length of an input, in bytes.
    pub longest: usize,
}

/// All fuzz targets.
pub static TARGETS: &[Target] = &[
    Target {
        name: "evidence",
        run: |input| drop(black_box(judge_evidence(input))),
        seeds: evidence_seeds,
        longest: LONGEST_EVIDENCE,
    },
    Target { name: "guest-events", run: read_events, seeds: event_streams, longest: 1536 },
    Target { name: "experiment", run: read_experiment, seeds: built_in, longest: 3072 },
];

/// Maximum length of an input of evidence, in bytes.
pub const LONGEST_EVIDENCE: usize = 4096;

/// Parses and judges evidence: returns it with the verdict and the differences from its summary;
/// `None` if it is invalid.
#[must_use]
pub fn judge_evidence(input: &[u8]) -> Option<(Recorded, Trial, Vec<String>)> {
    let mut parts = input.split(|&byte| byte == BETWEEN);
    let (described, runs) = (parts.next()?, parts.next().unwrap_or_default());
    let recorded = Recorded::parse(Path::new("fuzz"), described, runs, parts.next()).ok()?;
    let trial = judge(&recorded.experiment, &recorded.runs);
    let differences = recorded.differences(&trial);
    Some((recorded, trial, differences))
}

/// Parses lines as the runner receives them: messages of the job are parsed as events of the
/// conductor.
fn read_events(input: &[u8]) {
    for line in input.split(|&byte| byte == b'\n') {
        match Event::decode(line) {
            Some(Event::Message(message)) => drop(black_box(TrialEvent::from_message(&message))),
            other => drop(black_box(other)),
        }
        // the line is also parsed as a message without its frame, because a mutated frame rarely
        // has the right length
        black_box(TrialEvent::from_message(line));
    }
}

fn read_experiment(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(file) = library::File::read("fuzz", "fuzz", text) else { return };
    black_box((file.about(), file.claim(), file.place()));
    for preview in [false, true] {
        let choice = Choice { preview, seed: 1, ..Choice::default() };
        if let Ok(cells) = library::cells(&file, &choice, Path::new("/proc/self/exe")) {
            let describe =
                |cell: &library::Cell| (cell.experiment.runs(), library::estimate_seconds(cell));
            black_box(cells.iter().map(describe).collect::<Vec<_>>());
        }
    }
}

/// An input with the evidence of a short trial.
#[must_use]
pub fn evidence() -> Vec<u8> {
    files(&trial(&["a", "b"]), &runs(&["a", "b"], 7), true)
}

/// Seeds for evidence: a trial that was killed before its summary, short trials with every field of
/// a run, and one with three arms of which one was dropped.
#[must_use]
pub fn evidence_seeds() -> Vec<Vec<u8>> {
    let two = trial(&["a", "b"]);
    let mut killed = runs(&["a", "b"], 2);
    killed[2].end = RunEnd::OutOfMemory { kills: 1 };
    killed[2].victims = vec!["java".to_owned()];
    killed[3] = TrialRun {
        refused: Some("no zram".to_owned()),
        ..TrialRun::new_unstarted(4, Some(2), "b")
    };
    let mut detailed = runs(&["a", "b"], 2);
    for run in &mut detailed {
        run.host_wide = vec!["cpu".to_owned()];
        run.profile = vec![("shrink_folio_list".to_owned(), 3)];
        run.course = Some(Course {
            iteration_seconds: vec![2.0, 1.0, 1.0],
            settled_at: Some(1),
            latency_ns: vec![(1000, 9), (2000, 1)],
        });
    }
    let mut three = trial(&["a", "b", "c"]);
    three.arms[1].settings =
        vec![TrialSetting { knob: "vm.swappiness".to_owned(), value: "10".to_owned() }];
    let mut of_three = runs(&["a", "b", "c"], 3);
    for run in of_three.iter_mut().filter(|run| run.arm == "c") {
        run.end = RunEnd::TimedOut;
    }
    vec![
        files(&two, &runs(&["a", "b"], 7), false),
        files(&two, &killed, true),
        files(
            &Experiment { profile: true, counted_from: Some("steady".to_owned()), ..two },
            &detailed,
            false,
        ),
        files(&three, &of_three, false),
    ]
}

pub(crate) fn trial(arms: &[&str]) -> Experiment {
    let arm = |name: &&str| TrialArm { name: (*name).to_owned(), ..TrialArm::default() };
    Experiment {
        program: Program::from_words(&["true"]),
        arms: arms.iter().map(arm).collect(),
        metrics: vec![Metric::new_time()],
        pairs: 7,
        min_effect: 0.02,
        warm_up: 0,
        seed: 1,
        memory_limit_bytes: None,
        deadline: Duration::from_secs(60),
        clock: Clock::Real,
        profile: false,
        counted_from: None,
        neighbour: None,
    }
}

/// Runs of a trial: in each round, every arm runs once.
fn runs(arms: &[&str], rounds: u32) -> Vec<TrialRun> {
    let of_a_round = |round: u32| arms.iter().map(move |arm| (round, *arm));
    let run = |(number, (round, arm)): (u32, (u32, &str))| TrialRun {
        started_seconds: f64::from(number),
        end: RunEnd::Exited { status: 0 },
        values: BTreeMap::from([
            ("time".to_owned(), 1.0 + f64::from(number % 3)),
            ("cpu".to_owned(), 0.5),
        ]),
        ..TrialRun::new_unstarted(number, Some(round), arm)
    };
    (1..).zip((1..=rounds).flat_map(of_a_round)).map(run).collect()
}

fn files(experiment: &Experiment, runs: &[TrialRun], with_summary: bool) -> Vec<u8> {
    let described = Described::new(experiment.clone(), Value::Null);
    let line = |run| [serde_json::to_vec(run).unwrap_or_default(), vec![b'\n']].concat();
    let mut files = vec![
        serde_json::to_vec(&described).unwrap_or_default(),
        runs.iter().flat_map(line).collect(),
    ];
    if with_summary {
        files.push(serde_json::to_vec(&judge(experiment, runs)).unwrap_or_default());
    }
    files.join(&BETWEEN)
}

/// One event of each kind that a guest sends.
fn guest_events() -> [Event; 9] {
    let trouble = TrialEvent::Trouble(Refusal::new("zram", "no such module"));
    [
        Event::Up { release: "6.12.1".to_owned() },
        Event::Started,
        Event::Output { stream: Stream::Out, bytes: b"a\\b\n".to_vec() },
        Event::Output { stream: Stream::Err, bytes: b"\0\xff\r\n".to_vec() },
        Event::Message(trouble.to_message()),
        Event::File { path: "a/b".to_owned(), bytes: b"x".to_vec() },
        Event::Trouble { what: "no clock".to_owned() },
        Event::Ended {
            how: JobExit::Exited(0),
            left: 0,
            oom_kills: 1,
            ticks: Some(1),
            idle_milliseconds: 2,
            milliseconds: 3,
        },
        Event::Done,
    ]
}

fn conductor_messages() -> [Vec<u8>; 4] {
    [
        TrialEvent::Begins { arm: "a".to_owned(), pair: None, run: 1, of: 3 },
        TrialEvent::Ran(Box::new(TrialRun::new_unstarted(1, None, "a"))),
        TrialEvent::Forecast(Some(TrialForecast {
            run_spread: 0.01,
            detectable_effect: 0.02,
            pairs_for_min_effect: 9,
            seconds: 60.0,
        })),
        TrialEvent::Done,
    ]
    .map(|event| event.to_message())
}

/// Seeds for events: frames of a guest, messages of its conductor, and those messages as frames.
fn event_streams() -> Vec<Vec<u8>> {
    let frames = guest_events().map(|event| event.encode()).concat();
    let messages = conductor_messages();
    let sent = messages.clone().map(|message| Event::Message(message).encode());
    vec![frames, messages.join(&b'\n'), sent.concat()]
}

fn built_in() -> Vec<Vec<u8>> {
    BUILT_IN.iter().map(|(_, text)| text.as_bytes().to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_is_understood_and_fits() {
        for target in TARGETS {
            for seed in (target.seeds)() {
                assert!(seed.len() <= target.longest, "{}: {}", target.name, seed.len());
                (target.run)(&seed);
            }
        }
        for seed in evidence_seeds() {
            let (recorded, trial, differences) = judge_evidence(&seed).unwrap();
            assert!(!recorded.runs.is_empty() && differences.is_empty(), "{trial:?}");
        }
        let (recorded, trial, differences) = judge_evidence(&evidence()).unwrap();
        assert_eq!((recorded.runs.len(), trial.pairs), (14, 7));
        assert_eq!(differences, [""; 0]);
        let [frames, messages, sent] = event_streams().try_into().unwrap();
        let lines = |stream: Vec<u8>| -> Vec<Vec<u8>> {
            stream.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect()
        };
        let decoded =
            |stream| lines(stream).iter().filter_map(|line| Event::decode(line)).collect();
        let found: Vec<Event> = decoded(frames);
        assert_eq!(found, guest_events());
        let parse = |message: &Vec<u8>| TrialEvent::from_message(message);
        assert_eq!(lines(messages).iter().filter_map(parse).count(), 4);
        assert_eq!(decoded(sent), conductor_messages().map(Event::Message));
        for text in built_in() {
            let text = String::from_utf8(text).unwrap();
            let file = library::File::read("x", "x", &text).unwrap();
            assert!(!library::cells(&file, &Choice::default(), Path::new("/")).unwrap().is_empty());
        }
    }

    #[test]
    fn the_seeds_of_evidence_hold_an_arm_given_up_and_one_out_of_memory() {
        let judged: Vec<_> =
            evidence_seeds().iter().map(|seed| judge_evidence(seed).unwrap()).collect();
        assert!(judged.iter().any(|(_, trial, _)| !trial.dropped.is_empty()));
        assert!(judged.iter().any(|(_, trial, _)| trial.metrics[0].interval.is_some()));
        let ends = judged.iter().flat_map(|(recorded, ..)| &recorded.runs).map(|run| run.end);
        assert!(ends.filter(|end| matches!(end, RunEnd::OutOfMemory { .. })).count() == 1);
    }
}
