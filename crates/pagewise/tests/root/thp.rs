// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Huge pages of real processes: made from outside, within a limit on growth, and never where pages
//! would be copied.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::held::{Group, Held, program};
use crate::machine::output_as_nobody;
use crate::program::{ProgramRun, pagewise, run};
use serde_json::Value;

const MIB: u64 = 1 << 20;

fn collapse(pid: u32, options: &[&str]) -> Value {
    let pid = pid.to_string();
    let ran = run(&[&["--json", "thp", "collapse", "--pid", &pid], options].concat());
    assert_eq!(ran.status, 0, "{}", ran.err);
    serde_json::from_str(&ran.out).expect("JSON")
}

fn number(document: &Value, path: &str) -> u64 {
    document.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path}: {document}"))
}

fn refused(ran: &ProgramRun, words: &[&str]) {
    assert_eq!(ran.status, 1, "{} {}", ran.out, ran.err);
    assert!(words.iter().all(|word| ran.err.contains(word)), "{}", ran.err);
    assert!(ran.err.contains("  next   "), "{}", ran.err);
}

#[test]
fn collapse_makes_huge_pages_and_keeps_contents() {
    let mut held = Held::start("map 64 1 1");
    let done = collapse(held.pid(), &[]);
    assert_eq!(number(&done, "/collapsed"), 32, "{done}");
    assert_eq!(number(&done, "/growth"), 0);
    assert!(held.huge() >= 64 * 1024, "{} KiB", held.huge());
    assert_eq!(held.obey("check"), "done");
    let again = collapse(held.pid(), &[]);
    assert_eq!(number(&again, "/collapsed"), 0, "nothing is left to do: {again}");
}

#[test]
fn sparse_memory_is_left_alone_and_does_not_grow() {
    let held = Held::start("map 128 1 8");
    let before = held.anon();
    let done = collapse(held.pid(), &[]);
    assert_eq!(number(&done, "/left_alone/sparse"), 64, "{done}");
    assert_eq!(number(&done, "/collapsed"), 0);
    assert!(held.anon() * 10 <= before * 11, "{before} → {}", held.anon());
}

#[test]
fn the_budget_holds_where_blocks_have_gaps() {
    let mut held = Held::start("map 128 3 4");
    let before = held.pss() * 1024;
    let done = collapse(held.pid(), &["--max-growth", "10%"]);
    let (growth, limit) = (number(&done, "/growth"), number(&done, "/memory_limit"));
    assert!(growth > 0 && growth <= before / 10, "{done}");
    assert!(number(&done, "/left_alone/over_budget") > 0, "{done}");
    assert!(held.pss() * 1024 <= limit, "{} of {limit}", held.pss() * 1024);
    assert_eq!(number(&done, "/growth"), number(&done, "/collapsed") * 128 * 4096);
    assert_eq!(held.obey("check"), "done");
}

#[test]
fn a_dry_run_changes_nothing_and_says_what_would_be() {
    let held = Held::start("map 32 1 1");
    let listed = collapse(held.pid(), &["--dry-run"]);
    assert_eq!((number(&listed, "/would_collapse"), number(&listed, "/collapsed")), (16, 0));
    assert_eq!(held.huge(), 0);
}

#[test]
fn what_a_fork_shares_is_never_copied() {
    let mut held = Held::start("map 64 1 1");
    held.obey("fork");
    let before = held.anon();
    let done = collapse(held.pid(), &[]);
    assert_eq!(number(&done, "/collapsed"), 0, "{done}");
    assert_eq!(number(&done, "/left_alone/shared"), 32, "{done}");
    // a copy would belong to this process alone, instead of being half of what two share
    assert!(held.anon() < before + 4096, "{before} → {} KiB", held.anon());
    held.obey("reap");
    assert_eq!(number(&collapse(held.pid(), &[]), "/collapsed"), 32);
}

