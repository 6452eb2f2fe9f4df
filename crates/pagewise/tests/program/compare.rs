// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Comparing recordings, and recording over time, without privileges.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use pagewise_testkit::scene::recording as fixture;
use serde_json::Value;

use crate::program::{empty_folder, finish, pagewise, run, run_in};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn fixtures() -> [PathBuf; 2] {
    ["debian12-6.18-x86_64-24g-zram-swap", "debian12-6.18-x86_64-24g-zram-swap-used"].map(fixture)
}

#[test]
fn two_recordings_are_compared_in_text_and_json() {
    let [before, after] = fixtures();
    let ran = run(&["compare", text(&before), text(&after)]);
    assert_eq!((ran.status, ran.err.as_str()), (0, ""));
    for part in ["68 min apart, the same boot", "Did it help?", "no experiment", "swapped out"] {
        assert!(ran.out.contains(part), "{part} is not in {}", ran.out);
    }
    let document = run(&["compare", "--json", text(&before), text(&after)]).out;
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["schema"], "pagewise/comparison/1");
    assert_eq!(document["relation"], "same-boot");
    assert_eq!(document["host"]["root"], text(&after));
}

#[test]
fn machines_that_differ_are_said_first() {
    let [before, _] = fixtures();
    let other = fixture("debian-sid-7.2-x86_64-512m-zram-full");
    let ran = run(&["compare", text(&before), text(&other)]);
    assert_eq!(ran.status, 0);
    let head: String = ran.out.lines().take(6).collect::<Vec<&str>>().join(" ");
    assert!(
        head.contains("two different machines: ") && head.contains("RAM is 23.5 GiB"),
        "{head}"
    );
    assert!(!ran.out.contains("between     in all"), "{}", ran.out);
}

