// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise scan` of a process whose mmap lock is held by a task that waits for something else.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use crate::machine::{Loans, pagewise, pagewise_json};
use pagewise_testkit::Target;

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