#[test]
fn watching_collapses_again_once_the_sharer_is_gone() {
    let mut held = Held::start("map 64 1 1");
    collapse(held.pid(), &[]);
    let pid = held.pid().to_string();
    let words = ["--json", "thp", "collapse", "--pid", &pid, "--watch", "--every", "200ms"];
    let watch = pagewise(&words).stdout(Stdio::piped()).spawn().expect("a watch");
    // by the second time the watch must have started
    for _ in 0..2 {
        held.obey("fork");
        held.obey("write");
        // writing to pages shared with a child splits huge pages: every 16th page, so every huge
        // page
        assert!(held.huge() <= 1024, "{} KiB", held.huge());
        held.obey("reap");
        held.wait_until("huge again", |held| held.huge() >= 64 * 1024);
        assert_eq!(held.obey("check"), "done");
    }
    drop(held);
    let ended = watch.wait_with_output().expect("an end");
    let done: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    assert_eq!(done["stopped"], "the target has ended");
    assert!(number(&done, "/collapsed") >= 64, "{done}");
    // without the child, the process's own share is twice as large: only growth caused by
    // collapsing must be within the limit
    assert_eq!(number(&done, "/growth"), 0, "{done}");
}

#[test]
fn who_switches_huge_pages_off_while_watched_is_left_alone_until_it_takes_that_back() {
    let (mut held, mut other) = (Held::start("map 32 1 1"), Held::start("map 32 1 1"));
    collapse(held.pid(), &[]);
    collapse(other.pid(), &[]);
    let (pid, beside) = (held.pid().to_string(), other.pid().to_string());
    let both = ["--json", "thp", "collapse", "--pid", &pid, "--pid", &beside];
    let words = [&both[..], &["--watch", "--every", "100ms"]].concat();
    let watch = pagewise(&words).stdout(Stdio::piped()).spawn().expect("a watch");
    // the watch has started once it repairs the effect of a fork
    for order in ["fork", "write", "reap"] {
        held.obey(order);
    }
    held.wait_until("huge again", |held| held.huge() >= 32 * 1024);
    for order in ["fork", "write", "off", "reap"] {
        held.obey(order);
    }
    // the process that is watched with it becomes huge again twice, so this one was checked in
    // between
    for _ in 0..2 {
        for order in ["fork", "write", "reap"] {
            other.obey(order);
        }
        other.wait_until("huge again", |other| other.huge() >= 32 * 1024);
    }
    assert!(held.huge() <= 1024, "{} KiB", held.huge());
    held.obey("on");
    held.wait_until("huge again", |held| held.huge() >= 32 * 1024);
    drop((held, other));
    let ended = watch.wait_with_output().expect("an end");
    let done: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    assert!(number(&done, "/collapsed") >= 64, "{done}");
}

#[test]
fn evidence_has_a_moment_for_each_phase_and_a_page() {
    let mut held = Held::start("map 64 1 1");
    let scratch = tempfile::tempdir().expect("a folder");
    let (folder, looks) = (scratch.path().join("evidence"), scratch.path().join("looks"));
    let path = folder.to_str().expect("UTF-8");
    let pid = held.pid().to_string();
    let words = ["--json", "thp", "collapse", "--pid", &pid, "--watch", "--every", "1s"];
    let counter = format!("echo >> {}; cut -d. -f1 /proc/uptime", looks.display());
    let evidence = ["--evidence", path, "--counter", &counter];
    // target and counter are read in this order, so after two more lines the current state was
    // recorded
    let wait_for_a_look = |held: &mut Held| {
        let lines = || std::fs::read_to_string(&looks).map_or(0, |text| text.lines().count());
        let before = lines();
        held.wait_until("looked at", |_| lines() >= before + 2);
    };
    let watch = pagewise(&[&words[..], &evidence].concat()).stdout(Stdio::piped()).spawn();
    let watch = watch.expect("a watch");
    held.wait_until("huge", |held| held.huge() >= 64 * 1024);
    // a pause, so that both states are recorded separately
    wait_for_a_look(&mut held);
    held.obey("fork");
    wait_for_a_look(&mut held);
    // without this, the forked child would stay
    held.obey("reap");
    drop(held);
    let ended = watch.wait_with_output().expect("an end");
    assert!(ended.status.success());
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("it is there");
    let lines = read("moments.jsonl");
    let moments: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(number(&moments[0], "/collapsed"), 0, "{}", moments[0]);
    assert!(number(&moments[0], "/coverage/anon") >= 64 * MIB, "{}", moments[0]);
    let shared = moments.iter().any(|moment| number(moment, "/shared") >= 60 * MIB);
    let last = moments.last().expect("moments");
    assert!(shared && number(last, "/collapsed") == 32, "{lines}");
    // under load the counter may sometimes take too long
    let requests = moments.iter().filter_map(|moment| moment["requests"].as_u64());
    assert!(requests.clone().count() > 0 && requests.min() > Some(0), "{lines}");
    let page = read("report.html");
    assert!(page.matches("<svg").count() >= 2 && page.contains("a fork shares its memory"));
    serde_json::from_str::<Value>(&read("answer.json")).expect("JSON");
}

