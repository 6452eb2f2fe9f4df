// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Predicted gains: hits, misses, and one that cannot be measured yet.

use std::sync::LazyLock;

use pagewise_model::plan::{
    Applied, Complaint, Expected, GainMeasured, GainOutcome, HIGH_WATERMARKS, HUGETLB_POOL, Ledger,
    LedgerEntry, SWAP_AREA, StepDone, StepVerified, Verified, Watched, ZRAM_RATIO,
};
use pagewise_model::undo::{InForce, Outcome, Recovered, Return, SkippedJournal};
use pagewise_model::{Difference, Evidence, MeasuredPeriods, PeriodsVerdict};

fn evidence() -> Vec<Evidence> {
    let path = "/sys/block/zram1/mm_stat".to_owned();
    vec![Evidence { path, line: Some(1), value: "original 33554432 bytes".to_owned() }]
}

fn measured(step: &str, expected: &Expected, measured: f64) -> GainMeasured {
    let hit = expected.is_hit(measured);
    GainMeasured::new(step, expected, GainOutcome::Measured { measured, hit, evidence: evidence() })
}

fn ratio() -> Expected {
    Expected { interval: [2.9, 3.3], ..Expected::exact(ZRAM_RATIO, 3.1, None, "scan".to_owned()) }
}

pub(crate) fn gains() -> Vec<GainMeasured> {
    let exact = |metric: &str, value: u64, before: Option<u64>| {
        let before = before.map(|before| before as f64);
        Expected::exact(metric, value as f64, before, "a formula".to_owned())
    };
    let why = "the device stores 3.1 MiB; a ratio is measured from 16.0 MiB on".to_owned();
    let watermarks = exact(HIGH_WATERMARKS, 91_750_400, Some(1 << 30));
    vec![
        measured("zram", &ratio(), 3.25),
        GainMeasured::new("zram-new", &ratio(), GainOutcome::NotMeasured { why }),
        measured("hugetlb", &exact(HUGETLB_POOL, 0, Some(1 << 30)), 0.0),
        measured("min-free", &watermarks, 91_754_496.0),
        measured("zram", &exact(SWAP_AREA, (8 << 30) - 4096, None), (4u64 << 30) as f64),
    ]
}

/// A ledger with these measurements, and an earlier one of the first.
pub(crate) fn ledger() -> Ledger {
    let gains = [measured("zram", &ratio(), 2.75)].into_iter().chain(gains());
    let entry = |gain: GainMeasured| match gain.outcome {
        GainOutcome::Measured { measured, hit, evidence } => Some(LedgerEntry {
            time: Some("2026-11-20T14:02:33.25Z".to_owned()),
            boot_id: Some("7f3a".to_owned()),
            kernel: None,
            plan: "0123456789abcdef".to_owned(),
            journal: "3".to_owned(),
            applied_unix_seconds: 1_795_183_353,
            step: gain.step,
            metric: gain.metric,
            predicted: gain.predicted,
            interval: gain.interval,
            before: gain.before,
            measured,
            hit,
            source: gain.source,
            evidence,
        }),
        GainOutcome::NotMeasured { .. } => None,
    };
    Ledger::new(gains.filter_map(entry).collect(), vec![4], true)
}

pub(crate) fn verified() -> Vec<Verified> {
    let step = StepVerified {
        is_superseded: false,
        id: "zram".to_owned(),
        what: "swap on a new zram device".to_owned(),
        differences: Vec::new(),
        skipped: None,
        area: Some("/dev/zram1".to_owned()),
    };
    let (plan, journal) = ("0123456789abcdef".to_owned(), Some("3".to_owned()));
    vec![Verified { plan, journal, steps: vec![step], gains: gains() }]
}

pub(crate) fn applied() -> Applied {
    let (id, what) = ("zram".to_owned(), "swap on a new zram device".to_owned());
    let watched =
        Watched { settle_seconds: 5, some_us: Some(12), full_us: None, oom_kills: 0, refaults: 7 };
    let steps = vec![StepDone { id, what, changed: true }];
    Applied { journal: Some("3".to_owned()), steps, watched: Some(watched) }
}

