// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Findings from the real readers: recorded hosts, changed file by file, replayed and diagnosed.
//!
//! Each rule fires for each of its reasons, and not on a near miss; and the evidence of each
//! finding is in the files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use crate::cases::{Case, Near};
use crate::program::run_in;
use crate::scene::Scene;
use pagewise_decide::{RULES, diagnose};
use pagewise_model::{Evidence, Finding, Severity};

type Ids = BTreeSet<&'static str>;

/// The expected findings of each recording, in this order.
const EXPECTED: [(&str, &[&str]); 37] = [
    (
        "debian-bookworm-6.1-x86_64-1g-thp",
        &["hugetlb-unused", "zram-unused", "thp-coverage", "khugepaged-starves", "mglru-off"],
    ),
    (
        "debian-bookworm-6.1-x86_64-256m-oom-host",
        &["oom-kills", "cache-not-cache", "zram-unused", "mglru-off"],
    ),
    ("debian-bookworm-6.1-x86_64-256m-oom-group", &["oom-kills", "zram-unused", "mglru-off"]),
    ("debian-bookworm-6.1-x86_64-256m-oom-limit", &["oom-kills", "zram-unused", "mglru-off"]),
    ("debian-bookworm-6.1-x86_64-256m-oom-unkillable", &["oom-kills", "zram-unused", "mglru-off"]),
    ("debian-bookworm-6.1-x86_64-512m-zram-behind-disk", &["group-limit", "tier-order"]),
    ("debian-bookworm-6.1-x86_64-512m-zram-pressure", &["group-limit", "mglru-off"]),
    ("debian-sid-7.2-x86_64-256m-oom-group", &["oom-kills", "zram-unused"]),
    ("debian-sid-7.2-x86_64-256m-oom-host", &["oom-kills", "cache-not-cache", "zram-unused"]),
    ("debian-sid-7.2-x86_64-256m-oom-limit", &["oom-kills", "zram-unused"]),
    (
        "debian-sid-7.2-x86_64-512m-zram-full",
        &["group-limit", "zram-full", "zram-incompressible", "zram-oversized"],
    ),
    ("debian-sid-7.2-x86_64-512m-zram-pressure", &["group-limit"]),
    ("debian-sid-7.2-x86_64-512m-zswap-zram", &["group-limit", "zram-zswap-stacked"]),
    ("debian-trixie-6.12-x86_64-1g-commit-limit", &["commit-limit", "zram-unused"]),
    (
        "debian-trixie-6.12-x86_64-1g-thp",
        &[
            "hugetlb-unused",
            "zram-unused",
            "thp-coverage",
            "khugepaged-starves",
            "thp-bloat-guard-off",
        ],
    ),
    ("debian-trixie-6.12-x86_64-256m-oom-host", &["oom-kills", "cache-not-cache", "zram-unused"]),
    (crate::cases::OOM_LIMIT, &["oom-kills", "zram-unused"]),
    ("debian-trixie-6.12-x86_64-256m-oom-unkillable", &["oom-kills", "zram-unused"]),
    ("debian-trixie-6.12-x86_64-256m-oom-zram-full", &["oom-kills", "memory-pressure"]),
    ("debian-trixie-6.12-x86_64-512m-kernel-slab", &["kernel-memory", "zram-unused"]),
    ("debian-trixie-6.12-x86_64-512m-ksm-loss", &["ksm-loss", "zram-unused"]),
    ("debian-trixie-6.12-x86_64-512m-mglru-cgroup", &["group-limit", "zram-unused"]),
    ("debian-trixie-6.12-x86_64-512m-page-tables", &["kernel-memory", "zram-unused"]),
    (
        "debian-trixie-6.12-x86_64-512m-settings",
        &[
            "zram-unused",
            "settings-differ",
            "settings-differ",
            "settings-differ",
            "generator-parameters",
        ],
    ),
    (
        "debian-trixie-6.12-x86_64-512m-swap-off",
        &["group-limit", "swap-avoids-anon", "zram-unused"],
    ),
    (
        "debian-trixie-6.12-x86_64-512m-deleted-file",
        &["memory-low", "deleted-files", "cache-not-cache", "zram-unused"],
    ),
    ("debian-trixie-6.12-x86_64-512m-oom-cpuset", &["oom-kills", "zram-unused"]),
    ("debian-trixie-6.12-x86_64-512m-oom-policy", &["oom-kills", "zram-unused"]),
    (
        "debian-trixie-6.12-x86_64-512m-tmpfs-full",
        &["memory-low", "cache-not-cache", "zram-unused"],
    ),
    ("debian-trixie-6.12-x86_64-512m-zram-pressure-no-mglru", &["group-limit", "mglru-off"]),
    ("debian12-6.18-x86_64-24g-oom-limit", &["oom-kills", "zram-unused"]),
    (crate::cases::PLAIN, &["zram-unused"]),
    (crate::cases::THP, &["zram-unused"]),
    (crate::cases::BEHIND_FILE, &["zram-unused"]),
    (crate::cases::BEHIND_FILE_USED, &["zram-unused"]),
    (crate::cases::ZRAM_SWAP, &[]),
    (crate::cases::ZRAM_SWAP_USED, &[]),
];

