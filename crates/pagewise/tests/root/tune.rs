// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise tune` on this machine: a setting that a finding names is changed and kept; Ctrl-C
//! undoes it.

use std::process::Stdio;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::applied::{KNOB, Site, json_of};
use crate::machine::{read, said, write};

/// With 0 the kernel never compacts memory for a large allocation, which is a finding.
const WRONG: &str = "0";
const DEFAULT: &str = "500";

fn tune<'a>(options: &[&'a str]) -> Vec<&'a str> {
    let words = ["tune", "--yes", "--no-bench", "--only", "extfrag-threshold"];
    words.into_iter().chain(options.iter().copied()).collect()
}

#[test]
fn tune_keeps_what_does_no_harm_and_undo_takes_it_back() {
    let site = Site::new();
    write(KNOB, WRONG);
    let ended = site.output(&tune(&["--watch", "1s", "--json"]));
    assert_eq!(ended.status.code(), Some(0), "{}", said(&ended));
    let tuned = json_of(&ended);
    assert_eq!(tuned["schema"], "pagewise/tune/1");
    assert_eq!((&tuned["kept"], &tuned["trial"]["against"]), (&json!(true), &json!([])));
    assert_eq!(tuned["trial"]["verified"][0]["steps"][0]["differences"], json!([]));
    assert_eq!(read(KNOB), DEFAULT);

    let again = site.output(&tune(&["--watch", "1s", "--json"]));
    assert_eq!(again.status.code(), Some(0), "{}", said(&again));
    let again = json_of(&again);
    assert_eq!((&again["plan"]["steps"], &again["kept"]), (&json!([]), &json!(null)));

    let journal = tuned["trial"]["journal"].as_str().unwrap();
    let undone = site.output(&["undo", journal]);
    assert_eq!(undone.status.code(), Some(0), "{}", said(&undone));
    assert_eq!(read(KNOB), WRONG);
}

#[test]
fn tune_that_is_stopped_while_it_watches_undoes_the_plan() {
    let site = Site::new();
    write(KNOB, WRONG);
    let mut command = site.command(&tune(&["--watch", "10m"]));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while read(KNOB) != DEFAULT {
        assert!(begun.elapsed().as_secs() < 120, "the plan was not applied");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130), "{}", said(&ended));
    assert_eq!(read(KNOB), WRONG);
    let left = json_of(&site.output(&["undo", "--json"]));
    assert_eq!((&left["plans"], &left["runs"]), (&json!([]), &json!([])));
}

/// The command prints the setting itself as the result, so the arm with the larger value is better
/// without any doubt.
#[test]
fn what_a_trial_has_shown_is_planned_applied_and_undone() {
    let site = Site::new();
    let before = read(KNOB);
    let arms = ["--a", "vm.extfrag_threshold=400", "--b", "vm.extfrag_threshold=600"];
    let metric = ["--metric", "^([0-9]+)", "--higher-is-better", "--json", "--", "cat", KNOB];
    let tried = site.output(&[&["trial"][..], &arms, &metric].concat());
    assert_eq!(tried.status.code(), Some(0), "{}", said(&tried));
    let [trial, planned] =
        ["trial.json", "plan.json"].map(|name| site.place.folder.path().join(name));
    std::fs::write(&trial, &tried.stdout).unwrap();
    let from = trial.display().to_string();
    let plan = site.output(&["plan", "--only", "trial", "--from", &from, "--json"]);
    assert_eq!(plan.status.code(), Some(0), "{}", said(&plan));
    let step = &json_of(&plan)["steps"][0];
    assert_eq!((&step["target"], &step["to"]), (&json!("vm.extfrag_threshold"), &json!("600")));
    let reason = step["reason"].as_str().unwrap();
    assert!(reason.contains("was 50.0 % higher with vm.extfrag_threshold = 600"), "{reason}");
    std::fs::write(&planned, &plan.stdout).unwrap();
    let planned = planned.display().to_string();
    let applied = site.output(&["apply", "--yes", "--settle", "0", &planned]);
    assert_eq!(
        (applied.status.code(), read(KNOB).as_str()),
        (Some(0), "600"),
        "{}",
        said(&applied)
    );
    let undone = site.output(&["undo", "--all"]);
    assert_eq!((undone.status.code(), read(KNOB)), (Some(0), before), "{}", said(&undone));
}