#[test]
fn a_neighbour_that_did_not_opt_in_stays_as_it_is() {
    let mut neighbour = Held::start("map 32 1 1");
    let (huge, anon) = (neighbour.huge(), neighbour.anon());
    let advised = Held::start("huge 32 1 1");
    assert!(advised.huge() > 0);
    let other = Held::start("map 32 1 1");
    collapse(other.pid(), &[]);
    assert!(other.huge() >= 32 * 1024);
    assert_eq!(neighbour.huge(), huge);
    assert!(neighbour.anon().abs_diff(anon) < 1024, "{anon} → {}", neighbour.anon());
    assert_eq!(neighbour.obey("check"), "done");
}

#[test]
fn fewer_arenas_hold_less_and_too_many_are_named() {
    let resident = |options: &[&str]| {
        let words = [&["thp", "run", "--check", "1s"], options, &["--"]].concat();
        let mut run = pagewise(&words);
        let run = run.arg(program()).args(["threads", "16", "16"]).env_remove("MALLOC_ARENA_MAX");
        let held = Held::started(run);
        crate::held::rollup(held.child_of(), "Pss")
    };
    let (many, one) = (resident(&[]), resident(&["--arenas", "1"]));
    assert!(one * 2 < many, "{one} of {many} KiB");
}

#[test]
fn locked_memory_is_collapsed_like_any_other() {
    let mut held = Held::start("map 16 1 1");
    held.obey("lock");
    assert_eq!(number(&collapse(held.pid(), &[]), "/collapsed"), 8);
    assert_eq!(held.obey("check"), "done");
}

#[test]
fn whose_memory_cannot_be_collapsed_is_told_why() {
    let gone = run(&["thp", "collapse", "--pid", "4194303"]);
    refused(&gone, &["process 4194303", "ended"]);
    let held = Held::started(
        pagewise(&["thp", "run", "--off", "--check", "0", "--"])
            .arg(program())
            .args(["map", "4", "1", "1"]),
    );
    let pid = held.pid().to_string();
    refused(&run(&["thp", "collapse", "--pid", &pid]), &["PR_SET_THP_DISABLE"]);
    let other = Held::start("map 4 1 1");
    let pid = other.pid().to_string();
    let ended = output_as_nobody(&["thp", "collapse", "--pid", &pid]);
    let listed = String::from_utf8_lossy(&ended.stderr);
    assert!(listed.contains("not allowed") && listed.contains("run as root"), "{listed}");
    assert_eq!(other.huge(), 0);
}

#[test]
fn a_process_is_shown_mapping_by_mapping() {
    let held = Held::start("map 32 1 2");
    let pid = held.pid().to_string();
    let ran = run(&["--json", "thp", "--pid", &pid]);
    let seen: Value = serde_json::from_str(&ran.out).expect("JSON");
    let looked = &seen["looked"][0];
    assert_eq!(number(looked, "/blocks/half"), 16, "{looked}");
    assert_eq!(number(looked, "/blocks/growth_of_half"), 16 * MIB);
    assert!(number(looked, "/coverage/anon") >= 16 * MIB);
    assert!(looked["largest"][0]["eligible"].is_object(), "{looked}");
    assert_eq!(number(&seen, "/processes/0/pid"), u64::from(held.pid()));
}

