// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise verify --history` with a state folder without a ledger, with one, and with one that other users
//! could have written.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::program::{ProgramRun, empty_folder, finish, pagewise};
use crate::undo::line;

fn ledger(state: &Path, arguments: &[&str]) -> ProgramRun {
    let run =
        |verb: &[&str]| finish(pagewise(&[verb, arguments].concat()).env("PAGEWISE_STATE", state));
    let history = run(&["verify", "--history"]);
    let former = run(&["ledger"]);
    assert_eq!((history.status, &history.err), (former.status, &former.err), "the former name");
    history
}

fn entry(hit: bool) -> Value {
    json!({
        "event": "measured", "time": "2026-11-23T14:02:33Z", "boot_id": null, "kernel": null,
        "plan": "00112233aabbccdd", "journal": "1", "applied_unix_seconds": 1, "step": "watermarks",
        "metric": "zone_high_watermark_bytes", "predicted": 0.0, "interval": [0.0, 0.0], "before": 1_073_741_824.0,
        "measured": 0.0, "hit": hit, "source": "a test", "evidence": [],
    })
}

#[test]
fn an_empty_ledger_says_what_fills_it() {
    let folder = empty_folder();
    for state in [folder.path().to_owned(), folder.path().join("none")] {
        let run = ledger(&state, &[]);
        assert_eq!(run.status, 0, "{}", run.err);
        assert!(run.out.contains("No predicted gain was measured"), "{}", run.out);
        assert!(run.out.contains("sudo pagewise verify"), "{}", run.out);
    }
    let document: Value = serde_json::from_str(&ledger(folder.path(), &["--json"]).out).unwrap();
    assert_eq!(document["schema"], "pagewise/ledger/1");
    assert_eq!((&document["entries"], &document["exact"]["share"]), (&json!([]), &json!(null)));
    assert!(document["cost"]["cpu_seconds"].is_number() && document["boot_id"].is_object());
}

#[test]
fn the_latest_measurement_counts_and_a_changed_line_does_not() {
    let folder = empty_folder();
    let path = folder.path().join("ledger");
    let mut changed = line(&entry(true));
    let at = changed.iter().position(|&byte| byte == b'4').unwrap();
    changed[at] = b'5';
    let lines =
        [line(&entry(false)), changed, line(&entry(true)), line(&entry(true))[..30].to_vec()];
    std::fs::write(&path, lines.concat()).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let run = ledger(folder.path(), &[]);
    assert_eq!(run.status, 0, "{}", run.err);
    assert!(run.out.contains("1 of 1 prediction came true"), "{}", run.out);
    assert!(run.out.contains("changed or damaged and do not count: 2."), "{}", run.out);
    assert!(run.out.contains("The last line is incomplete"), "{}", run.out);
    let document: Value = serde_json::from_str(&ledger(folder.path(), &["--json"]).out).unwrap();
    assert_eq!(document["entries"].as_array().unwrap().len(), 2);
}

/// Earlier versions counted what the step itself sets, which cannot miss.
#[test]
fn what_a_step_sets_is_shown_apart_and_does_not_count() {
    let folder = empty_folder();
    let path = folder.path().join("ledger");
    let mut area = entry(true);
    (area["metric"], area["step"]) = (json!("swap_area_bytes"), json!("zram"));
    std::fs::write(&path, [line(&entry(false)), line(&area)].concat()).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let run = ledger(folder.path(), &[]);
    assert!(run.out.contains("0 of 1 prediction came true"), "{}", run.out);
    assert!(run.out.contains("Not counted: 1 of 1 entry of earlier versions"), "{}", run.out);
    assert!(run.out.contains("as set") && !run.out.contains("hit "), "{}", run.out);
    let document: Value = serde_json::from_str(&ledger(folder.path(), &["--json"]).out).unwrap();
    let numbers = |key: &str| (document[key]["hits"].clone(), document[key]["predictions"].clone());
    assert_eq!(numbers("exact"), (json!(0), json!(1)));
    assert_eq!(numbers("set_by_step"), (json!(1), json!(1)));
}