/// The recording is recognised as one of the same boot, although it does not contain the boot ID.
#[test]
fn a_recording_is_compared_with_the_machine() {
    let folder = empty_folder();
    let made = run_in(folder.path(), &["capture", "-q", "-o", "x.tar.zst", "--interval", "50ms"]);
    assert_eq!(made.status, 0, "{}", made.err);
    let ran = run_in(folder.path(), &["compare", "x.tar.zst", "--interval", "50ms", "--json"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let document: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(document["relation"], "same-boot", "{}", document["reasons"]);
    assert!(document["seconds"].as_f64().unwrap() > 0.0);
    let settings = document["settings"].as_array().unwrap();
    assert!(settings.iter().all(|it| it["name"] != "kernel"), "{settings:?}");
}

#[test]
fn what_cannot_be_compared_is_refused_with_a_way_on() {
    let folder = empty_folder();
    let made = run_in(folder.path(), &["capture", "-q", "-o", "x.tar.zst", "--interval", "0"]);
    assert_eq!(made.status, 0, "{}", made.err);
    let whole = std::fs::read(folder.path().join("x.tar.zst")).unwrap();
    std::fs::write(folder.path().join("cut"), &whole[..whole.len() * 2 / 3]).unwrap();
    std::fs::write(folder.path().join("other"), "no recording\n").unwrap();
    for (arguments, expected) in [
        (vec!["compare", "cut", "x.tar.zst"], "cut: expected a whole archive, found"),
        (vec!["compare", "x.tar.zst", "cut"], "cut: expected a whole archive, found"),
        (vec!["compare", "x.tar.zst", "none"], "none: No such file"),
        (vec!["compare", "other", "x.tar.zst"], "other: expected a recording"),
        (vec!["compare", "x.tar.zst", "--root", "x.tar.zst"], "as arguments, not with --root"),
    ] {
        let ran = run_in(folder.path(), &arguments);
        assert_eq!((ran.status, ran.out.as_str()), (1, ""), "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(expected) && ran.err.contains("\n  next   "), "{}", ran.err);
    }
    assert_eq!(run(&["compare"]).status, 2);
}

/// Escape sequences in file names are shown, not executed.
#[test]
fn escapes_in_names_are_shown() {
    let folder = empty_folder();
    let [before, after] = fixtures();
    let name = "a\x1b[2Jb.tar";
    std::fs::copy(before, folder.path().join(name)).unwrap();
    let ran = run_in(folder.path(), &["compare", name, text(&after)]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(ran.out.contains("a\\u{1b}[2Jb.tar") && !ran.out.contains('\x1b'), "{}", ran.out);
}

#[test]
fn a_recording_over_time_is_private_and_opens_as_its_last_readings() {
    let folder = empty_folder();
    let line = ["capture", "--every", "1s", "--for", "2s", "x.tar.zst", "--json"];
    let made = run_in(folder.path(), &line);
    assert_eq!(made.status, 0, "{}", made.err);
    let document: Value = serde_json::from_str(&made.out).unwrap();
    assert_eq!((&document["readings"], &document["ended"]), (&3.into(), &"whole".into()));
    let path = folder.path().join("x.tar.zst");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let status = run(&["report", "--json", "--root", text(&path)]);
    assert_eq!(status.status, 0, "{}", status.err);
    let report: Value = serde_json::from_str(&status.out).unwrap();
    let seconds = report["interval"]["seconds"].as_f64().unwrap();
    assert!((0.5..5.0).contains(&seconds), "{seconds}");
    let compared = run(&["compare", text(&path), "--json", "--interval", "0"]);
    let document: Value = serde_json::from_str(&compared.out).unwrap();
    assert_eq!(document["after"]["root"], text(&path), "{}", compared.err);
    assert_eq!(document["relation"], "same-boot");
}

#[test]
fn ctrl_c_ends_a_recording_early_and_keeps_it() {
    let folder = empty_folder();
    let mut command = pagewise(&["capture", "--every", "1s", "--for", "1h", "x.tar.zst"]);
    let child = command.current_dir(folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().unwrap();
    let path = folder.path().join("x.tar.zst");
    let begun = || std::fs::metadata(&path).is_ok_and(|file| file.len() > 0);
    let waited = (0..200).find(|_| {
        begun() || {
            std::thread::sleep(Duration::from_millis(100));
            false
        }
    });
    assert!(waited.is_some(), "no file after 20 s");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    let out = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && out.contains("ended early by Ctrl-C"), "{out}");
    let read = run(&["status", "-v", "--root", text(&path)]);
    assert_eq!(read.status, 0, "{}", read.err);
    assert!(!read.err.contains("whole archive"), "{}", read.err);
}

#[test]
fn what_cannot_be_recorded_is_refused_before_anything_is_written() {
    let folder = empty_folder();
    std::fs::write(folder.path().join("mine"), "mine").unwrap();
    for (arguments, status, expected) in [
        (vec!["--every", "10s", "--for", "5s", "x"], 1, "--for is shorter than --every"),
        (vec!["--every", "100ms", "--for", "5s", "x"], 1, "expected 1 s or more"),
        (vec!["--every", "1s", "--for", "9h", "x"], 1, "at most 8640 readings"),
        (vec!["--every", "1s", "--for", "2s", "--root", "mine"], 1, "has its times already"),
        (vec!["--every", "1s", "--for", "2s", "mine"], 1, "expected no file of that name"),
        (vec!["--every", "1s", "x"], 2, "--for"),
        (vec!["--every", "1s", "--for", "2s", "--folder", "x"], 2, "--folder"),
    ] {
        let ran = run_in(folder.path(), &[&["capture"], &arguments[..]].concat());
        assert_eq!(ran.status, status, "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(expected), "{arguments:?}: {}", ran.err);
        assert!(!folder.path().join("x").exists(), "{arguments:?}");
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("mine")).unwrap(), "mine");
}

/// A limit on file size simulates a full disk. The first reading takes more than 8 KiB, so with
/// that limit no file is left; with a higher one the complete readings are.
#[test]
fn a_full_disk_leaves_whole_readings() {
    let folder = empty_folder();
    let limited = |blocks: u64| {
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_pagewise"), "capture"]);
        command.args(["--every", "1s", "--for", "1h", "x.tar.zst"]);
        finish(command.current_dir(folder.path()))
    };
    let path = folder.path().join("x.tar.zst");
    let ran = limited(8);
    assert_eq!(ran.status, 1, "{}", ran.err);
    assert!(ran.err.contains("the unfinished file was removed") && !path.exists(), "{}", ran.err);
    let first = run_in(folder.path(), &["capture", "--every", "1s", "--for", "1s", "one.tar.zst"]);
    assert_eq!(first.status, 0, "{}", first.err);
    let length = std::fs::metadata(folder.path().join("one.tar.zst")).unwrap().len();
    // in blocks of 512 bytes: room for the first reading, and for a few more
    let ran = limited(length.div_ceil(512) + 6);
    assert_eq!(ran.status, 1, "{}", ran.err);
    assert!(ran.err.contains("whole readings") && ran.err.contains("\n  next   "), "{}", ran.err);
    let read = run(&["status", "-v", "--root", text(&path)]);
    assert_eq!(read.status, 0, "{}", read.err);
    assert!(read.err.contains("whole archive") && !read.out.is_empty(), "{}", read.err);
}
