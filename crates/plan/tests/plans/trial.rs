// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans from trials: the arm that was better, or why none is used.

use pagewise_model::knob::{KNOBS, KnobReading};
use pagewise_model::plan::{Change, Goal, Plan};
use pagewise_model::{Interval, Name};
use pagewise_plan::{Measured, Request, make_plan};
use serde_json::{Value, json};

use super::{declined, file, ids, plain};
use pagewise_testkit::made_host::{self, calm, knob};

fn plan_with(interval: &Interval, documents: &[&Value]) -> Plan {
    let read = documents.iter().map(|it| Measured::from_json(&it.to_string()).unwrap());
    let measured = read.reduce(Measured::combined_with).unwrap();
    let request = Request {
        interval,
        installation: &plain(),
        measured: &measured,
        goal: Goal::Balanced,
        only: &[],
        wants: &[],
        anyway: false,
    };
    make_plan(&request)
}

fn host() -> Interval {
    let mut interval = calm();
    knob(&mut interval.end, "vm.swappiness", "60");
    knob(&mut interval.end, "vm.page-cluster", "3");
    interval
}

fn metric(b_per_a: f64, interval: [f64; 2], higher_is_better: bool) -> Value {
    json!({
        "name": "time", "higher_is_better": higher_is_better, "b_per_a": b_per_a, "interval": interval,
    })
}

fn arm(name: &str, settings: &[(&str, &str)]) -> Value {
    let settings: Vec<Value> =
        settings.iter().map(|(knob, value)| json!({"knob": knob, "value": value})).collect();
    json!({"name": name, "settings": settings})
}

/// A trial in which B has this swappiness, compared with the machine as it is.
fn trial(verdict: &str, b_per_a: f64, interval: [f64; 2]) -> Value {
    json!({
        "schema": "pagewise/trial/1", "verdict": verdict, "primary": "time", "pairs": 14, "clock": "real",
        "arms": [arm("a", &[]), arm("b", &[("vm.swappiness", "100")])],
        "metrics": [metric(b_per_a, interval, false)], "others": [], "command": ["/usr/bin/redis-benchmark"],
    })
}

fn set(plan: &Plan, id: &str) -> (String, String) {
    match &plan.step(id).unwrap_or_else(|| panic!("no step {id}: {plan:#?}")).change {
        Change::SetKnob { target, to, .. } => (target.clone(), to.clone()),
        other => panic!("{other:?}"),
    }
}

/// A huge page size: one of several settings with the same name.
#[test]
fn one_size_of_huge_pages_is_set_and_kept() {
    let mut interval = host();
    let path = "/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled";
    let live = made_host::file(path, Name::from("always inherit madvise [never]"));
    let row = KNOBS.iter().find(|knob| knob.name == "thp.size.enabled").unwrap();
    let instance = Some(Name::from("64kB"));
    interval.end.knobs.push(KnobReading { knob: row, instance, live, default: None });
    let name = "thp.size.enabled[64kB]";
    let mut tried = trial("better", 0.8, [0.7, 0.9]);
    tried["arms"][1] = arm("b", &[(name, "always")]);
    let plan = plan_with(&interval, &[&tried]);
    assert_eq!(ids(&plan), [name, "tmpfiles-file"]);
    assert_eq!(set(&plan, name), (name.to_owned(), "always".to_owned()));
    let (_, text) = file(&plan, "tmpfiles-file");
    assert!(text.contains(&format!("\nw {path} - - - - always\n")), "{text}");
    assert!(plan.step(name).unwrap().survives_reboot);
    tried["arms"][1] = arm("b", &[("thp.size.enabled[32kB]", "always")]);
    let plan = plan_with(&interval, &[&tried]);
    assert!(declined(&plan, "thp.size.enabled[32kB]").contains("was not read"), "{plan:#?}");
}

