// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of sysctl.d and tmpfiles.d: their names, what is kept of an earlier plan, other
//! owners. Also the documents of bench and scan.

use pagewise_model::plan::{Change, Goal};
use pagewise_model::{
    Bytes, Installation, Interval, Mechanism, Name, PersistentSetting, Target, Tuned, ZramUse,
};
use pagewise_plan::{Measured, Request, make_plan};
use proptest::prelude::*;

use super::{declined, ids, plain, plan_for, plan_of};
use pagewise_testkit::made_host::{gib, knob, line, mib, with, word, zram};

const EXTFRAG: &str = "vm.extfrag_threshold";

fn set_in(path: &str, value: &str) -> PersistentSetting {
    let value = line(path, 4, Name::from(value));
    PersistentSetting::applied(Mechanism::Sysctl, Target::of_knob(EXTFRAG), value)
}

/// Compaction is disabled, by the running value and by these files.
fn without_compaction(files: &[&str]) -> Interval {
    with(|host| {
        knob(host, EXTFRAG, "1000");
        host.configuration.settings = files.iter().map(|path| set_in(path, "1000")).collect();
    })
}

fn path_of(files: &[&str]) -> String {
    let plan = plan_of(&without_compaction(files));
    super::file(&plan, "sysctl-file").0.to_owned()
}

#[test]
fn the_name_comes_after_every_file_that_sets_the_same_key() {
    assert_eq!(path_of(&[]), "/etc/sysctl.d/90-pagewise.conf");
    assert_eq!(path_of(&["/usr/lib/sysctl.d/50-x.conf"]), "/etc/sysctl.d/90-pagewise.conf");
    assert_eq!(path_of(&["/etc/sysctl.d/99-sysctl.conf"]), "/etc/sysctl.d/99-zz-pagewise.conf");
    assert_eq!(path_of(&["/etc/sysctl.d/zzz.conf"]), "/etc/sysctl.d/zzz_pagewise.conf");
}

#[test]
fn the_file_that_wins_now_is_named() {
    let plan = plan_of(&without_compaction(&["/etc/sysctl.d/60-a.conf"]));
    let reason = &plan.step("sysctl-file").unwrap().reason;
    assert!(
        reason.contains("vm.extfrag_threshold = 1000 in /etc/sysctl.d/60-a.conf:4"),
        "{reason}"
    );
    let plan = plan_of(&without_compaction(&["/etc/sysctl.conf"]));
    let risk = &plan.step("sysctl-file").unwrap().risk;
    assert!(risk.contains("/etc/sysctl.conf:4 = 1000"), "{risk}");
}

#[test]
fn what_an_earlier_plan_wrote_is_kept() {
    let path = "/etc/sysctl.d/90-pagewise.conf";
    let earlier = "# Written by pagewise: older.\n\n# vm.swappiness: measured\nvm.swappiness = 150\n\n\
                   # vm.extfrag_threshold: old\nvm.extfrag_threshold = 100\n";
    let own_files = [(path.to_owned(), earlier.to_owned())].into();
    let installation = Installation { own_files, ..plain() };
    let plan = plan_for(&without_compaction(&[path]), &installation, Goal::Balanced);
    let step = plan.step("sysctl-file").unwrap();
    let Change::WriteFile { target, from, to } = &step.change else { panic!("{step:#?}") };
    assert_eq!((target.as_str(), from.as_deref()), (path, Some(earlier)));
    assert!(to.contains("# vm.swappiness: measured\nvm.swappiness = 150\n"), "{to}");
    assert!(to.contains("\nvm.extfrag_threshold = 500\n") && !to.contains("= 100"), "{to}");
}

/// The administrator has added lines to our file, next to ours and without blank lines between.
#[test]
fn lines_that_somebody_else_added_are_kept() {
    let path = "/etc/sysctl.d/90-pagewise.conf";
    let earlier = "# Written by pagewise: settings of a plan (pagewise plan, pagewise apply).\n\
                   # ticket 4711\nkernel.pid_max = 65536\n\
                   # vm.extfrag_threshold: an earlier reason\n# more of ticket 4711\n\
                   vm.extfrag_threshold = 100\nnet.core.somaxconn = 8192\n\n\n# the end\n";
    let written = |earlier: &str| {
        let own_files = [(path.to_owned(), earlier.to_owned())].into();
        let installation = Installation { own_files, ..plain() };
        let plan = plan_for(&without_compaction(&[path]), &installation, Goal::Balanced);
        super::file(&plan, "sysctl-file").1.to_owned()
    };
    let to = written(earlier);
    let kept = "\n# ticket 4711\nkernel.pid_max = 65536\n# more of ticket 4711\n\
                net.core.somaxconn = 8192\n\n\n# the end\n";
    assert!(to.contains(kept), "{to}");
    assert!(to.ends_with("\nvm.extfrag_threshold = 500\n"), "ours wins: {to}");
    assert!(!to.contains("an earlier reason") && !to.contains("= 100\n"), "{to}");
    assert_eq!(to.matches("# Written by pagewise").count(), 1, "{to}");
    assert_eq!(written(&to), to, "a second plan changes nothing");

    let foreign = written("vm.extfrag_threshold = 100\n");
    assert!(foreign.contains("\nvm.extfrag_threshold = 100\n"), "not written by us: {foreign}");
    assert!(foreign.ends_with("\nvm.extfrag_threshold = 500\n"), "{foreign}");
}

