// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise bench` on this machine: real devices and real swap, and nothing is left behind.

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::machine::{Lent, Loans, Thing, pagewise_json, read};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Settings that bench changes temporarily.
#[derive(Debug, PartialEq)]
struct Settings {
    page_cluster: String,
    zswap: Vec<String>,
}

impl Settings {
    fn now() -> Self {
        Self { page_cluster: read("/proc/sys/vm/page-cluster"), zswap: zswap_parameters() }
    }
}

/// zswap's parameters, each as `name=value`; empty if the kernel has no zswap.
fn zswap_parameters() -> Vec<String> {
    let files = std::fs::read_dir("/sys/module/zswap/parameters").into_iter().flatten().flatten();
    let value = |file: std::fs::DirEntry| {
        let name = file.file_name().into_string().unwrap();
        format!("{name}={}", read(file.path().to_str().unwrap()))
    };
    let mut all: Vec<String> = files.map(value).collect();
    all.sort_unstable();
    all
}

/// The state folder of bench; dropping it runs `undo`, whatever happens to the test.
struct State {
    // these two are dropped first, because they need the folder
    _loans: Loans,
    lent: Lent,
    folder: tempfile::TempDir,
    before: Settings,
}

impl State {
    fn new() -> Self {
        let folder = pagewise_testkit::folder_on_disk();
        let mut loans = Loans::new();
        let (program, path) = (env!("CARGO_BIN_EXE_pagewise"), folder.path().display());
        loans.promise(&format!(
            "PAGEWISE_LOCK='{path}' PAGEWISE_STATE='{path}/state' '{program}' undo > /dev/null || true"
        ));
        let lent = Lent::by_runs_in(&folder.path().join("state"));
        Self { _loans: loans, lent, folder, before: Settings::now() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pagewise"));
        command.args(arguments).env("PAGEWISE_STATE", self.folder.path().join("state"));
        command.env("PAGEWISE_LOCK", self.folder.path());
        command
    }

    fn bench(&self, arguments: &[&str]) -> Command {
        self.command(&[&["bench"], arguments].concat())
    }

    /// Checks that bench created a device, and that nothing is left of its changes.
    #[track_caller]
    fn assert_all_is_back(&self) {
        self.lent.assert_zram_went_back();
        assert_eq!(Settings::now(), self.before);
    }
}

/// The asserted limits hold under any load of the machine.
#[test]
fn bench_measures_this_kernels_algorithms_block_by_block_and_in_swap() {
    let state = State::new();
    let mix = ["--quick", "--size", "16M", "--mix", "text:80,random:20", "--json"];
    let output = state.bench(&mix).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    state.assert_all_is_back();
    let message: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(message["layer"], "zram");

    let offered = read("/sys/block/zram0/comp_algorithm").replace(['[', ']'], "");
    let offered: BTreeSet<&str> = offered.split_whitespace().collect();
    let rows = message["rows"].as_array().unwrap();
    let measured: BTreeSet<&str> =
        rows.iter().map(|row| row["algorithm"].as_str().unwrap()).collect();
    assert_eq!(measured, offered);
    for row in rows {
        let ratio = row["original_per_compressed"].as_f64().unwrap();
        assert!((1.2..3.0).contains(&ratio), "{row}");
        assert!(row["p50_ns"].as_f64() <= row["p99_ns"].as_f64(), "{row}");
        assert!(row["kernel_ns_per_io"].as_f64() <= row["cpu_ns_per_io"].as_f64(), "{row}");
    }
    let faults = message["faults"].as_array().unwrap();
    assert!(!faults.is_empty(), "{}", message["not_measured"]);
    assert!(faults.iter().all(|row| row["wrong_pages"] == 0));
}

/// Whichever algorithms zswap has: missing ones are named, and zram is measured anyway.
#[test]
fn bench_measures_zswap_beside_zram_with_the_algorithms_that_it_has() {
    let state = State::new();
    let words = ["--quick", "--size", "4M", "--mix", "text:80,random:20", "--zswap", "--json"];
    let output = state.bench(&words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    state.assert_all_is_back();
    let message: Value = serde_json::from_slice(&output.stdout).unwrap();
    let not_measured = message["not_measured"].to_string();
    let is_random = |row: &&Value| row["memory"] == "private" && row["access"] == "random";
    let stores = |kind: &str| -> BTreeSet<String> {
        let all = message["swap_out"].as_array().unwrap().iter();
        let its = all.filter(|row| row["store"] == kind);
        its.map(|row| row["algorithm"].as_str().unwrap().to_owned()).collect()
    };
    let (zram, zswap) = (stores("zram"), stores("zswap"));
    assert!(!zram.is_empty(), "{not_measured}");
    assert_eq!(zswap.is_empty(), state.before.zswap.is_empty(), "{not_measured}");
    if zswap.is_empty() {
        assert!(not_measured.contains("swap with zswap"), "{not_measured}");
        return;
    }
    let missing: Vec<&String> = zram.difference(&zswap).collect();
    let is_named = |name: &&&String| not_measured.contains(name.as_str());
    assert_eq!(missing.iter().filter(is_named).count(), missing.len(), "{not_measured}");

    let faults = message["faults"].as_array().unwrap();
    for row in faults.iter().filter(|row| row["store"] == "zswap") {
        let count = |name: &str| row[name].as_u64().unwrap_or_else(|| panic!("{name}: {row}"));
        assert_eq!(count("wrong_pages"), 0, "{row}");
        let pages = count("swapped_out_pages");
        let written = row["backing"]["written_pages"].as_u64().unwrap();
        assert!(pages > 0 && written <= pages, "{row}");
        assert!(row["backing"]["read_pages"].as_u64().unwrap() <= written, "{row}");
        // text takes at most half a page, random data a whole page if zswap stores it
        let pool = row["pool_bytes_per_page"].as_f64().unwrap();
        assert!((200.0..4500.0).contains(&pool), "{row}");
    }
    for one in message["store_comparisons"].as_array().unwrap().iter().filter(is_random) {
        let share = one["backing_share"].as_f64().unwrap();
        for cost in ["out_cpu", "in_cpu", "touch", "pool"] {
            let ratio = one[cost]["zswap_per_zram"].as_f64().unwrap();
            let spread = [0, 1].map(|end| one[cost]["spread"][end].as_f64().unwrap());
            assert!(spread[0] <= ratio && ratio <= spread[1] && spread[0] > 0.0, "{one}");
            assert_eq!(one[cost]["verdict"] == "not_judged", share > 0.01, "{one}");
        }
    }
    let compared = message["store_comparisons"].as_array().unwrap().iter().filter(is_random);
    let compared: BTreeSet<&str> = compared.map(|one| one["algorithm"].as_str().unwrap()).collect();
    assert_eq!(compared, zram.intersection(&zswap).map(String::as_str).collect());

    let is_in_order = |row: &&Value| {
        row["store"] == "zswap" && row["memory"] == "private" && row["access"] == "sequential"
    };
    let at_3 = faults.iter().filter(is_in_order).find(|row| row["page_cluster"] == 3);
    let per_fault = at_3.and_then(|row| row["pages_per_fault"].as_f64());
    let on_zram = faults.iter().any(|row| row["backing"]["is_zram"] == true);
    // from a zram device behind zswap, the kernel does not read private memory ahead
    let expected = if on_zram { 0.9..1.1 } else { 4.0..8.1 };
    assert!(
        per_fault.is_some_and(|pages| expected.contains(&pages)),
        "{at_3:?} {not_measured} {faults:?}"
    );

    // each case is measured, or the output says why not: no disk, or cgroup v1
    let writebacks = message["writebacks"].as_array().unwrap();
    assert_eq!(writebacks.is_empty(), not_measured.contains("writing back from zswap"));
    assert!(writebacks.iter().all(|one| one["written_pages"].as_u64() > Some(0)), "{writebacks:?}");
}

#[test]
fn bench_that_is_killed_leaves_nothing_after_the_next_start() {
    let state = State::new();
    let has_device = |lent: &[Thing]| lent.iter().any(|it| matches!(it, Thing::Zram { .. }));
    let has_swap = |lent: &[Thing]| lent.iter().any(|it| matches!(it, Thing::Swap { .. }));
    let mix = ["--quick", "--size", "4M", "--mix", "text:100"];
    // killed while it fills, measures, and swaps; each start restores what the previous run left
    for (lent, milliseconds) in [
        (&has_device as &dyn Fn(&[Thing]) -> bool, 0),
        (&has_device, 100),
        (&has_device, 700),
        (&has_device, 2500),
        (&has_swap, 0),
    ] {
        let left = state.lent.there();
        let own = || {
            let there = state.lent.there();
            let is_left = there.iter().any(|thing| left.contains(thing));
            if is_left { Vec::new() } else { there }
        };
        let mut run = Running::start(&mut state.bench(&mix));
        run.wait_until(|| lent(&own()));
        std::thread::sleep(Duration::from_millis(milliseconds));
        run.kill_while(|| lent(&own()));
        assert!(lent(&own()), "killed after {milliseconds} ms, it leaves nothing");
    }
    let undo = state.command(&["undo", "--json"]).output().unwrap();
    assert!(undo.status.success(), "{}", String::from_utf8_lossy(&undo.stderr));
    state.assert_all_is_back();
}

/// A bench that is killed when the test ends.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Waits until `so` is true, which must happen before the process ends.
    fn wait_until(&mut self, so: impl Fn() -> bool) {
        let until = Instant::now() + Duration::from_secs(120);
        while !so() {
            assert!(Instant::now() < until, "waited for two minutes");
            assert_eq!(self.0.try_wait().unwrap(), None, "it has ended before");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Kills it while `so` is true: it is stopped first, so that nothing changes in between.
    fn kill_while(&mut self, so: impl Fn() -> bool) {
        let pid = self.0.id().to_string();
        for _ in 0..100 {
            self.wait_until(&so);
            crate::machine::run("kill", &["-STOP", &pid]);
            self.wait_until(|| all_threads_stand(&pid));
            if so() {
                self.0.kill().unwrap();
                self.0.wait().unwrap();
                return;
            }
            crate::machine::run("kill", &["-CONT", &pid]);
        }
        panic!("stopped a hundred times, and never while it was so");
    }
}

/// Whether all threads of the stopped process have stopped: a thread in a system call completes
/// that first.
fn all_threads_stand(pid: &str) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let mut stats = threads.flat_map(|thread| std::fs::read_to_string(thread.path().join("stat")));
    stats.all(|stat| stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" T")))
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The processes that bench started in order to swap them out.
fn workers(bench: u32) -> Vec<Pid> {
    let children = std::fs::read_to_string(format!("/proc/{bench}/task/{bench}/children"));
    let children = children.unwrap_or_default();
    let is_worker = |pid: &&str| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.starts_with(b"PAGEWISE_FAULTS=")
    };
    let workers = children.split_whitespace().filter(is_worker);
    workers.filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

/// Kills them with SIGABRT, as a panic of the release build would.
#[test]
fn bench_says_that_workers_crashed_and_gives_back_what_they_used() {
    let state = State::new();
    let mix = ["--quick", "--size", "4M", "--mix", "text:100", "--json"];
    let answer = state.folder.path().join("answer");
    let out = std::fs::File::create(&answer).unwrap();
    let mut run = Running(state.bench(&mix).stdout(out).stderr(Stdio::null()).spawn().unwrap());
    let (until, mut ended) = (Instant::now() + Duration::from_secs(600), 0);
    let status = loop {
        for worker in workers(run.0.id()) {
            ended += u32::from(kill_process(worker, Signal::ABORT).is_ok());
        }
        if let Some(status) = run.0.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < until, "waited for ten minutes");
        std::thread::sleep(Duration::from_millis(2));
    };
    let message: Value = serde_json::from_str(&read(answer.to_str().unwrap())).unwrap();
    assert!(status.success() && ended > 0, "{status}, {ended} workers");
    let not_measured = message["not_measured"].to_string();
    assert!(not_measured.contains("the worker was ended by signal 6"), "{not_measured}");
    assert!(!message["rows"].as_array().unwrap().is_empty(), "the block layer needs no worker");
    state.assert_all_is_back();
}

