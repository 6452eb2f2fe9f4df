// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise scan` of a process whose mmap lock is held by a task that waits for something else, and
//! `pagewise pin` of a process that has mapped a file whose server does not answer.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::machine::{Loans, pagewise, pagewise_json};
use pagewise_testkit::Target;

/// `pin` names a mapped file whose server does not answer, and does not open it.
#[test]
fn a_mapped_file_whose_server_does_not_answer_is_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let mount = folder.path().to_str().unwrap();
    let mut loans = Loans::new();
    // also frees whoever waits for the server
    loans.promise(&format!("umount --lazy --force '{mount}'"));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/root/server.py");
    let mut server = Command::new("python3")
        .args([script, mount, "code"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut answers = BufReader::new(server.stdout.take().unwrap());
    let mut pid = String::new();
    answers.read_line(&mut pid).unwrap();
    let pid: u32 = pid.trim().parse().expect(&pid);
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    assert!(maps.lines().any(|line| line.contains(" r-xp ") && line.contains(mount)), "{maps}");

    let mut pin = Command::new(env!("CARGO_BIN_EXE_pagewise"))
        .args(["pin", "--json", "--for", "1s", "--pid", &pid.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(120);
    while pin.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "pin waits for the server");
        std::thread::sleep(Duration::from_millis(20));
    }
    let printed = pin.wait_with_output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&printed.stdout).unwrap();
    let left_out = document["pin"]["left_out"].as_str().expect("a reason");
    assert!(left_out.contains("is in a file system of type fuse"), "{left_out}");
    assert!(left_out.contains(&format!("{mount}/file is not opened")), "{left_out}");
    assert!(document["pin"]["locked"].as_u64().is_some_and(|bytes| bytes > 0), "{document:#}");

    drop(server.stdin.take());
    let mut asked = String::new();
    answers.read_to_string(&mut asked).unwrap();
    assert_eq!(asked, "not asked\n");
    server.wait().unwrap();
}

#[test]
fn who_does_not_answer_is_left_behind_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let mount = folder.path().to_str().unwrap();
    let mut loans = Loans::new();
    // also frees the stuck process, because no server answers any more
    loans.promise(&format!("umount --lazy --force '{mount}'"));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/root/server.py");
    let mut server = Command::new("python3")
        .args([script, mount])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = String::new();
    let mut answers = BufReader::new(server.stdout.take().unwrap());
    answers.read_line(&mut output).unwrap();
    let stuck: u32 = output.trim().parse().expect(&output);
    let (stuck, other) = (stuck.to_string(), Target::start("hold 1"));

    let alone = pagewise(&["scan", "--pid", &stuck]);
    assert_eq!(alone.status.code(), Some(1));
    let complaint = String::from_utf8(alone.stderr).unwrap();
    assert!(complaint.contains("something holds its memory lock"), "{complaint}");

    let other = other.pid().to_string();
    let both = ["scan", "--json", "--exact", "--pid", &stuck, "--pid", &other];
    let document = pagewise_json(&both, &[0]);
    let whole = &document["estimates"][0];
    assert!(whole["sampled_pages"].as_u64().is_some_and(|pages| pages > 256), "{document:#}");
    let why = whole["partial"].as_str().expect("a reason");
    assert!(why.starts_with("a process did not answer"), "{why}");
    assert!(document["notes"].to_string().contains("1 process not read"), "{document:#}");

    drop(server.stdin.take());
    server.wait().unwrap();
    answers.read_to_string(&mut output).unwrap();
}