/// An empty file or a link to `/dev/null` under our name keeps the folders below from setting
/// anything under it; both are read as an empty text.
#[test]
fn a_masked_name_is_not_written() {
    let masked = |path: &str| (path.to_owned(), String::new());
    let own_files =
        [masked("/etc/sysctl.d/90-pagewise.conf"), masked("/etc/tmpfiles.d/05-pagewise.conf")];
    let installation = Installation { own_files: own_files.into(), ..plain() };
    let plan = plan_for(&without_compaction(&[]), &installation, Goal::Balanced);
    let step = plan.step("sysctl-file").unwrap();
    let Change::WriteFile { target, from, .. } = &step.change else { panic!("{step:#?}") };
    assert_eq!((target.as_str(), from), ("/etc/sysctl.d/99-pagewise.conf", &None));

    let mut interval = super::laws::with_knobs();
    knob(&mut interval.end, "zswap.enabled", "Y");
    interval.end.zswap.enabled = word("/sys/module/zswap/parameters/enabled", "Y").map(|_| true);
    let plan = plan_for(&interval, &installation, Goal::Balanced);
    assert_eq!(super::file(&plan, "tmpfiles-file").0, "/etc/tmpfiles.d/00-pagewise.conf");
}

#[test]
fn a_file_that_says_so_already_is_not_written_again() {
    let interval = with(|host| {
        knob(host, EXTFRAG, "1000");
        host.configuration.settings = vec![set_in("/etc/sysctl.d/60-a.conf", "500")];
    });
    let plan = plan_of(&interval);
    assert_eq!(ids(&plan), ["extfrag-threshold"], "{plan:#?}");
}

#[test]
fn tuned_that_has_the_last_word_is_named() {
    let tuned = |reapplies_sysctl| {
        let mut interval = without_compaction(&[]);
        interval.end.configuration.tuned = Some(Tuned {
            profile: word("/etc/tuned/active_profile", "virtual-guest"),
            reapplies_sysctl,
        });
        let line = set_in("/usr/lib/tuned/virtual-guest/tuned.conf", "1000");
        let line = PersistentSetting { mechanism: Mechanism::Tuned, ..line };
        interval.end.configuration.settings.push(line);
        plan_of(&interval)
    };
    assert_eq!(ids(&tuned(true)), ["extfrag-threshold", "sysctl-file"]);
    let plan = tuned(false);
    assert!(plan.steps.is_empty());
    let why = declined(&plan, EXTFRAG);
    assert!(why.contains("/usr/lib/tuned/virtual-guest/tuned.conf:4"), "{why}");
}

#[test]
fn the_file_of_tmpfiles_comes_first() {
    let mut interval = super::laws::with_knobs();
    knob(&mut interval.end, "zswap.enabled", "Y");
    interval.end.zswap.enabled = word("/sys/module/zswap/parameters/enabled", "Y").map(|_| true);
    let named = |names: &[&str]| {
        let tmpfiles_names = names.iter().map(|&name| name.to_owned()).collect();
        let plan = plan_for(&interval, &Installation { tmpfiles_names, ..plain() }, Goal::Balanced);
        super::file(&plan, "tmpfiles-file").0.to_owned()
    };
    assert_eq!(named(&["legacy.conf"]), "/etc/tmpfiles.d/05-pagewise.conf");
    assert_eq!(named(&["00-a.conf"]), "/etc/tmpfiles.d/00-0-pagewise.conf");
}

const BENCH: &str = include_str!("../../../pagewise/tests/shared/bench-2cpu-6.18.json");

fn short() -> Interval {
    with(|host| {
        host.tiers.clear();
        host.zram = vec![zram(0, ZramUse::NotInitialised, Bytes::new(0))];
        host.memory.available = line("/proc/meminfo", 3, mib(200));
    })
}

fn measured_plan(document: &str, goal: Goal) -> pagewise_model::plan::Plan {
    let (interval, installation) = (short(), plain());
    let measured = &Measured::from_json(document).unwrap();
    make_plan(&Request {
        interval: &interval,
        installation: &installation,
        measured,
        goal,
        only: &[],
        wants: &[],
        anyway: false,
    })
}