#[test]
fn bloat_is_found_by_contents_and_split() {
    let mut held = Held::start("map 32 3 4");
    collapse(held.pid(), &["--max-growth", "50%"]);
    let mut full = Held::start("map 32 1 1");
    collapse(full.pid(), &[]);
    let restrain = |pid: u32, options: &[&str]| -> Value {
        let pid = pid.to_string();
        let ran = run(&[&["--json", "thp", "restrain", "--pid", &pid], options].concat());
        assert_eq!(ran.status, 0, "{}", ran.err);
        serde_json::from_str(&ran.out).expect("JSON")
    };
    // a quarter of zeros is not bloat
    let found = restrain(held.pid(), &[]);
    assert_eq!((number(&found, "/huge_pages"), number(&found, "/bloated")), (16, 0), "{found}");
    assert_eq!(number(&found, "/zeros"), 8 * MIB);
    assert_eq!(number(&restrain(full.pid(), &["--split"]), "/split"), 0);
    let mut bloated = Held::start("huge 32 1 8");
    let found = restrain(bloated.pid(), &[]);
    assert_eq!((number(&found, "/bloated"), number(&found, "/zeros")), (16, 28 * MIB), "{found}");
    assert_eq!(bloated.huge(), 32 * 1024, "looking splits nothing");
    let done = restrain(bloated.pid(), &["--split"]);
    assert_eq!((number(&done, "/split"), bloated.huge()), (16, 0), "{done}");
    assert!(number(&done, "/memory_after") <= number(&done, "/memory_before"), "{done}");
    for held in [&mut held, &mut full, &mut bloated] {
        assert_eq!(held.obey("check"), "done");
    }
}

#[test]
fn run_makes_glibc_ask_and_hands_on_how_it_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let started = |switch: &str| {
        let words = ["thp", "run", switch, "--check", "1s", "--"];
        let log = std::fs::File::create(folder.path().join(switch)).expect("a file");
        Held::started(pagewise(&words).arg(program()).args(["heap", "64"]).stderr(log))
    };
    let huge = |held: &Held| crate::held::rollup(held.child_of(), "AnonHugePages");
    let on = started("--on");
    // glibc misses the setting in some starts; then the check collapses the memory
    let (mut on, mut off) = (on, started("--off"));
    on.wait_until("huge", |on| huge(on) > 48 * 1024);
    off.wait_until("checked", |_| {
        let listed = std::fs::read_to_string(folder.path().join("--off")).expect("a file");
        listed.contains(" 0 % of ") && listed.contains("after 1 s")
    });
    assert_eq!(huge(&off), 0);
    let script = run(&["thp", "run", "--", "sh", "-c", "exit 42"]);
    assert_eq!(script.status, 42);
    let killed = run(&["thp", "run", "--", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(killed.status, 143);
    assert_eq!(run(&["thp", "run", "--", "/no/such/command"]).status, 127);
    let wrong = pagewise(&["thp", "run", "--", "true"]).env("PAGEWISE_THP", "maybe").output();
    assert!(String::from_utf8_lossy(&wrong.expect("it runs").stderr).contains("maybe"));
}

/// A program in a container, started with PAGEWISE_THP set to `asks`.
fn started(container: &Group, memory: &str, asks: Option<&str>) -> Held {
    let mut command = container.command(&program());
    Held::started(command.args(memory.split(' ')).envs(asks.map(|asks| ("PAGEWISE_THP", asks))))
}

#[test]
fn a_container_that_opted_in_gets_huge_pages_and_no_other_does() {
    let container = Group::of_container("0a11ce00feed");
    let other = Group::of_container("0b0b00c0ffee");
    let opted_in = started(&container, "map 32 1 1", Some("on"));
    let sidecar = started(&container, "map 32 1 1", None);
    let neighbours = [None, Some("off"), Some("advised"), Some("yes")]
        .map(|asks| started(&other, "map 32 1 1", asks));
    let untouched = || neighbours.iter().chain([&sidecar]);
    let before: Vec<u64> = untouched().map(Held::anon).collect();

    let ran = run(&["--json", "thp", "collapse", "--opted-in"]);
    let done: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}", ran.err));
    assert_eq!(done["units"].as_array().map(Vec::len), Some(1), "{done}");
    assert_eq!(done["units"][0]["unit"], "docker 0a11ce00feed");
    assert_eq!(
        (number(&done, "/collapsed"), number(&done, "/units/0/collapse/collapsed")),
        (16, 16)
    );
    assert_eq!(number(&done, "/processes/0/pid"), u64::from(opted_in.pid()));
    assert!(opted_in.huge() >= 32 * 1024);
    for (held, before) in untouched().zip(before) {
        assert_eq!(held.huge(), 0);
        assert!(held.anon().abs_diff(before) < 1024, "{before} → {}", held.anon());
    }
    let shown = run(&["thp", "--container", "0a11ce"]);
    assert!(
        shown.out.contains("held") && shown.out.contains("100 %"),
        "{} {}",
        shown.out,
        shown.err
    );
    refused(&run(&["thp", "--container", "0a11cf"]), &["no memory cgroup of a unit 0a11cf"]);
    let nobody = output_as_nobody(&["thp", "collapse", "--opted-in"]);
    let said = String::from_utf8_lossy(&nobody.stderr);
    assert!(
        nobody.status.code() == Some(1) && said.contains("--opted-in: expected root"),
        "{said}"
    );
}

