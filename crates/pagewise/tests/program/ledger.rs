// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise ledger` of a folder of state without one, with one, and with one that others can have written.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::program::{ProgramRun, empty_folder, finish, pagewise};
use crate::undo::line;

fn ledger(state: &Path, arguments: &[&str]) -> ProgramRun {
    finish(pagewise(&[&["ledger"], arguments].concat()).env("PAGEWISE_STATE", state))
}

fn entry(hit: bool) -> Value {
    json!({
        "event": "measured", "time": "2026-11-23T14:02:33Z", "boot_id": null, "kernel": null,
        "plan": "00112233aabbccdd", "journal": "1", "applied_unix_seconds": 1, "step": "hugetlb",
        "metric": "hugetlb_pool_bytes", "predicted": 0.0, "interval": [0.0, 0.0], "before": 1_073_741_824.0,
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
    assert!(run.out.contains("changed or damaged do not count: 2."), "{}", run.out);
    assert!(run.out.contains("The last line is incomplete"), "{}", run.out);
    let document: Value = serde_json::from_str(&ledger(folder.path(), &["--json"]).out).unwrap();
    assert_eq!(document["entries"].as_array().unwrap().len(), 2);
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
