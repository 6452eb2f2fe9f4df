// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results of an experiment with several kinds of swap, one of them without swap. The numbers are
//! made up.

use pagewise_model::*;

use super::metric;

const MIB: u64 = 1 << 20;

fn arm(name: &str, swap: Vec<TrialSwap>, swappiness: Option<&str>) -> TrialArm {
    let set =
        |value: &str| TrialSetting { knob: "vm.swappiness".to_owned(), value: value.to_owned() };
    TrialArm {
        name: name.to_owned(),
        settings: swappiness.map(set).into_iter().collect(),
        swap: Some(swap),
        program: None,
    }
}

fn zram(mib: u64, algorithm: &str) -> TrialSwap {
    TrialSwap::Zram {
        size_bytes: mib * MIB,
        algorithm: Some(algorithm.to_owned()),
        mem_limit_bytes: None,
        writeback: None,
        priority: None,
    }
}

fn file(mib: u64) -> TrialSwap {
    TrialSwap::File { size_bytes: mib * MIB, priority: None }
}

/// Values of the runs of an arm: seconds of a steady iteration, MiB of swap, seconds of kswapd,
/// faults.
struct Kind {
    steady: f64,
    swap_mib: f64,
    kswapd: f64,
    faults: f64,
}

fn kind(arm: &str) -> Kind {
    let (steady, swap_mib, kswapd, faults) = match arm {
        "file" => (0.412, 41.0, 0.31, 9_120.0),
        "least" => (1.31, 12.0, 0.92, 31_200.0),
        "tiers" => (0.0815, 88.0, 0.211, 8_830.0),
        _ => (0.0812, 96.0, 0.21, 8_850.0),
    };
    Kind { steady, swap_mib, kswapd, faults }
}

/// Varies the value by up to one percent, the same in every test run.
fn varied(value: f64, number: u32) -> f64 {
    value * (1.0 + f64::from(number * 7 % 11) * 0.002 - 0.01)
}

fn metrics(name: &str) -> Vec<TrialMetric> {
    let (a, b) = (kind("zram"), kind(name));
    let of = |what, (a, b): (f64, f64), verdict| {
        let ratio = b / a;
        metric(what, (a, b), (ratio * 0.98, ratio, ratio * 1.03), verdict)
    };
    let slower = if name == "tiers" { Verdict::Undecided } else { Verdict::Worse };
    let zero = (("swapped-in", "pages", MetricKind::Count), (0.0, 0.0), (1.0, 1.0, 1.0));
    vec![
        of(("steady-iteration", "seconds", MetricKind::Time), (a.steady, b.steady), slower),
        of(("major-faults", "count", MetricKind::Count), (a.faults, b.faults), slower),
        metric(zero.0, zero.1, zero.2, Verdict::Equivalent),
        of(
            ("swap-used", "bytes", MetricKind::Count),
            (a.swap_mib * MIB as f64, b.swap_mib * MIB as f64),
            Verdict::Better,
        ),
        of(("kswapd-cpu", "seconds", MetricKind::Cpu), (a.kswapd, b.kswapd), slower),
        of(("settling", "seconds", MetricKind::Time), (a.steady * 9.0, b.steady * 14.0), slower),
        of(
            ("operations-per-second", "per second", MetricKind::Time),
            (4096.0 / a.steady, 4096.0 / b.steady),
            slower,
        ),
    ]
}

const DESCRIBED: &str = r#"{"kind":"swap","code":"48M","data":"224M"}"#;
pub(crate) const ARMS: [&str; 5] = ["zram", "file", "least", "tiers", "off"];

pub(crate) fn trial() -> Trial {
    let other = |name: &str| TrialComparison {
        arm: name.to_owned(),
        verdict: metrics(name)[0].verdict,
        pairs: 7,
        failed_pairs: 0,
        metrics: metrics(name),
    };
    let none = TrialComparison { pairs: 0, failed_pairs: 3, ..lost() };
    Trial {
        verdict: Verdict::Worse,
        primary: "steady-iteration".to_owned(),
        metrics: metrics("file"),
        pairs: 7,
        failed_pairs: 0,
        planned_pairs: 7,
        looks: Vec::new(),
        arms: vec![
            arm("zram", vec![zram(512, "lz4")], Some("100")),
            arm("file", vec![file(1024)], Some("60")),
            arm("least", vec![file(1024)], Some("0")),
            arm("tiers", vec![zram(100, "zstd"), file(1024)], Some("100")),
            arm("off", Vec::new(), None),
        ],
        others: vec![other("least"), other("tiers"), none],
        program: Program::Workload {
            argv: ["pagewise", "lab", "workload", "--described", DESCRIBED]
                .map(str::to_owned)
                .to_vec(),
            keys: serde_json::from_str(DESCRIBED).expect("an object"),
        },
        dropped: vec![TrialDropped {
            arm: "off".to_owned(),
            why: "killed for lack of memory in 3 of 3 runs".to_owned(),
            failed_runs: 3,
        }],
        notes: vec!["counted for the whole host: swapped-in".to_owned()],
        ..super::trial()
    }
}