fn zram_of(plan: &pagewise_model::plan::Plan) -> (String, Bytes) {
    match &plan.steps[0].change {
        Change::AddZramSwap { to, .. } => (to.compressor.to_string(), to.disksize_bytes),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_document_of_bench_chooses_the_algorithm_for_the_goal() {
    let latency = zram_of(&measured_plan(BENCH, Goal::Latency));
    let ratio = zram_of(&measured_plan(BENCH, Goal::Ratio));
    assert_eq!((latency.0.as_str(), ratio.0.as_str()), ("lz4", "lzo"));
    assert!(ratio.1 > latency.1 && latency.1 > gib(16), "{latency:?} {ratio:?}");
}

/// Times measured on one host: lz4hc read a page in 3.1 µs and wrote one in 142 µs, lz4 in 3.3 and
/// 9.4 µs.
#[test]
fn the_balanced_goal_counts_what_writing_costs() {
    let pick = |name: &str, unit: &str| {
        format!(
            r#"{{"algorithm": "{name}", "value": 1, "unit": "{unit}", "runner_up": {{"algorithm": "lzo",
                "value": 2, "cost_per_winner": 1.2, "is_real": true}}}}"#
        )
    };
    let point = |name: &str, ratio: f64| {
        format!(r#"{{"algorithm": "{name}", "original_per_memory_used": {ratio}}}"#)
    };
    let document = format!(
        r#"{{"schema": "pagewise/bench/1", "picks": {{"latency": {}, "balanced": {}}}, "pareto": [{}, {}]}}"#,
        pick("lz4hc", "ns"),
        pick("lz4", "times_ideal"),
        point("lz4hc", 3.1),
        point("lz4", 2.8)
    );
    let chosen = |goal| zram_of(&measured_plan(&document, goal)).0;
    assert_eq!((&*chosen(Goal::Balanced), &*chosen(Goal::Latency)), ("lz4", "lz4hc"));
    let without_writes = document.replace("\"balanced\"", "\"unknown\"");
    assert_eq!(zram_of(&measured_plan(&without_writes, Goal::Balanced)).0, "lz4hc");
}

#[test]
fn a_document_of_scan_predicts_the_ratio_with_its_interval() {
    let scan = r#"{"schema": "pagewise/scan/1", "kernel": {"value": "6.12.107"}, "host": {"name": {"value": "a"}},
        "estimates": [{"page_bytes": 4096, "pages": 20000, "sized_pages": 10000, "algorithms": [{"name": "lz4",
        "memory_used_bytes": 20480000, "memory_used_interval": [16384000, 40960000]}]}]}"#;
    let plan = measured_plan(scan, Goal::Balanced);
    let expected = plan.steps[0].expected.clone().unwrap();
    assert_eq!((expected.value, expected.interval), (4.0, [2.0, 5.0]));
    assert!(expected.source.contains("10000 of 20000 pages"));
    assert_eq!(zram_of(&plan).1, gib(32));
    let measured = Measured::from_json(scan).unwrap();
    assert_eq!((measured.kernel(), measured.host()), (Some("6.12.107"), Some("a")));
}

#[test]
fn other_documents_are_refused_with_what_was_found() {
    let error = |text: &str| Measured::from_json(text).unwrap_err().to_string();
    assert!(error("{").starts_with("not JSON"));
    assert!(error("{}").contains("no key `schema`"));
    assert!(error(r#"{"schema": "pagewise/report/1"}"#).contains("found pagewise/report/1"));
    assert!(error(r#"{"schema": "pagewise/scan/1", "estimates": []}"#).contains("invalid type"));
    let wild = r#"{"schema": "pagewise/bench/1", "picks": {"latency": {"algorithm": "lz4; rm", "value": 1}}}"#;
    assert!(error(wild).contains("expected a name as lz4"), "{}", error(wild));
}

proptest! {
    /// A document may come from anybody: with any text removed or inserted, it is either read or
    /// refused.
    #[test]
    fn no_document_makes_it_panic(at in 0..BENCH.len(), length in 0..400usize, put in "[ -~]{0,12}") {
        let end = (at + length).min(BENCH.len());
        let bytes = [&BENCH.as_bytes()[..at], put.as_bytes(), &BENCH.as_bytes()[end..]].concat();
        let text = String::from_utf8_lossy(&bytes);
        if let Ok(measured) = Measured::from_json(&text) {
            let (interval, installation) = (short(), plain());
            for goal in super::GOALS {
                let request =
                    Request { interval: &interval, installation: &installation, measured: &measured, goal, only: &[] , wants: &[], anyway: false};
                let plan = make_plan(&request);
                prop_assert!(serde_json::to_string(&plan).is_ok());
                for step in &plan.steps {
                    if let Change::SetKnob { target, to, .. } = &step.change {
                        prop_assert!(super::laws::is_accepted(target, to), "{target} = {to}");
                    }
                }
            }
        }
    }
}