/// Without a trial it is unknown which policy is better.
#[test]
fn the_policy_of_huge_pages_needs_a_trial() {
    let mut interval = host();
    knob(&mut interval.end, "thp.enabled", "always [madvise] never");
    let (measured, installation) = (Measured::default(), plain());
    let only = ["huge-pages".to_owned()];
    let request = Request {
        interval: &interval,
        installation: &installation,
        measured: &measured,
        goal: Goal::Balanced,
        only: &only,
        wants: &[],
        anyway: false,
    };
    let why = make_plan(&request);
    let why = declined(&why, "another value of thp.enabled");
    assert!(why.contains("it is madvise") && why.contains("--b thp.enabled=always"), "{why}");
    assert!(
        make_plan(&Request { only: &[], ..request })
            .declined
            .iter()
            .all(|it| { !it.what.contains("thp.enabled") })
    );
}

/// An experiment with several cells, one of which ran on this host.
#[test]
fn of_an_experiment_the_cell_of_the_host_counts() {
    let cell = |name: &str, swappiness: &str| {
        let mut cell = trial("better", 0.8, [0.7, 0.9]);
        cell["cell"] = json!(name);
        cell["arms"][1] = arm("b", &[("vm.swappiness", swappiness)]);
        cell
    };
    let lab = |cells: &[Value]| json!({"schema": "pagewise/lab/1", "cells": cells});
    let both = lab(&[cell("trixie-320M", "180"), cell("host", "100")]);
    let plan = plan_with(&host(), &[&both]);
    let step = plan.steps.iter().find(|step| step.change.action() == "set-knob").unwrap();
    assert!(matches!(&step.change, Change::SetKnob { to, .. } if to == "100"), "{plan:#?}");
    let bad = [lab(&[]), lab(&[cell("trixie-320M", "180"), cell("sid-320M", "180")])];
    for bad in bad {
        let why = Measured::from_json(&bad.to_string()).unwrap_err().to_string();
        assert!(why.contains("expected an experiment that ran on the host"), "{why}");
    }
    let mut preview = both;
    preview["preview"] = json!(true);
    let why = Measured::from_json(&preview.to_string()).unwrap_err().to_string();
    assert!(why.contains("found a preview"), "{why}");
}

const NONE: &str = "the settings of the trial";

#[test]
fn what_was_better_is_set_now_and_at_each_boot_with_its_figures() {
    let plan = plan_with(&host(), &[&trial("better", 0.81, [0.75, 0.88])]);
    assert_eq!(ids(&plan), ["vm.swappiness", "sysctl-file"]);
    assert_eq!(set(&plan, "vm.swappiness"), ("vm.swappiness".to_owned(), "100".to_owned()));
    assert_eq!(
        plan.steps[0].reason,
        "In a trial with `redis-benchmark` (14 pairs of runs), time was 19.0 % lower with vm.swappiness = \
         100 than with the settings that the machine had (95 % interval 12.0 to 25.0 %)."
    );
    assert!(file(&plan, "sysctl-file").1.contains("\nvm.swappiness = 100\n"));
    let replayed =
        json!({"schema": "pagewise/replay/1", "trial": trial("better", 0.81, [0.75, 0.88])});
    assert_eq!(plan_with(&host(), &[&replayed]).steps, plan.steps);
}

#[test]
fn the_first_arm_is_set_where_the_other_is_worse() {
    let mut worse = trial("worse", 1.25, [1.25, 2.0]);
    worse["arms"][0] = arm("a", &[("vm.swappiness", "10")]);
    let plan = plan_with(&host(), &[&worse]);
    assert_eq!(set(&plan, "vm.swappiness").1, "10");
    let reason = &plan.steps[0].reason;
    assert!(
        reason.contains(
            "time was 20.0 % lower with vm.swappiness = 10 than with vm.swappiness = 100"
        ),
        "{reason}"
    );
    assert!(reason.contains("(95 % interval 20.0 to 50.0 %)"), "{reason}");
    let plan = plan_with(&host(), &[&trial("worse", 1.25, [1.2, 1.3])]);
    assert!(plan.steps.is_empty(), "{plan:#?}");
    assert!(declined(&plan, "any setting").contains("so the settings stay as they are"));
}