#[test]
fn bench_says_what_a_second_one_has_to_wait_for() {
    let state = State::new();
    let mix = ["--quick", "--size", "4M", "--mix", "text:100", "--no-swap"];
    let mut first = Running::start(&mut state.bench(&mix));
    // the lock is taken before the first device is created
    first.wait_until(|| state.lent.has_zram());
    // the first bench must not end before the second one has tried
    let pid = Pid::from_child(&first.0);
    kill_process(pid, Signal::STOP).unwrap();
    let second = state.bench(&mix).output().unwrap();
    let output = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(1), "{output}");
    assert!(output.contains(&first.0.id().to_string()), "{output}");
    kill_process(pid, Signal::CONT).unwrap();
    assert!(first.0.wait().unwrap().success());
    state.assert_all_is_back();
}

#[test]
fn bench_goes_on_without_an_algorithm_that_the_kernel_refuses() {
    let state = State::new();
    let arguments =
        ["--quick", "--size", "1M", "--mix", "text:100", "--no-swap", "--json", "--algorithm"];
    let output =
        state.bench(&[&arguments[..], &["nonsense", "--algorithm", "lz4"]].concat()).output();
    let message: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    assert_eq!(message["not_measured"][0]["what"], "nonsense", "{}", message["not_measured"]);
    assert!(message["rows"].as_array().unwrap().iter().all(|row| row["algorithm"] == "lz4"));
    state.assert_all_is_back();
    let status = pagewise_json(&["status", "--json"], &[0]);
    assert!(status["zram"].is_array());
}
