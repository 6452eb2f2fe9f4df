// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise lab workload` with enough memory. Needs no privileges; what happens without enough
//! memory is tested in `tests/root/workload.rs`.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use pagewise_stats::SAID;
use pagewise_workload::{Workload, WorkloadSummary, parse_summary};

use crate::program::{empty_folder, finish, pagewise, run};

const SWAP: [&str; 6] = ["swap", "data=8M", "code=2M", "window=1M", "step=4K", "iterations=20"];
const COLD: [&str; 5] = ["coldpages", "data=4M", "library=1M", "stream=1M", "operations=20000"];
const TIERS: [&str; 4] = ["tiers", "cold=1M", "hot=2M", "operations=4000"];
const REDIS: [&str; 3] = ["redis", "records=2000", "requests=1000"];

fn answer(arguments: &[&str]) -> WorkloadSummary {
    let ran = run(&[&["lab", "workload"], arguments].concat());
    assert_eq!((ran.status, ran.err.as_str()), (0, ""));
    let message = parse_summary(&ran.out).expect("its last line");
    assert!(ran.out.trim_end().lines().next_back().unwrap().starts_with("{\"workload\":"));
    let known = |name: &String| SAID.iter().any(|known| known.name == name);
    assert!(message.values.keys().all(known), "{message:?}");
    assert!(message.values.values().all(|value| value.is_finite() && *value >= 0.0), "{message:?}");
    message
}

#[test]
fn swap_says_how_its_iterations_went() {
    let message = answer(&[&SWAP[..], &["shared=true", "parts=3", "contents=zero:100"]].concat());
    assert_eq!((message.workload.as_str(), message.values["operations"]), ("swap", 20.0 * 256.0));
    assert_eq!(message.course.iteration_seconds.len(), 20);
    let in_steady_state = 256 * (20 - u64::from(message.course.settled_at.unwrap_or(10)));
    let counted: u64 = message.course.latency_ns.iter().map(|(_, count)| count).sum();
    assert_eq!(counted, in_steady_state);
    assert!(message.values["p50"] <= message.values["p99"]);
}

#[test]
fn coldpages_says_what_was_kept_and_no_precision_where_nothing_was_evicted() {
    let message = answer(&[&COLD[..], &["sharers=4", "write_share=0"]].concat());
    assert_eq!(message.values["operations"], 20_000.0);
    assert!(
        message.values["cold-kept"] > 0.0 && !message.values.contains_key("precision"),
        "{message:?}"
    );
}

/// The lines for which experiments wait come before the result.
#[test]
fn tiers_says_when_its_memory_is_written_and_where_its_second_half_begins() {
    let message = answer(&[&TIERS[..], &["cold_share=0.5", "exponent=0.9"]].concat());
    assert_eq!((message.workload.as_str(), message.values["operations"]), ("tiers", 4000.0));
    assert!((1800.0..2200.0).contains(&message.values["cold-accesses"]), "{message:?}");
    assert_eq!(message.course.settled_at, Some(80));
    let both = &["filled", "steady"][..];
    for (words, marks) in
        [(&TIERS[..], both), (&SWAP, &both[1..]), (&COLD, &both[1..]), (&REDIS, &[])]
    {
        let ran = run(&[&["lab", "workload"], words].concat());
        let mut lines: Vec<&str> = ran.out.lines().collect();
        assert!(lines.pop().is_some_and(|answer| answer.starts_with('{')), "{}", ran.out);
        assert_eq!(lines, marks, "{words:?}: {}", ran.out);
    }
}

#[test]
fn redis_is_filled_and_asked() {
    let message = answer(&REDIS);
    for name in ["set-per-second", "get-per-second", "set-p50", "get-p99"] {
        assert!(message.values[name] > 0.0, "{name}: {message:?}");
    }
    assert_eq!(message.values["operations"], 2000.0);
    assert!(!message.values.contains_key("coverage"), "it may have none: {message:?}");
}

/// Its allocator is told to request huge pages; without `thp`, redis-server would disable them for
/// itself.
#[test]
fn redis_may_have_huge_pages() {
    let mut command =
        pagewise(&["lab", "workload", "redis", "records=40000", "requests=1000", "thp=true"]);
    let ran = finish(command.env("MALLOC_CONF", "thp:always"));
    assert_eq!((ran.status, ran.err.as_str()), (0, ""));
    let coverage = parse_summary(&ran.out).unwrap().values["coverage"];
    let policy = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let never = policy.is_ok_and(|policy| policy.contains("[never]"));
    assert_eq!(coverage > 0.3, !never, "{coverage}");
}