pub(crate) fn complaints() -> Vec<Complaint> {
    let (what, why) = ("vm.swappiness".to_owned(), "the plan expects 60, found 30".to_owned());
    vec![Complaint { step: Some("swappiness".to_owned()), what, why, next: None }]
}

/// A plan that was undone except for one setting, and a journal that was not read.
pub(crate) fn recovered() -> Vec<Recovered> {
    let returned = |what: &str, outcome| Return { what: what.to_owned(), outcome };
    let found = "100".to_owned();
    let undone = Recovered {
        set_aside: None,
        journal: "/var/lib/pagewise/1.plan".to_owned(),
        id: "1".to_owned(),
        plan: Some("0011223344556677".to_owned()),
        pid: Some(4711),
        earlier_boot: true,
        returns: vec![
            returned("file /etc/sysctl.d/90-pagewise.conf", Outcome::Returned),
            returned("swap on /dev/zram1", Outcome::Gone),
            returned("zram device zram1", Outcome::Kept { why: "it is in use".to_owned() }),
            returned(
                "vm.swappiness",
                Outcome::Conflict { old: "60".to_owned(), ours: "150".to_owned(), found },
            ),
            returned(
                "vm.page-cluster",
                Outcome::Left { why: "read-only".to_owned(), next: Some("run as root".to_owned()) },
            ),
        ],
        damaged_line: Some(7),
        skipped: None,
        unnoted: Some("no space left on device".to_owned()),
    };
    let skipped = SkippedJournal { why: "it is a folder".to_owned(), is_file: false };
    vec![undone.clone(), Recovered { skipped: Some(skipped), plan: None, pid: None, ..undone }]
}

/// The plan, on trial.
pub(crate) fn in_force() -> Vec<InForce> {
    vec![InForce {
        journal: "1".to_owned(),
        applied: true,
        changes: 5,
        partly_undone: false,
        left: vec!["vm.swappiness".to_owned(), "swap on /dev/zram0".to_owned()],
        trial_until: Some(1_790_000_000),
        unix_seconds: 1_780_000_000,
        plan: super::plan(),
    }]
}

/// What `tune` measured before and after a plan that helped.
pub(crate) fn judgement() -> &'static PeriodsVerdict {
    static VERDICT: LazyLock<PeriodsVerdict> = LazyLock::new(|| {
        let measure = |name: &str, unit: &str, decides: bool, [before, after]: [f64; 2]| {
            let ratio = after / before;
            MeasuredPeriods {
                name: name.to_owned(),
                unit: unit.to_owned(),
                higher_is_better: false,
                decides,
                before: Some(before),
                after: Some(after),
                slices: 9,
                after_per_before: Some(ratio),
                interval: Some([ratio * 0.8, ratio * 1.3]),
                difference: if decides { Difference::Better } else { Difference::NotShown },
                why: (!decides).then(|| "the difference is not larger than the noise".to_owned()),
            }
        };
        let missing = MeasuredPeriods {
            before: None,
            after: None,
            slices: 0,
            after_per_before: None,
            interval: None,
            ..measure("pages swapped in", "1/s", false, [1.0, 1.0])
        };
        PeriodsVerdict {
            difference: Difference::Better,
            why: "waiting for memory is better: −88 % (−90 to −84) after the change".to_owned(),
            settle_seconds: 20.0,
            watch_seconds: 45.0,
            measures: vec![
                measure("waiting for memory", "ms/s", true, [412.3, 49.5]),
                measure("pages read again", "1/s", true, [8210.0, 1004.0]),
                measure("user CPU time", "ms/s", false, [640.0, 702.0]),
                missing,
            ],
            unknown: vec![
                "waiting for disks: not known, /proc/pressure is not readable".to_owned(),
            ],
        }
    });
    &VERDICT
}
