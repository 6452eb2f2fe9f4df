// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise undo` where nothing was borrowed, and where its folder is not as it should be. Needs no
//! privilege; what it puts back is in `root_loans.rs`.

use std::path::Path;

use crate::program::{Ran, empty_folder, finish, pagewise};

fn undo(state: &Path, arguments: &[&str]) -> Ran {
    finish(pagewise(&[&["undo"], arguments].concat()).env("PAGEWISE_STATE", state))
}

#[test]
fn where_nothing_was_borrowed_there_is_nothing_to_put_back() {
    let folder = empty_folder();
    let state = folder.path().join("state");
    let ran = undo(&state, &[]);
    assert_eq!((ran.status, ran.out.as_str()), (0, "nothing to put back\n"), "{}", ran.err);
    assert!(!state.exists(), "looking makes no folder");
    let document: serde_json::Value = serde_json::from_str(&undo(&state, &["--json"]).out).unwrap();
    assert_eq!(document["schema"], "pagewise/undo/1");
    assert_eq!(document["runs"].as_array().map(Vec::len), Some(0));
}

/// It may hold anything: nothing of it is believed, it stays, and is named.
#[test]
fn a_damaged_journal_is_named_and_kept() {
    let folder = empty_folder();
    let journal = folder.path().join("00000001.journal");
    std::fs::write(&journal, b"nonsense\nmore of it\n").unwrap();
    let ran = undo(folder.path(), &[]);
    assert_eq!(ran.status, 1);
    assert!(ran.out.contains("00000001.journal: line 1 is damaged"), "{}{}", ran.out, ran.err);
    assert_eq!(std::fs::read(&journal).unwrap(), b"nonsense\nmore of it\n");
}

#[test]
fn a_run_that_was_killed_before_it_took_anything_left_nothing() {
    let folder = empty_folder();
    std::fs::write(folder.path().join("00000001.journal"), br#"{"record":{"event":"began","#)
        .unwrap();
    let ran = undo(folder.path(), &[]);
    assert_eq!((ran.status, ran.out.as_str()), (0, "nothing to put back\n"), "{}", ran.err);
    assert!(!folder.path().join("00000001.journal").exists());
}

#[test]
fn what_cannot_be_done_says_why_and_what_to_do() {
    let folder = empty_folder();
    let ran = undo(folder.path(), &["--root", "fixtures"]);
    assert!(
        ran.status == 1 && ran.err.contains("a recording has nothing to put back"),
        "{}",
        ran.err
    );
    let file = folder.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let ran = undo(&file, &[]);
    assert!(ran.status == 1 && ran.err.contains("PAGEWISE_STATE"), "{}", ran.err);
}