/// The result of replaying a scene.
struct Replayed {
    name: String,
    findings: Vec<Finding>,
    /// Lines that no reader understood.
    problems: Vec<String>,
    /// Evidence that is not at the place that it names.
    untraced: Vec<String>,
}

impl Replayed {
    fn new(name: String, scene: &Scene) -> Self {
        let interval = scene.replay();
        let findings = diagnose(&interval);
        let start = interval.start.iter().flat_map(|start| &start.problems);
        let problems = start.chain(&interval.end.problems).map(ToString::to_string).collect();
        let evidence = findings.iter().flat_map(|finding| &finding.evidence);
        let look_up = |evidence| crate::witness::check(scene, interval.seconds(), evidence).err();
        let untraced = evidence.filter_map(look_up).collect();
        Self { name, findings, problems, untraced }
    }

    fn of_case(case: &Case, change: crate::cases::Change) -> Self {
        let name = format!("{}: {}", case.id, case.reason);
        Self::new(name, &change(Scene::load(case.host)))
    }
}

/// Every case: the scene that fires, and the near miss.
static CASES: LazyLock<Vec<(&Case, Replayed, Replayed)>> = LazyLock::new(|| {
    let replayed = |case: &'static Case| {
        let [fires, near] = [case.fires, case.near.change()].map(|it| Replayed::of_case(case, it));
        (case, fires, near)
    };
    crate::cases::all().map(replayed).collect()
});

/// Every recording, unchanged.
static UNCHANGED: LazyLock<Vec<Replayed>> = LazyLock::new(|| {
    let replayed = |slug: String| {
        let scene = Scene::load(&slug);
        Replayed::new(slug, &scene)
    };
    crate::scene::slugs().into_iter().map(replayed).collect()
});

fn all() -> impl Iterator<Item = &'static Replayed> {
    UNCHANGED.iter().chain(CASES.iter().flat_map(|(_, fires, near)| [fires, near]))
}

fn ids(findings: &[Finding]) -> Ids {
    findings.iter().map(|finding| finding.id).collect()
}

fn told<'a>(case: &Case, findings: &'a [Finding]) -> Vec<&'a Finding> {
    findings.iter().filter(|finding| finding.id == case.id).collect()
}

/// Checks for exactly one finding of the rule, with this severity and these words in its title.
fn assert_told(case: &Case, findings: &[Finding], severity: Severity, title: &str) {
    let explanation = told(case, findings);
    let [finding] = explanation.as_slice() else {
        panic!("{}, {}: {explanation:#?}", case.id, case.reason)
    };
    assert_eq!(finding.severity, severity, "{}: {finding:#?}", case.reason);
    assert!(finding.title.contains(title), "{}: {finding:#?}", case.reason);
}

