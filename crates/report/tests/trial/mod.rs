// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results of `trial`: each verdict, and runs that ended in several ways. The numbers are made up.

#![allow(dead_code, reason = "each test program uses a part of this")]
#![allow(clippy::allow_attributes, reason = "each test program uses a part of this")]

use pagewise_model::*;

pub(crate) mod wide;

fn arm(name: &str, value: &str) -> TrialArm {
    let setting = TrialSetting { knob: "vm.swappiness".to_owned(), value: value.to_owned() };
    TrialArm { name: name.to_owned(), settings: vec![setting], ..TrialArm::default() }
}

fn metric(
    (name, unit, kind): (&str, &str, MetricKind),
    (a, b): (f64, f64),
    (low, ratio, high): (f64, f64, f64),
    verdict: Verdict,
) -> TrialMetric {
    TrialMetric {
        name: name.to_owned(),
        unit: unit.to_owned(),
        kind,
        higher_is_better: false,
        host_wide: name == "swapped-in",
        a: Some(a),
        b: Some(b),
        b_per_a: Some(ratio),
        interval: Some([low, high]),
        verdict,
        more_pairs: None,
        detectable_effect: Some(0.031),
        outliers: if name == "time" { vec![7] } else { Vec::new() },
        lack: None,
    }
}

const TIME: (&str, &str, MetricKind) = ("time", "seconds", MetricKind::Time);

pub(crate) fn trial() -> Trial {
    let count = MetricKind::Count;
    let metrics = vec![
        metric(TIME, (12.31, 13.06), (1.04, 1.061, 1.083), Verdict::Worse),
        metric(
            ("major-faults", "count", count),
            (1520.0, 1517.0),
            (0.985, 0.998, 1.01),
            Verdict::Equivalent,
        ),
        metric(("swapped-in", "pages", count), (0.0, 0.0), (1.0, 1.0, 1.0), Verdict::Equivalent),
        metric(("scanned", "pages", count), (2.0, 31_000.0), (800.0, 5000.0, 9e4), Verdict::Worse),
        metric(
            ("peak-memory", "bytes", count),
            (268_435_456.0, 201_326_592.0),
            (0.747, 0.75, 0.754),
            Verdict::Better,
        ),
    ];
    Trial {
        verdict: Verdict::Worse,
        primary: "time".to_owned(),
        metrics,
        pairs: 9,
        failed_pairs: 1,
        planned_pairs: 18,
        looks: vec![
            TrialLook { pairs: 9, bound: Some(1) },
            TrialLook { pairs: 18, bound: Some(39) },
        ],
        arms: vec![arm("a", "60"), arm("b", "100")],
        others: Vec::new(),
        program: Program::from_words(&["make", "-j2"]),
        clock: Clock::Real,
        dropped: Vec::new(),
        memory_limit_bytes: Some(256 << 20),
        min_effect: 0.02,
        seed: 4711,
        warm_up_runs: 5,
        forecast: None,
        noise: TrialNoise {
            others_processors: Some(0.4),
            stolen_processors: Some(0.0),
            slept_seconds: 0.0,
            run_spread: Some(0.014),
        },
        notes: vec!["counted for the whole host: swapped-in".to_owned()],
        stopped: None,
        seconds: 301.0,
    }
}

pub(crate) fn undecided() -> Trial {
    let mut time = metric(TIME, (12.31, 12.42), (0.985, 1.009, 1.031), Verdict::Undecided);
    time.more_pairs = Some(14);
    let program = Program::from_words(&["sh", "-c", "make | tee log"]);
    let arms = vec![
        TrialArm { name: "a".to_owned(), settings: Vec::new(), ..TrialArm::default() },
        arm("b", "100"),
    ];
    let stopped = Some("only 7 of 9 pairs were run".to_owned());
    let (verdict, metrics) = (Verdict::Undecided, vec![time]);
    Trial { verdict, metrics, pairs: 7, planned_pairs: 9, arms, program, stopped, ..trial() }
}

pub(crate) fn nothing() -> Trial {
    let lacking = TrialMetric {
        a: None,
        b: None,
        b_per_a: None,
        interval: None,
        detectable_effect: None,
        lack: Some("no pair of it is complete".to_owned()),
        ..metric(TIME, (0.0, 0.0), (1.0, 1.0, 1.0), Verdict::Undecided)
    };
    let stopped = Some("only 0 of 7 pairs were run".to_owned());
    let verdict = Verdict::Undecided;
    Trial { verdict, metrics: vec![lacking], pairs: 0, planned_pairs: 7, stopped, ..trial() }
}

/// Five warm-up runs, then pairs that drift; the last one failed.
pub(crate) fn runs() -> Vec<TrialRun> {
    let run = |number: u32| {
        let is_b = number % 2 == 1;
        let time = if is_b { 13.06 } else { 12.31 } + f64::from(number) * 0.03;
        let values = [("time", time), ("scanned", if is_b { 31_000.0 } else { 2.0 })];
        let end = match number {
            19 => RunEnd::OutOfMemory { kills: 1 },
            _ => RunEnd::Exited { status: 0 },
        };
        let arm = if is_b { "b" } else { "a" };
        TrialRun {
            started_seconds: f64::from(number) * 14.0,
            end,
            values: values.map(|(name, value)| (name.to_owned(), value)).into(),
            host_wide: vec!["swapped-in".to_owned()],
            others_cpu_seconds: Some(4.9),
            ..TrialRun::new_unstarted(number, (number > 5).then(|| (number - 4) / 2), arm)
        }
    };
    (1..=19).map(run).collect()
}

pub(crate) fn selftest() -> SelfTest {
    let metric = |name: &str, false_alarms, spread: f64| SelfTestMetric {
        name: name.to_owned(),
        false_alarms,
        run_spread: Some(spread),
        detectable_with_7: Some(spread * 2.0),
        detectable_with_20: Some(spread),
    };
    SelfTest {
        trials: 12,
        pairs: 7,
        metrics: vec![metric("time", 1, 0.021), metric("cpu", 0, 0.013)],
        sound: true,
        noise: trial().noise,
        stopped: false,
        seconds: 31.4,
    }
}

pub(crate) fn replicated() -> Vec<Replicated> {
    let of = |agreement, first, second: Option<&TrialMetric>| Replicated {
        first,
        second: second.cloned().unwrap_or_else(|| nothing().metrics[0].clone()),
        second_per_first: Some(0.951),
        interval: Some([0.92, 0.98]),
        agreement,
    };
    let (trial, other) = (trial(), undecided());
    vec![
        of(Agreement::Differ, trial.metrics[0].clone(), Some(&other.metrics[0])),
        of(Agreement::Agree, trial.metrics[1].clone(), Some(&trial.metrics[1])),
        of(Agreement::Unknown, trial.metrics[3].clone(), None),
    ]
}