#[test]
fn the_best_of_several_arms_is_set_also_where_more_is_better() {
    for (higher, ratios, best) in [(false, [0.9, 0.7, 0.8], "7"), (true, [1.1, 1.2, 1.4], "8")] {
        let mut many = trial("better", ratios[0], [ratios[0]; 2]);
        many["metrics"] = json!([metric(ratios[0], [ratios[0]; 2], higher)]);
        many["arms"] = json!([
            arm("a", &[]),
            arm("b", &[("vm.swappiness", "6")]),
            arm("c", &[("vm.swappiness", "7")]),
            arm("d", &[("vm.swappiness", "8")]),
        ]);
        many["others"] = json!([
            {"arm": "c", "verdict": "better", "pairs": 9, "metrics": [metric(ratios[1], [ratios[1]; 2], higher)]},
            {"arm": "d", "verdict": "better", "pairs": 9, "metrics": [metric(ratios[2], [ratios[2]; 2], higher)]},
        ]);
        assert_eq!(set(&plan_with(&host(), &[&many]), "vm.swappiness").1, best);
    }
}

#[test]
fn nothing_follows_from_a_trial_that_shows_nothing_for_this_machine() {
    for verdict in ["undecided", "equivalent"] {
        let plan = plan_with(&host(), &[&trial(verdict, 0.99, [0.9, 1.1])]);
        assert!(plan.steps.is_empty(), "{plan:#?}");
        assert!(declined(&plan, NONE).contains("shows no arm to be better in time"));
    }
    let mut few = trial("better", 0.5, [0.4, 0.6]);
    few["metrics"][0]["interval"] = Value::Null;
    assert!(declined(&plan_with(&host(), &[&few]), NONE).contains("shows no arm"));
    let better = trial("better", 0.81, [0.75, 0.88]);
    let mut emulated = better.clone();
    emulated["clock"] = "emulated".into();
    assert!(declined(&plan_with(&host(), &[&emulated]), NONE).contains("emulated machine"));
    let mut swap = better.clone();
    swap["arms"][1]["swap"] = json!([{"kind": "zram", "size_bytes": 1 << 29}]);
    assert!(declined(&plan_with(&host(), &[&swap]), NONE).contains("swap of its own"));
    let mut command = better.clone();
    command["arms"][1]["command"] = json!(["other"]);
    assert!(declined(&plan_with(&host(), &[&command]), NONE).contains("different commands"));
    let mut device = better;
    device["arms"][1] = arm("b", &[("block.read_ahead_kb[vda]", "0")]);
    let plan = plan_with(&host(), &[&device]);
    assert!(plan.steps.is_empty() && !plan.declined.is_empty(), "{plan:#?}");
}

/// A document may come from anybody: only values that the setting can have become a line of a file.
#[test]
fn values_that_no_trial_has_written_are_declined() {
    let cases = [
        ("vm.swappiness", "100\nkernel.core_pattern = |/x"),
        ("vm.swappiness", "1000000"),
        ("vm.swappiness", ""),
        ("kernel.core_pattern", "|/x"),
        ("thp.enabled", "sometimes"),
        ("vm.swappiness\nvm.x", "1"),
    ];
    for (knob, value) in cases {
        let mut document = trial("better", 0.81, [0.75, 0.88]);
        document["arms"][1] = arm("b", &[(knob, value)]);
        let plan = plan_with(&host(), &[&document]);
        assert!(plan.steps.is_empty() && !plan.declined.is_empty(), "{knob} {value}: {plan:#?}");
    }
}

/// A result with the user's own command takes precedence over the measured costs of single pages.
#[test]
fn a_trial_comes_before_what_bench_implies() {
    let bench = json!({
        "schema": "pagewise/bench/1", "cost_ratios": [{"algorithm": "lz4", "rounds": 7,
        "swap_ns_per_page": 5100.0, "file_ns_per_page": 98000.0, "swappiness": 160,
        "swappiness_spread": [150, 170]}], "tier_mixes": [], "cluster_choices": [],
    });
    let better = trial("better", 0.81, [0.75, 0.88]);
    for documents in [[&bench, &better], [&better, &bench]] {
        let plan = plan_with(&host(), &documents);
        let set = plan.steps.iter().filter(|step| {
            matches!(&step.change, Change::SetKnob { target, .. } if target == "vm.swappiness")
        });
        let ids: Vec<&str> = set.map(|step| step.id.as_str()).collect();
        assert_eq!(ids, ["vm.swappiness"]);
    }
}