/// Checks that these rules fire in addition to those of the unchanged recording, some of which the
/// change may end.
fn assert_new(case: &Case, findings: &[Finding], expected: &[&'static str]) {
    let (_, known) = EXPECTED.iter().find(|(host, _)| *host == case.host).unwrap();
    let is_new = |id: &&str| *id == case.id || !known.contains(id);
    let new: Ids = ids(findings).into_iter().filter(is_new).collect();
    assert_eq!(new, expected.iter().copied().collect(), "{}: {}", case.id, case.reason);
}

#[test]
fn each_reason_fires_and_nothing_else_does() {
    for (case, Replayed { findings, .. }, _) in CASES.iter() {
        assert_told(case, findings, case.severity, case.title);
        assert_new(case, findings, &[&[case.id], case.also].concat());
    }
}

#[test]
fn what_is_nearly_a_reason_is_none() {
    for (case, _, Replayed { findings, .. }) in CASES.iter() {
        match case.near {
            Near::Silent(_) => assert_new(case, findings, case.also),
            Near::But(_, others) => assert_new(case, findings, others),
            Near::Told(_, severity, title) => assert_told(case, findings, severity, title),
        }
    }
}

/// Each rule needs a case in which it fires, and a near miss in which it does not.
#[test]
fn every_rule_has_a_case_that_fires_and_one_that_must_not() {
    let all: Ids = RULES.iter().map(|rule| rule.id).collect();
    let firing: Ids = crate::cases::all().map(|case| case.id).collect();
    let is_silent = |case: &&Case| !matches!(case.near, Near::Told(..));
    let silent: Ids = crate::cases::all().filter(is_silent).map(|case| case.id).collect();
    assert_eq!((&firing, &silent), (&all, &all));
    let reasons: BTreeSet<_> = crate::cases::all().map(|case| (case.id, case.reason)).collect();
    assert_eq!(reasons.len(), crate::cases::all().count(), "two cases are one");
}

#[test]
fn every_number_in_evidence_stands_where_it_points() {
    let wrong: BTreeSet<&String> = all().flat_map(|replayed| &replayed.untraced).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let findings = || all().flat_map(|replayed| &replayed.findings);
    let looked_up = findings().map(|finding| finding.evidence.len()).sum::<usize>();
    assert!(looked_up > 400, "only {looked_up} looked up");
}

#[test]
fn nothing_is_said_twice() {
    for Replayed { name, findings, .. } in all() {
        for finding in findings {
            let describe = |evidence: &Evidence| format!("{evidence:?}");
            let distinct: BTreeSet<String> = finding.evidence.iter().map(describe).collect();
            assert_eq!(distinct.len(), finding.evidence.len(), "{name}: {finding:#?}");
        }
    }
}

/// A command that changes the machine is followed by the whole command that takes the change back,
/// or says how or why there is none.
#[test]
fn every_command_that_writes_says_how_to_take_it_back() {
    let mut with_undo = 0;
    let commands = all().flat_map(|it| &it.findings).flat_map(|finding| &finding.next);
    for command in commands.filter(|command| command.contains("# writes")) {
        let (_, note) = command.split_once("# writes; ").expect(command);
        if let Some((_, undo)) = note.split_once("undo with ") {
            assert!(undo.starts_with("sudo ") || undo.starts_with("echo "), "{command}");
            with_undo += 1;
        } else {
            let says_so = [
                "until the next boot",
                "nothing to undo",
                "undo by ",
                "discards",
                " is lost",
                " are lost",
            ];
            assert!(says_so.iter().any(|words| note.contains(words)), "{command}");
        }
    }
    assert!(with_undo > 0);
}

#[test]
fn every_file_recorded_or_changed_is_understood() {
    for Replayed { name, problems, .. } in all() {
        assert!(problems.is_empty(), "{name}: {problems:#?}");
    }
}

#[test]
fn recordings_say_what_is_expected_of_them() {
    let known: BTreeMap<&str, &[&str]> = EXPECTED.into_iter().collect();
    for Replayed { name, findings, .. } in UNCHANGED.iter() {
        let found: Vec<&str> = findings.iter().map(|finding| finding.id).collect();
        let expected = known.get(name.as_str()).copied();
        assert_eq!(Some(found.as_slice()), expected, "{name}: is it new? add it to the table");
    }
    assert_eq!(UNCHANGED.len(), EXPECTED.len());
}

#[test]
fn a_recording_replays_to_the_same_always() {
    for slug in crate::scene::slugs() {
        let path = crate::scene::recording(&slug);
        let label = path.display().to_string();
        let once = format!("{:?}", Scene::load(&slug).replay_as(&label));
        let again = format!("{:?}", Scene::load(&slug).replay_as(&label));
        // from the fixture archive, as a user would name it
        let opened =
            format!("{:?}", crate::scene::interval(&pagewise_observe::open(&path).unwrap()));
        assert!(once.len() > 100_000, "{slug}: {once}");
        for other in [again, opened] {
            let at = once.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
            let around = |text: &str| {
                text.get(at.saturating_sub(200)..(at + 100).min(text.len())).map(str::to_owned)
            };
            assert!(once == other, "{slug}: {:?} against {:?}", around(&once), around(&other));
        }
    }
}

/// What the program prints about a recording, without the run time.
fn printed(verb: &str, slug: &str) -> String {
    let all = ["--min-severity", "info"];
    let is_doctor = verb.starts_with("doctor");
    let options: &[&str] = if is_doctor { &all } else { &[] };
    let archive = format!("{slug}.tar");
    let words: Vec<&str> = verb.split(' ').chain(["--root", &archive]).collect();
    let ran = run_in(&crate::scene::recordings(), &[words.as_slice(), options].concat());
    assert_eq!(ran.err, "", "{verb} {slug}");
    assert_eq!(ran.out.matches(" took ").count(), 1, "{verb} {slug}: {}", ran.out);
    // the run time follows the time of the recording, or is on a line of its own if that is too
    // long
    let kept = ran.out.lines().filter_map(|line| match line.split_once(" took ") {
        Some((before, _)) => before.strip_suffix(" ·"),
        None => Some(line),
    });
    kept.flat_map(|line| [line, "\n"]).collect()
}

/// `BLESS=1` rewrites the files; a person must read the difference.
#[test]
fn the_program_prints_what_it_did() {
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for slug in crate::scene::slugs() {
        let has_kills = slug.contains("-oom-");
        let verbs = [("doctor", true), ("status", true), ("doctor --oom", has_kills)];
        for (verb, _) in verbs.into_iter().filter(|(_, is_shown)| *is_shown) {
            let file = verb.rsplit(['-', ' ']).next().unwrap();
            let path = golden.join(&slug).join(format!("{file}.txt"));
            let printed = printed(verb, &slug);
            if std::env::var_os("BLESS").is_some() {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(&path, &printed).unwrap();
            }
            let known = std::fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(printed, known, "{}: `cargo xtask bless` rewrites it", path.display());
        }
    }
}
