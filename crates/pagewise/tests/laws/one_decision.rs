// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The verbs do not contradict each other: what `report`, `status`, `doctor`, `plan`, `limits` and `bench` say of a
//! host comes from the same verdict and the same size. `scan` and `status --watch` are tested beside their code.

use std::path::Path;

use pagewise_decide::{LimitInputs, diagnose, judge, survey_limits};
use pagewise_facts::ratio::{ASSUMED_RATIO, measured_ratio};
use pagewise_facts::swap_choice::{choose_zram, size_mib};
use pagewise_model::plan::{Change, Goal};
use pagewise_model::{
    Compressor, Installation, Level, LimitVerdict, Millis, ParetoPoint, Pick, Picks, Ratio,
    Reading, Source,
};
use pagewise_plan::{Measured, Request, make_plan};

use serde_json::Value;

use crate::cases;
use crate::program::run;
use crate::scene::{Scene, slugs};

#[test]
fn doctor_plan_and_limits_agree_on_every_recording() {
    let (mut recordings, mut groups, mut sizes) = (0, 0, 0);
    for name in slugs() {
        let interval = Scene::load(&name).replay();
        let (findings, verdict) = (diagnose(&interval), judge(&interval));
        let generations = Reading::absent("not read", Source::none());
        let inputs = LimitInputs {
            selected: None,
            age: Millis::new(0),
            generations: &generations,
            watched: None,
        };
        let survey = survey_limits(&interval, &inputs);
        for group in verdict.groups.iter().filter(|group| group.level >= Level::Short) {
            let Some(own) = survey.groups.iter().find(|own| own.group == group.group) else {
                continue;
            };
            assert_ne!(own.advice.verdict, LimitVerdict::Fits, "{name}: {}", group.group);
            groups += 1;
        }
        let request = Request {
            interval: &interval,
            installation: &Installation::default(),
            measured: &Measured::default(),
            goal: Goal::Balanced,
            only: &[],
            wants: &[],
            anyway: false,
        };
        let plan = make_plan(&request);
        let planned = plan.steps.iter().find_map(|step| match &step.change {
            Change::AddZramSwap { to, .. } => Some(to.disksize_bytes.get() >> 20),
            _ => None,
        });
        for command in findings.iter().flat_map(|finding| &finding.next) {
            let size =
                command.split_once("zramctl --size ").and_then(|(_, rest)| rest.split_once('M'));
            let Some((size, _)) = size else { continue };
            assert_eq!(size, size_mib(&interval.end).to_string(), "{name}: {command}");
            assert_eq!(
                planned.map(|size| size.to_string()).as_deref(),
                Some(size),
                "{name}: {command}"
            );
            sizes += 1;
        }
        recordings += 1;
    }
    assert!(
        recordings > 30 && groups > 5 && sizes > 5,
        "{recordings} recordings, {groups} groups, {sizes} sizes"
    );
}

/// How much the program was asked, so that no comparison can be empty.
#[derive(Debug, Default)]
struct Compared {
    hosts: usize,
    verdicts: usize,
    not_calm: usize,
    findings: usize,
    sizes: usize,
    groups: usize,
}

/// Every recording, and for each reason of each rule the host on which it fires.
fn hosts() -> Vec<(String, Scene)> {
    let recorded = slugs().into_iter().map(|slug| (slug.clone(), Scene::load(&slug)));
    let planted = cases::all()
        .map(|case| (format!("{} {}", case.id, case.reason), (case.fires)(Scene::load(case.host))));
    recorded.chain(planted).collect()
}

fn answer(verb: &str, path: &Path, options: &[&str]) -> Value {
    let root = path.to_str().unwrap();
    let ran = run(&[&[verb, "--json", "--root", root], options].concat());
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{verb}: {error}: {}", ran.err))
}

/// Texts of a list in JSON.
fn texts<'a>(list: &'a Value, key: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|entry| entry[key].as_str().unwrap()).collect()
}

/// The sizes in MiB of zram devices in the commands of findings.
fn sizes_in(findings: &Value) -> Vec<u64> {
    let next = |finding: &Value| finding["next"].as_array().unwrap().clone();
    let commands = findings.as_array().unwrap().iter().flat_map(next);
    let size = |command: Value| {
        let rest = command.as_str()?.split_once("zramctl --size ")?.1.split_once('M')?.0.parse();
        rest.ok()
    };
    commands.filter_map(size).collect()
}

