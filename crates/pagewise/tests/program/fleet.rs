// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise fleet report` on folders of real recordings and documents, and on what is neither.

use std::fs;
use std::path::Path;

use pagewise_testkit::scene::recording;
use serde_json::Value;

use crate::program::run;

const MACHINES: [&str; 4] = [
    "debian-sid-7.2-x86_64-512m-zram-pressure",
    "debian-trixie-6.12-x86_64-512m-settings",
    "debian-trixie-6.12-x86_64-512m-swap-off",
    "debian12-6.18-x86_64-24g-zram-behind-file-used",
];

fn report(folder: &Path, more: &[&str]) -> (Value, String) {
    let ran = run(&[&["fleet", "report", folder.to_str().unwrap(), "--json"], more].concat());
    assert_eq!(ran.status, 0, "{}", ran.err);
    (serde_json::from_str(&ran.out).unwrap(), ran.err)
}

/// A machine is the same whether its recording or its document is read. Only the limits need the recording.
#[test]
fn a_document_says_of_a_machine_what_its_recording_says() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    for name in MACHINES {
        let source = recording(name);
        let place = folders[0].path().join(format!("{name}.tar"));
        fs::copy(&source, place).unwrap();
        let document = run(&["report", "--json", "--root", source.to_str().unwrap()]);
        fs::write(folders[1].path().join(format!("{name}.json")), document.out).unwrap();
    }
    let [mut recordings, mut documents] = folders.map(|folder| report(folder.path(), &[]).0);
    assert_eq!(recordings["machines"], 4);
    assert!(recordings["limits"]["too_low"].as_u64() > Some(0), "{recordings:#}");
    assert_eq!(documents["limits"], Value::Null);
    for document in [&mut recordings, &mut documents] {
        let document = document.as_object_mut().unwrap();
        ["limits", "cost"].iter().for_each(|key| _ = document.remove(*key));
    }
    assert_eq!(recordings, documents);
}

#[test]
fn what_is_no_machine_is_named_and_the_others_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("more")).unwrap();
    fs::copy(recording(MACHINES[2]), at("more/web\u{1b}[31m.tar")).unwrap();
    fs::write(at("none.json"), "{}").unwrap();
    fs::write(at("cut.json"), "{\"schema\": \"pagewise/report/1\", ").unwrap();
    fs::write(at("old.json"), "{\"schema\": \"pagewise/report/9\"}").unwrap();
    let deep = "[".repeat(100_000);
    fs::write(at("deep.json"), deep).unwrap();
    fs::write(at("text.tar"), "no archive").unwrap();
    let (document, _) = report(folder.path(), &[]);
    assert_eq!((&document["machines"], &document["unread_files"]), (&1.into(), &5.into()));
    let unread = document["unread"].as_array().unwrap();
    let files: Vec<&str> = unread.iter().map(|it| it["file"].as_str().unwrap()).collect();
    assert_eq!(files, ["cut.json", "deep.json", "none.json", "old.json", "text.tar"]);
    let ran = run(&["fleet", "report", folder.path().to_str().unwrap()]);
    assert!(ran.out.contains("not read") && ran.out.contains("pagewise/report/9"), "{}", ran.out);
    assert!(!ran.out.contains('\u{1b}'), "{}", ran.out);
    for (path, expected) in [("/dev/null", "Not a directory"), ("/nonexistent", "No such file")] {
        let ran = run(&["fleet", "report", path]);
        assert!(ran.status == 1 && ran.err.contains(expected), "{}", ran.err);
    }
    let empty = tempfile::tempdir().unwrap();
    let ran = run(&["fleet", "report", empty.path().to_str().unwrap()]);
    assert!(ran.status == 1 && ran.err.contains("pagewise capture"), "{}", ran.err);
}

#[test]
fn the_page_says_what_the_text_says() {
    let folder = tempfile::tempdir().unwrap();
    for name in MACHINES {
        fs::copy(recording(name), folder.path().join(format!("{name}.tar"))).unwrap();
    }
    let out = tempfile::tempdir().unwrap();
    let page = out.path().join("fleet.html");
    let ran = run(&[
        "fleet",
        "report",
        folder.path().to_str().unwrap(),
        "--html",
        page.to_str().unwrap(),
    ]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let html = fs::read_to_string(&page).unwrap();
    for part in ["4 machines", "Findings", "group-limit", "Groups", "What would gain"] {
        assert!(html.contains(part), "{part} is not in {html}");
    }
}