#[test]
fn an_experiment_starts_what_a_person_types() {
    let settings: Vec<String> = SWAP[1..].iter().map(|&word| word.to_owned()).collect();
    let program = Workload::from_words("swap", &settings).unwrap().program(Path::new("unused"));
    let words: Vec<&str> = program.argv()[1..].iter().map(String::as_str).collect();
    let ran = run(&words);
    assert_eq!(parse_summary(&ran.out).unwrap().values["operations"], 20.0 * 256.0, "{}", ran.err);
}

#[test]
fn what_makes_no_sense_is_wrong_usage() {
    for (line, why) in [
        (&["swap", "colour=red"][..], "expected a key of swap, found \"colour\": code,"),
        (&["swap", "data=0M"], "data: expected a page at least"),
        (&["swap", "contents=gold:100"], "contents: expected parts of 100"),
        (&["coldpages", "sharers=2"], "expected 0 with more than one of sharers"),
        (&["tiers", "cold=0M", "cold_share=1"], "cold_share: expected 0 where cold has no page"),
        (&["redis", "pipeline=0"], "pipeline: expected from 1 to 10000"),
        (&["quicksort"], "[possible values: swap, coldpages, tiers, hugepages, redis]"),
        (&["--described", "{}"], "expected a workload as JSON"),
        (&["--described", "{}", "swap"], "cannot be used with"),
        (&[], "required"),
    ] {
        let ran = run(&[&["lab", "workload"], line].concat());
        assert_eq!(ran.status, 2, "{line:?}: {}", ran.err);
        assert!(ran.err.contains(why) && ran.out.is_empty(), "{line:?}: {}", ran.err);
    }
}

#[test]
fn what_the_machine_lacks_is_named() {
    let words = [&["lab", "workload"][..], &REDIS].concat();
    let without = finish(pagewise(&words).env("PATH", "/nonexistent"));
    assert_eq!(without.status, 1);
    assert!(without.err.contains("redis-benchmark is not installed"), "{}", without.err);
    assert!(without.err.contains("next   apt-get install redis-tools"), "{}", without.err);
    for (folder, why) in [("/dev/shm", "expected a folder on a disk"), ("/nowhere", "/nowhere")] {
        let words = [&["lab", "workload"][..], &SWAP].concat();
        let ran = finish(pagewise(&words).env("TMPDIR", folder));
        assert!(ran.status == 1 && ran.err.contains(why), "{}", ran.err);
    }
}

/// The IDs and names of its children.
fn children(child: &Child) -> Vec<(u32, String)> {
    let pid = child.id();
    let path = format!("/proc/{pid}/task/{pid}/children");
    let pids = std::fs::read_to_string(path).unwrap_or_default();
    let pids = pids.split_whitespace().filter_map(|pid| pid.parse().ok());
    pids.map(|pid: u32| (pid, name(pid))).collect()
}

fn name(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

fn wait_for(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < until, "waited for a minute: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Nobody can clean up after SIGKILL, so nothing may need cleaning up.
#[test]
fn killed_it_leaves_no_process_and_no_file() {
    let cold = [&COLD[..4], &["operations=1000000000", "sharers=3", "write_share=0"]].concat();
    let redis = [&REDIS[..2], &["requests=1000000000"]].concat();
    for (words, child_name, count) in [(cold, "pagewise", 2), (redis, "redis-benchmark", 1)] {
        let folder = empty_folder();
        let mut command = pagewise(&[&["lab", "workload"][..], &words].concat());
        command.env("TMPDIR", folder.path()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let ours = || children(&child).into_iter().filter(|(_, name)| name == child_name).count();
        wait_for(child_name, || ours() == count);
        let all = children(&child);
        child.kill().unwrap();
        child.wait().unwrap();
        let lives = |(pid, name): &(u32, String)| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.contains(name.as_str()) && !status.contains("State:\tZ")
        };
        wait_for("its children end", || !all.iter().any(lives));
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "{words:?}");
    }
}
