// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise bench` on this machine: real devices, real swap, and nothing of it left.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::machine::{Loans, pagewise_json, read};
use serde_json::Value;

/// What a bench may touch of the machine.
#[derive(Debug, PartialEq)]
struct Left {
    devices: BTreeSet<String>,
    swaps: String,
    page_cluster: String,
}

impl Left {
    fn now() -> Self {
        let names = std::fs::read_dir("/sys/block").unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        Self {
            devices: names.filter(|name| name.starts_with("zram")).collect(),
            swaps: read("/proc/swaps"),
            page_cluster: read("/proc/sys/vm/page-cluster"),
        }
    }
}

/// A folder for the journal that is emptied by `undo`, whatever happens to the test.
fn state() -> (tempfile::TempDir, Loans) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut loans = Loans::new();
    let (program, path) = (env!("CARGO_BIN_EXE_pagewise"), folder.path().display());
    loans.promise(&format!("PAGEWISE_STATE='{path}' '{program}' undo > /dev/null || true"));
    (folder, loans)
}

fn bench(state: &tempfile::TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagewise"));
    command.arg("bench").args(arguments).env("PAGEWISE_STATE", state.path());
    command
}

/// Bounds that no load of the machine changes.
#[test]
fn bench_measures_this_kernels_algorithms_block_by_block_and_in_swap() {
    let (state, _loans) = state();
    let before = Left::now();
    let mix = ["--quick", "--size", "16M", "--mix", "text:80,random:20", "--json"];
    let output = bench(&state, &mix).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(Left::now(), before);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["layer"], "zram");

    let offered = read("/sys/block/zram0/comp_algorithm").replace(['[', ']'], "");
    let offered: BTreeSet<&str> = offered.split_whitespace().collect();
    let rows = said["rows"].as_array().unwrap();
    let measured: BTreeSet<&str> =
        rows.iter().map(|row| row["algorithm"].as_str().unwrap()).collect();
    assert_eq!(measured, offered);
    for row in rows {
        let ratio = row["original_per_compressed"].as_f64().unwrap();
        assert!((1.2..3.0).contains(&ratio), "{row}");
        assert!(row["p50_ns"].as_f64() <= row["p99_ns"].as_f64(), "{row}");
        assert!(row["kernel_ns_per_io"].as_f64() <= row["cpu_ns_per_io"].as_f64(), "{row}");
    }
    let faults = said["faults"].as_array().unwrap();
    assert!(!faults.is_empty(), "{}", said["not_measured"]);
    assert!(faults.iter().all(|row| row["wrong_pages"] == 0));
}

#[test]
fn bench_that_is_killed_leaves_nothing_after_the_next_start() {
    let (state, _loans) = state();
    let before = Left::now();
    // at moments spread over filling, measuring and swap
    for milliseconds in [120, 400, 900, 2500, 9500, 12_500] {
        let mix = ["--quick", "--size", "16M", "--mix", "text:100"];
        let mut child =
            bench(&state, &mix).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(milliseconds));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let undo = Command::new(env!("CARGO_BIN_EXE_pagewise"))
        .args(["undo", "--json"])
        .env("PAGEWISE_STATE", state.path())
        .output()
        .unwrap();
    assert!(undo.status.success(), "{}", String::from_utf8_lossy(&undo.stderr));
    assert_eq!(Left::now(), before);
}

#[test]
fn bench_says_what_a_second_one_has_to_wait_for() {
    let (state, _loans) = state();
    let mix = ["--quick", "--size", "16M", "--mix", "text:100", "--no-swap"];
    let mut first = bench(&state, &mix).stdout(Stdio::null()).spawn().unwrap();
    // the lock is taken before the first device is
    std::thread::sleep(Duration::from_secs(2));
    let second = bench(&state, &mix).output().unwrap();
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains(&first.id().to_string()), "{said}");
    assert!(first.wait().unwrap().success());
}

#[test]
fn bench_goes_on_without_an_algorithm_that_the_kernel_refuses() {
    let (state, _loans) = state();
    let before = Left::now();
    let arguments =
        ["--quick", "--size", "1M", "--mix", "text:100", "--no-swap", "--json", "--algorithm"];
    let output =
        bench(&state, &[&arguments[..], &["nonsense", "--algorithm", "lz4"]].concat()).output();
    let said: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    assert_eq!(said["not_measured"][0]["what"], "nonsense", "{}", said["not_measured"]);
    assert!(said["rows"].as_array().unwrap().iter().all(|row| row["algorithm"] == "lz4"));
    assert_eq!(Left::now(), before);
    let status = pagewise_json(&["status", "--json"], &[0]);
    assert!(status["zram"].is_array());
}