/// A plan may come from anybody, and a terminal executes escape sequences.
#[test]
fn names_of_plans_reach_no_terminal_as_they_are() {
    let folder = empty_folder();
    let path = folder.path().join("ledger");
    let mut hostile = entry(true);
    for key in ["time", "plan", "journal", "step", "metric", "source"] {
        hostile[key] = json!("\u{1b}[2J\u{9b}31m\u{202e}x");
    }
    std::fs::write(&path, line(&hostile)).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    for arguments in [&[][..], &["--json"]] {
        let run = ledger(folder.path(), arguments);
        assert_eq!(run.status, 0, "{}", run.err);
        let is_harmful = |it: char| (it.is_control() && it != '\n') || it == '\u{202e}';
        assert!(!run.out.contains(is_harmful), "{:?}", run.out);
    }
}

#[test]
fn a_ledger_that_others_can_have_written_is_refused() {
    let folder = empty_folder();
    let path = folder.path().join("ledger");
    std::fs::write(&path, line(&entry(true))).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o622)).unwrap();
    let run = ledger(folder.path(), &[]);
    assert_eq!(run.status, 1);
    assert!(run.err.contains("others may write to it (mode 0622)"), "{}", run.err);
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
    let run = ledger(folder.path(), &[]);
    assert!(run.err.contains("a symbolic link, not a plain file"), "{}", run.err);
    let run = finish(&mut pagewise(&["ledger", "--root", "/"]));
    assert_eq!(run.status, 1);
    assert!(run.err.contains("a recording has no ledger"), "{}", run.err);
}

/// Writes the journal of a plan that changes nothing here and predicts watermarks of one byte.
fn plant_plan(state: &Path, is_applied: bool) {
    let read = |path: &str| std::fs::read_to_string(path).unwrap().trim().to_owned();
    let (present, boot) =
        (read("/proc/sys/vm/extfrag_threshold"), read("/proc/sys/kernel/random/boot_id"));
    let step = json!({
        "id": "knob", "action": "set-knob", "target": "vm.extfrag_threshold", "from": "1", "to": present,
        "reason": "a test", "finding": null, "risk": "none", "cost": null, "coupled": [], "needs": [],
        "expected": {
            "metric": "zone_high_watermark_bytes", "value": 1.0, "interval": [0.5, 1.5], "source": "a test",
        },
        "undo": {"how": "restore", "what": "all"}, "survives_reboot": false,
    });
    let machine = json!({"machine_id_hash": null, "memory_total_bytes": null, "kernel": null});
    let plan = json!({
        "id": "00112233aabbccdd", "goal": "balanced", "machine": machine, "steps": [step], "declined": [],
    });
    let planned = json!({
        "event": "planned", "boot_id": boot, "pid": 1, "unix_seconds": 7, "pagewise": "0.1.0", "plan": plan,
    });
    let applied = is_applied.then(|| json!({"event": "applied"}));
    let lines: Vec<u8> = [planned].iter().chain(&applied).flat_map(line).collect();
    let path = state.join(format!("00000001.{boot}.plan"));
    std::fs::write(&path, lines).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
}

fn verify(state: &Path, arguments: &[&str]) -> Value {
    let mut command = pagewise(&[&["verify", "--json"], arguments].concat());
    let run = finish(command.env("PAGEWISE_STATE", state).env("PAGEWISE_LOCK", state.join("run")));
    assert_eq!(run.status, 0, "a miss is no drift: {}", run.err);
    serde_json::from_str(&run.out).unwrap()
}