#[test]
fn each_container_has_its_own_budget_over_all_passes_and_late_ones_are_found() {
    let first = Group::of_container("0a1357000001");
    let second = Group::of_container("0bc0d0000002");
    let one = started(&first, "map 128 3 4", Some("on"));
    let before = one.pss() * 1024;
    let words = ["--json", "thp", "collapse", "--opted-in", "--watch", "--every", "200ms"];
    let watch = pagewise(&words).stdout(Stdio::piped()).spawn().expect("a watch");
    let mut late = started(&second, "map 32 1 1", Some("on"));
    late.wait_until("found", |late| late.huge() >= 32 * 1024);
    // in each pass the first one comes first; so when the late one is huge again, another pass has
    // given the first one a chance to grow
    let grown = one.anon();
    for _ in 0..4 {
        for order in ["fork", "write", "reap"] {
            late.obey(order);
        }
        late.wait_until("huge again", |late| late.huge() >= 32 * 1024);
    }
    let later = one.anon();
    let pid = watch.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill").success());
    let ended = watch.wait_with_output().expect("an end");
    assert!(later < grown + 256, "{grown} → {later} KiB");
    let done: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    assert_eq!(done["units"].as_array().map(Vec::len), Some(2), "{done}");
    assert_eq!(done["units"][0]["unit"], "docker 0a1357000001");
    let growth = number(&done, "/units/0/collapse/growth");
    assert!(growth > 0 && growth <= before / 10, "{growth} of {before}: {done}");
    assert_eq!(number(&done, "/units/1/collapse/growth"), 0, "{done}");
    assert_eq!(number(&done, "/growth"), growth);
}

#[test]
fn a_cgroup_at_its_limit_stops_it() {
    let group = Group::with_limit(40 * MIB);
    let held = group.start("map 36 1 1");
    let ran = run(&["--json", "thp", "collapse", "--cgroup", &group.path]);
    let done: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}", ran.err));
    assert!(done["stopped"].as_str().is_some_and(|why| why.contains("limit")), "{done}");
    assert!(held.pss() > 0, "it lives");
}

#[test]
fn signals_reach_the_command_that_is_run() {
    let began = Instant::now();
    let mut run = Command::new(env!("CARGO_BIN_EXE_pagewise"));
    let mut run = run.args(["thp", "run", "--", "sleep", "600"]).spawn().expect("it runs");
    // once it has a child, it forwards signals
    let children = format!("/proc/{0}/task/{0}/children", run.id());
    while std::fs::read_to_string(&children).is_ok_and(|list| list.trim().is_empty()) {
        assert!(began.elapsed() < Duration::from_secs(120), "nothing was started");
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = run.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill").success());
    assert_eq!(run.wait().expect("an end").code(), Some(143));
    assert!(began.elapsed() < Duration::from_secs(500));
}