fn assert_agreement(name: &str, path: &Path, scene: &Scene, compared: &mut Compared) {
    let report = answer("report", path, &[]);
    let doctor = answer("doctor", path, &["--min-severity", "info"]);
    let status = answer("status", path, &[]);
    let (plan, limits) = (answer("plan", path, &[]), answer("limits", path, &[]));
    let verdict = &report["verdict"];
    assert!(verdict["line"].is_string(), "{name}: {verdict}");
    assert_eq!(verdict, &doctor["verdict"], "{name}");
    assert_eq!(verdict, &status["verdict"], "{name}");
    compared.verdicts += 2;
    compared.not_calm += usize::from(verdict["level"] != "calm");
    // the text is broken into lines
    let text = run(&["status", "--root", path.to_str().unwrap()]).out;
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = words(verdict["line"].as_str().unwrap());
    assert!(words(&text).contains(&line), "{name}: {line}\n{text}");

    let ids = |answer: &Value| texts(&answer["findings"], "title").join("\n");
    assert_eq!(ids(&report), ids(&doctor), "{name}");
    compared.findings += report["findings"].as_array().unwrap().len();

    let end = scene.replay().end;
    let sizes = [sizes_in(&report["findings"]), sizes_in(&doctor["findings"])].concat();
    for size in &sizes {
        assert_eq!(*size, size_mib(&end), "{name}");
    }
    let planned = plan["steps"].as_array().unwrap().iter();
    // a device that replaces one (`zram-new`) keeps its size
    let planned: Vec<u64> = planned
        .filter(|step| step["id"] == "zram" && step["action"] == "add-zram-swap")
        .map(|step| step["to"]["disksize_bytes"].as_u64().unwrap() >> 20)
        .collect();
    for size in &planned {
        assert_eq!(*size, size_mib(&end), "{name}: the plan");
    }
    compared.sizes += sizes.len() + planned.len();

    for group in verdict["groups"].as_array().unwrap() {
        if !["short", "critical"].contains(&group["level"].as_str().unwrap()) {
            continue;
        }
        let rows = limits["groups"].as_array().unwrap();
        for row in rows.iter().filter(|row| row["group"] == group["group"]) {
            assert_ne!(row["advice"]["verdict"], "fits", "{name}: {group}");
            compared.groups += 1;
        }
    }
    compared.hosts += 1;
}

/// The program itself, on every recorded and planted host.
#[test]
fn the_program_says_the_same_in_report_status_doctor_plan_and_limits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("host.tar");
    let mut compared = Compared::default();
    for (name, scene) in hosts() {
        std::fs::write(&path, scene.pack()).unwrap();
        assert_agreement(&name, &path, &scene, &mut compared);
    }
    let Compared { hosts, verdicts, not_calm, findings, sizes, groups } = compared;
    assert!(hosts >= 150 && verdicts == 2 * hosts, "{compared:?}");
    assert!(not_calm >= 40 && findings >= 200 && sizes >= 20 && groups >= 15, "{compared:?}");
}

/// A measurement of `bench` at the ratio that is known of a host recommends the size that its findings have.
#[test]
fn bench_recommends_the_size_of_findings_at_the_same_ratio() {
    let mut compared = 0;
    for name in slugs() {
        let host = Scene::load(&name).replay().end;
        let ratio = measured_ratio(&host).map_or(ASSUMED_RATIO, Ratio::get);
        let lz4 = Compressor::new("lz4");
        let winner = Pick { winner: lz4.clone(), value: 900.0, unit: "ns".into(), runner_up: None };
        let picks = Picks { latency: Some(winner), ..Picks::default() };
        let measured = ParetoPoint {
            contender: lz4,
            read_ns: 900.0,
            read_spread: [900.0, 900.0],
            original_per_memory_used: ratio,
            is_on_front: true,
        };
        let ram = host.memory.total.get().unwrap();
        let choice = choose_zram(ram, &picks, &[measured]).unwrap();
        assert_eq!(choice.disksize_bytes.get() >> 20, size_mib(&host), "{name}");
        compared += 1;
    }
    assert!(compared > 30, "{compared}");
}