#[test]
fn verify_measures_what_applied_plans_predicted_and_adds_it_to_the_ledger() {
    let folder = empty_folder();
    let state = folder.path().join("state");
    std::fs::create_dir(&state).unwrap();
    std::fs::set_permissions(&state, Permissions::from_mode(0o700)).unwrap();
    plant_plan(&state, false);
    let interrupted = verify(&state, &[]);
    assert_eq!(interrupted["plans"][0]["gains"], json!([]), "it was not carried out whole");
    plant_plan(&state, true);
    assert_eq!(verify(&state, &["--no-ledger"])["ledger"]["added"], 0);
    assert!(!state.join("ledger").exists());
    for _ in 0..2 {
        let verified = verify(&state, &[]);
        assert_eq!(verified["schema"], "pagewise/verify/1");
        assert!(verified["kernel"].is_object() && verified["cost"].is_object());
        let gain = &verified["plans"][0]["gains"][0];
        assert_eq!((&gain["state"], &gain["hit"]), (&json!("measured"), &json!(false)));
        assert_eq!(verified["ledger"], json!({"added": 1, "not_added": null}));
    }
    let document: Value = serde_json::from_str(&ledger(&state, &["--json"]).out).unwrap();
    let entries = document["entries"].as_array().unwrap();
    assert_eq!((entries.len(), &entries[0]["applied_unix_seconds"]), (2, &json!(7)));
    let rate = &document["estimates"];
    assert_eq!((&rate["predictions"], &rate["hits"]), (&json!(1), &json!(0)), "it counts once");
}

fn verify_run(state: &Path, arguments: &[&str]) -> ProgramRun {
    let mut command = pagewise(&[&["verify", "--json"], arguments].concat());
    finish(command.env("PAGEWISE_STATE", state).env("PAGEWISE_LOCK", state.join("run")))
}

#[test]
fn verify_fails_if_a_step_cannot_be_compared() {
    let folder = empty_folder();
    let state = folder.path().join("state");
    std::fs::create_dir(&state).unwrap();
    let plan = json!({
        "id": "00112233aabbccdd", "goal": "balanced", "declined": [],
        "machine": {"machine_id_hash": null, "memory_total_bytes": null, "kernel": null},
        "steps": [{
            "id": "knob", "action": "set-knob", "target": "vm.no_such_setting", "from": "1", "to": "2",
            "reason": "a test", "finding": null, "risk": "none", "cost": null, "coupled": [], "needs": [],
            "expected": null, "undo": {"how": "restore", "what": "all"}, "survives_reboot": false,
        }],
    });
    let path = folder.path().join("plan.json");
    std::fs::write(&path, plan.to_string()).unwrap();
    let run = verify_run(&state, &[path.to_str().unwrap()]);
    assert_eq!(run.status, 1, "{} {}", run.out, run.err);
    assert!(run.err.contains("plan 00112233aabbccdd step knob: "), "{}", run.err);
}

#[test]
fn verify_lists_a_journal_that_is_not_believed() {
    let folder = empty_folder();
    let state = folder.path().join("state");
    std::fs::create_dir(&state).unwrap();
    std::fs::set_permissions(&state, Permissions::from_mode(0o700)).unwrap();
    plant_plan(&state, true);
    let run = verify_run(&state, &["--no-ledger"]);
    let known: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((run.status, &known["unbelieved"]), (0, &json!([])), "{}", run.err);

    assert_eq!(known["plans"][0]["steps"][0]["is_superseded"], json!(false));
    let journal = std::fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().path());
    let journal =
        journal.into_iter().find(|it| it.extension().is_some_and(|it| it == "plan")).unwrap();
    let bytes = [std::fs::read(&journal).unwrap(), b"{\"x\":1}\n".to_vec()].concat();
    std::fs::write(&journal, bytes).unwrap();
    let run = verify_run(&state, &["--no-ledger"]);
    let document: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((run.status, &document["unbelieved"][0]["id"]), (1, &json!("1")), "{document:#}");
    assert_eq!(document["unbelieved"][0]["journal"], json!(journal.display().to_string()));
}