/// An arm without a successful run.
fn lost() -> TrialComparison {
    let lacking = TrialMetric {
        a: None,
        b: None,
        b_per_a: None,
        interval: None,
        detectable_effect: None,
        lack: Some("no pair of it is complete".to_owned()),
        ..metrics("off").remove(0)
    };
    let (arm, verdict) = ("off".to_owned(), Verdict::Undecided);
    TrialComparison { arm, verdict, pairs: 0, failed_pairs: 0, metrics: vec![lacking] }
}

pub(crate) const EMULATED: &str =
    "the machine was emulated: neither time nor processor time is judged, only counts";

/// Two arms in a guest: counts are judged, times are not.
pub(crate) fn emulated() -> Trial {
    let whole = trial();
    let mut metrics = whole.metrics.clone();
    metrics.rotate_left(1);
    Trial {
        primary: "major-faults".to_owned(),
        metrics,
        arms: whole.arms[..2].to_vec(),
        others: Vec::new(),
        dropped: Vec::new(),
        clock: Clock::Emulated,
        notes: vec![EMULATED.to_owned()],
        ..whole
    }
}

/// A warm-up of each arm, then seven rounds; the arm without swap is killed three times.
pub(crate) fn runs() -> Vec<TrialRun> {
    let mut all = Vec::new();
    for round in 0..8u32 {
        for (at, arm) in ARMS.into_iter().enumerate().filter(|(_, arm)| *arm != "off" || round < 3)
        {
            let number = u32::try_from(all.len()).unwrap_or(0) + 1;
            all.push(run(arm, number, round, u64::try_from(at).unwrap_or(0)));
        }
    }
    all
}

fn run(arm: &str, number: u32, round: u32, at: u64) -> TrialRun {
    let is_lost = arm == "off";
    let Kind { steady, swap_mib, kswapd, faults } = kind(arm);
    let steady = varied(steady, number);
    let values = [
        ("steady-iteration", steady),
        ("major-faults", varied(faults, number)),
        ("swap-used", swap_mib * MIB as f64),
        ("kswapd-cpu", varied(kswapd, number)),
    ];
    TrialRun {
        number,
        pair: (round > 0).then_some(round),
        arm: arm.to_owned(),
        started_seconds: f64::from(number) * 9.0,
        end: if is_lost { RunEnd::OutOfMemory { kills: 1 } } else { RunEnd::Exited { status: 0 } },
        values: if is_lost {
            [].into()
        } else {
            values.map(|(name, value)| (name.to_owned(), value)).into()
        },
        victims: if is_lost { vec!["pagewise".to_owned()] } else { Vec::new() },
        course: (!is_lost).then(|| course(steady, at)),
        profile: if is_lost { Vec::new() } else { profile(at) },
        ..super::runs().remove(0)
    }
}

/// Iterations that are slow at first, then steady.
fn course(steady: f64, at: u64) -> Course {
    let settling = 4 + 2 * u32::try_from(at).unwrap_or(0);
    let iteration = |index: u32| {
        let left = f64::from(settling.saturating_sub(index)) / f64::from(settling);
        varied(steady, index) * (1.0 + 6.0 * left * left)
    };
    let bounds = (8..=24u32).map(|power| 1u64 << power);
    let middle = 12.0 + at as f64 * 1.5;
    let bucket = |bound: u64| {
        let far = ((bound as f64).log2() - middle).abs();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        let count = (100_000.0 * (-far * far / 3.0).exp()) as u64;
        (bound, count)
    };
    Course {
        iteration_seconds: (0..40).map(iteration).collect(),
        settled_at: Some(settling),
        latency_ns: bounds.map(bucket).filter(|(_, count)| *count > 0).collect(),
    }
}

fn profile(at: u64) -> Vec<(String, u64)> {
    const FUNCTIONS: [&str; 12] = [
        "lzo1x_1_do_compress",
        "page_vma_mapped_walk",
        "shrink_folio_list",
        "folio_referenced_one",
        "isolate_lru_folios",
        "clear_page_erms",
        "zs_malloc",
        "_raw_spin_unlock_irqrestore",
        "scan_swap_map_slots",
        "rmap_walk_anon",
        "xas_load",
        "__zram_bvec_write",
    ];
    let count = |place: u64| (400 + at * 90) / (1 + (place + at * 5) % 12);
    FUNCTIONS.into_iter().zip(0..).map(|(name, place)| (name.to_owned(), count(place))).collect()
}
