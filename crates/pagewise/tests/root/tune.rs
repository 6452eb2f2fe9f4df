// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise tune` on this machine: a setting that a finding names is changed, and kept on request or
//! if it helps; otherwise, and after Ctrl-C, it is undone.

use std::io::{BufRead, BufReader};
use std::path::Path;
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
fn tune_keeps_what_shows_no_difference_on_request_and_undo_takes_it_back() {
    let site = Site::new();
    write(KNOB, WRONG);
    let short = ["--watch", "1s", "--settle", "0", "--json"];
    let ended = site.output(&tune(&short));
    assert_eq!(ended.status.code(), Some(3), "{}", said(&ended));
    let tuned = json_of(&ended);
    assert_eq!(tuned["kept"], false);
    let judgement = &tuned["trial"]["judgement"];
    assert_eq!(judgement["difference"], "not-shown", "a second is too short: {judgement}");
    let against = tuned["trial"]["against"][0].as_str().unwrap();
    assert!(against.starts_with("no difference is shown."), "{against}");
    assert_eq!(read(KNOB), WRONG, "it is taken back");

    let short = [&short[..], &["--keep"]].concat();
    let ended = site.output(&tune(&short));
    assert_eq!(ended.status.code(), Some(0), "{}", said(&ended));
    let tuned = json_of(&ended);
    assert_eq!(tuned["schema"], "pagewise/tune/1");
    assert_eq!((&tuned["kept"], &tuned["trial"]["against"]), (&json!(true), &json!([])));
    assert_eq!(tuned["trial"]["verified"][0]["steps"][0]["differences"], json!([]));
    assert_eq!(read(KNOB), DEFAULT);

    let again = site.output(&tune(&short));
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
    let mut command = site.command(&tune(&["--watch", "1s", "--settle", "10m"]));
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

/// The number that the command prints is the setting, so the change is better, or worse, without any
/// doubt.
#[test]
fn the_users_measure_decides() {
    for (lower, code, is_kept) in [(false, 0, true), (true, 3, false)] {
        let site = Site::new();
        write(KNOB, WRONG);
        let command = format!("echo $(( $(cat {KNOB}) + 100 ))");
        let mut options = vec!["--watch", "1s", "--settle", "0", "--json", "--measure", &command];
        options.extend(lower.then_some("--lower-is-better"));
        let ended = site.output(&tune(&options));
        assert_eq!(ended.status.code(), Some(code), "{}", said(&ended));
        let tuned = json_of(&ended);
        let measure = &tuned["trial"]["judgement"]["measures"][0];
        assert_eq!((&measure["before"], &measure["after"]), (&json!(100.0), &json!(600.0)));
        assert_eq!((&tuned["kept"], &measure["decides"]), (&json!(is_kept), &json!(true)));
        assert_eq!(read(KNOB), if is_kept { DEFAULT } else { WRONG });
        let undone = site.output(&["undo", "--all"]);
        assert_eq!(undone.status.code(), Some(0), "{}", said(&undone));
    }
}

/// On this machine nothing but a process guards the plan, or a timer of systemd.
#[test]
fn a_tune_that_is_killed_while_it_watches_is_undone() {
    let site = Site::new();
    write(KNOB, WRONG);
    let mut command = site.command(&tune(&["--watch", "1s", "--settle", "10m"]));
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = child.unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let settles = said.any(|line| line.is_ok_and(|line| line.contains("letting programs settle")));
    assert!(settles && read(KNOB) == DEFAULT, "the plan was not applied");
    child.kill().unwrap();
    child.wait().unwrap();
    if !Path::new("/run/systemd/system").exists() {
        let begun = Instant::now();
        while read(KNOB) != WRONG {
            assert!(begun.elapsed().as_secs() < 60, "nothing undoes the plan");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
    let undone = site.output(&["undo", "--all"]);
    assert_eq!(
        (undone.status.code(), read(KNOB).as_str()),
        (Some(0), WRONG),
        "{}",
        crate::machine::said(&undone)
    );
}

/// A plan in force looks like the machine's own settings: there would be nothing to change.
#[test]
fn tune_does_not_start_on_top_of_an_unfinished_plan() {
    let site = Site::new();
    write(KNOB, WRONG);
    let plan = site.output(&["plan", "--only", "extfrag-threshold", "--json"]);
    let file = site.place.folder.path().join("plan.json");
    std::fs::write(&file, &plan.stdout).unwrap();
    let file = file.display().to_string();
    let mut command = site.command(&["apply", "--yes", "--settle", "10m", &file]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    while read(KNOB) != DEFAULT {
        assert!(begun.elapsed().as_secs() < 120, "the plan was not applied");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let ended = site.output(&tune(&["--watch", "1s"]));
    let text = said(&ended);
    assert_eq!(ended.status.code(), Some(1), "{text}");
    for part in [
        "neither kept nor undone, so nothing was measured or changed",
        "was not applied completely; in force: vm.extfrag_threshold",
        "no timer undoes it",
        "to undo it: pagewise undo 1",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let undone = site.output(&["undo"]);
    assert_eq!((undone.status.code(), read(KNOB).as_str()), (Some(0), WRONG), "{}", said(&undone));
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
