// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `plan`: what it accepts and refuses, and the files that it writes for other tools.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use pagewise_model::plan::{Change, Plan};
use pagewise_testkit::scene::recording;

use crate::program::{empty_folder, run};

const SHORT: &str = "debian-trixie-6.12-x86_64-256m-oom-host";

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn the_document_the_text_and_the_difference_name_the_same_changes() {
    let archive = recording(SHORT);
    let root = ["--root", text(&archive)];
    let json = run(&[&["plan", "--json"][..], &root].concat());
    let plan: Plan = serde_json::from_str(&json.out).unwrap();
    let shown = run(&[&["plan"][..], &root].concat()).out;
    let diff = run(&[&["plan", "--diff"][..], &root].concat()).out;
    assert!(shown.contains(&plan.id) && !plan.steps.is_empty());
    for step in &plan.steps {
        assert!(shown.contains(&step.id), "{} is not in {shown}", step.id);
        if let Change::WriteFile { target, to, .. } = &step.change {
            assert!(diff.contains(&format!("+++ b{target}\n")), "{target} is not in {diff}");
            assert!(to.lines().all(|line| diff.contains(&format!("\n+{line}\n"))), "{diff}");
        }
    }
}

#[test]
fn what_is_not_known_or_not_measured_here_is_refused() {
    let folder = empty_folder();
    let path = folder.path().join("x.json");
    let archive = recording(SHORT);
    let with = |json: &str| {
        std::fs::write(&path, json).unwrap();
        run(&["plan", "--root", text(&archive), "--from", text(&path)])
    };
    let refused = with("{\"schema\": \"pagewise/report/1\"}");
    assert_eq!(refused.status, 1);
    assert!(refused.err.contains("expected the JSON output of bench"), "{}", refused.err);
    assert!(refused.err.contains("\n  next   give it the output"), "{}", refused.err);
    let elsewhere =
        "{\"schema\": \"pagewise/bench/1\", \"host\": {\"name\": {\"value\": \"elsewhere\"}}}";
    let refused = with(elsewhere);
    assert_eq!(refused.status, 1);
    assert!(refused.err.contains("measured on elsewhere"), "{}", refused.err);
    assert!(refused.err.contains("\n  next   "), "{}", refused.err);
    let unknown = run(&["plan", "--only", "swapiness"]);
    assert_eq!(unknown.status, 2);
    assert!(unknown.err.contains("swappiness"), "{}", unknown.err);
}

#[test]
fn native_files_are_written_into_an_empty_folder_of_ours_alone() {
    let folder = empty_folder();
    let new = folder.path().join("new");
    let ran = run(&["plan", "--interval", "0", "--native-only", text(&new)]);
    assert_eq!((ran.status, ran.out.as_str()), (0, ""), "{}", ran.err);
    assert!(new.is_dir());
    std::fs::write(folder.path().join("mine"), "").unwrap();
    let full = run(&["plan", "--interval", "0", "--native-only", text(folder.path())]);
    assert_eq!(full.status, 1);
    assert!(full.err.contains("expected an empty folder"), "{}", full.err);
    let open = folder.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
    let refused = run(&["plan", "--interval", "0", "--native-only", text(&open)]);
    assert_eq!(refused.status, 1);
    assert!(
        refused.err.contains("only you can write to") && refused.err.contains("0777"),
        "{}",
        refused.err
    );
    let archive = recording(SHORT);
    let of_recording = run(&["plan", "--root", text(&archive), "--native-only", text(&new)]);
    assert_eq!(of_recording.status, 1);
    assert!(of_recording.err.contains("--diff | patch"), "{}", of_recording.err);
}

#[test]
fn a_recording_is_rendered_and_what_is_missing_is_on_standard_error() {
    let archive = recording(SHORT);
    let root = ["plan", "--root", text(&archive)];
    let rendered = |more: &[&str]| run(&[&root[..], more].concat());
    let script = rendered(&["--render", "shell"]);
    assert_eq!(script.status, 0, "{}", script.err);
    assert!(script.out.starts_with("#!/bin/sh\n"), "{}", script.out);
    let talos =
        rendered(&["--render", "talos", "--want", "swappiness=150", "--want", "zram", "--anyway"]);
    assert_eq!(talos.status, 0, "{}", talos.err);
    assert!(talos.out.contains("\"vm.swappiness\": \"150\""), "{}", talos.out);
    assert!(talos.err.contains("Not possible on Talos"), "{}", talos.err);
    assert!(talos.out.contains("# Not possible on Talos"), "{}", talos.out);
    let nothing = rendered(&["--render", "bottlerocket", "--only", "zram"]);
    assert_eq!((nothing.status, nothing.out.as_str()), (1, ""), "{}", nothing.err);
    assert!(nothing.err.contains("a zram device"), "{}", nothing.err);
    let refused = rendered(&["--render", "shell", "-o", "script.sh"]);
    assert_eq!((refused.status, refused.out.as_str()), (1, ""));
    assert!(refused.err.contains("\n  next   pagewise plan --root"), "{}", refused.err);
}
