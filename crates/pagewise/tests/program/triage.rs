// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finding the process that causes a problem: tables of the report in the requested order, and
//! single sections.

use std::process::{Child, Command, Stdio};

use crate::program::run;

/// A shell that is killed together with all processes that it started.
struct Busy(Child);

impl Busy {
    fn start(script: &str) -> Self {
        let mut command = Command::new("setsid");
        command.args(["sh", "-c", script]).stdin(Stdio::null()).stdout(Stdio::null());
        Self(command.spawn().expect("a shell starts"))
    }
}

impl Busy {
    /// Waits until one of its processes has this name: a process that starts within the interval
    /// has no rate.
    fn wait_for(&self, name: &str) {
        let group = self.0.id().to_string();
        for _ in 0..600 {
            let listed = Command::new("ps").args(["-o", "comm=", "-g", &group]).output().unwrap();
            if String::from_utf8_lossy(&listed.stdout).lines().any(|line| line.trim() == name) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("no {name} in group {group}");
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // the processes of its session have its ID as their process group
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.0.wait();
    }
}

/// Lines of the table of processes, split into words.
fn rows(text: &str) -> Vec<Vec<String>> {
    let table = text.lines().skip_while(|line| !line.contains("Processes ")).skip(1);
    let lines = table.take_while(|line| line.starts_with("    "));
    lines.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

#[test]
fn the_process_that_grows_comes_first_with_its_rate() {
    // tail keeps data without a newline: at most 10 MiB/s, for longer than the interval
    let feed =
        "i=0; while [ $i -lt 400 ]; do head -c 1048576 /dev/zero; sleep 0.1; i=$((i+1)); done";
    let busy = Busy::start(&format!("({feed}) | tail -n 1"));
    busy.wait_for("tail");
    let ran = run(&[
        "report",
        "--sort",
        "growth",
        "--interval",
        "3s",
        "-n",
        "0",
        "-o",
        "pid,command,growth",
    ]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let rows = rows(&ran.out);
    assert_eq!(rows[0], ["pid", "command", "growth/s"], "{}", ran.out);
    // other tests run tail as well
    let tails = rows.iter().filter(|row| row.get(1).is_some_and(|name| name == "tail"));
    let grows = |row: &Vec<String>| {
        let rate: Option<f64> = row[2].strip_prefix('+').and_then(|rate| rate.parse().ok());
        row[3..] == ["MiB"] && rate.is_some_and(|rate| (0.2..20.0).contains(&rate))
    };
    assert!(tails.clone().any(grows), "{:?}\n{}", tails.collect::<Vec<_>>(), ran.out);
    assert!(!ran.out.contains("Settings") && !ran.out.contains("Memory is"));
}

#[test]
fn the_process_that_computes_is_found_and_named_with_its_arguments() {
    let _busy = Busy::start("exec sh -c 'while :; do :; done' pagewise-spins");
    let sorted = ["report", "--sort", "cpu", "--interval", "1s", "-n", "0"];
    let ran = run(&[&sorted[..], &["-o", "cpu,command", "--args"]].concat());
    let spins = ran.out.lines().find(|line| line.contains("pagewise-spins"));
    let spins = spins.unwrap_or_else(|| panic!("{}", ran.out));
    let share: f64 = spins.split_whitespace().next().unwrap().parse().unwrap();
    assert!(share > 1.0, "{spins}");
    let without = run(&sorted);
    assert!(!without.out.contains("pagewise-spins"), "{}", without.out);
    let json = run(&[&sorted[..], &["--args", "--json"]].concat());
    assert!(json.out.starts_with('{') && !json.out.contains("pagewise-spins"));
}

#[test]
fn only_the_sections_that_were_asked_for_are_printed() {
    let ran = run(&["report", "--only", "pressure,memory", "--interval", "20ms"]);
    assert!(ran.out.contains("Where memory is") && !ran.out.contains("Processes"), "{}", ran.out);
    let refused = run(&["report", "--only", "memmory"]);
    assert_eq!(refused.status, 2);
    assert!(refused.err.contains("'memory'"), "{}", refused.err);
}

#[test]
fn an_order_that_needs_two_looks_is_refused_with_one() {
    let ran = run(&["report", "--sort", "growth", "--interval", "0"]);
    assert_eq!((ran.status, ran.out.as_str()), (1, ""));
    assert!(ran.err.contains("looks once") && ran.err.contains("next"), "{}", ran.err);
    assert_eq!(run(&["report", "--sort", "swap", "--interval", "0"]).status, 0);
}

/// From a limit at which nothing can start to one without any effect: the program either cannot be
/// loaded, or prints a report. This program is larger than the static one of the tests in guests.
#[test]
fn a_limit_of_address_space_costs_parts_of_the_report_and_not_all_of_it() {
    let limited = |kib: u64, line: &str| {
        let script = format!(
            "ulimit -c 0; ulimit -v {kib}; {} {line} --interval 20ms; exit $?",
            env!("CARGO_BIN_EXE_pagewise")
        );
        let mut command = Command::new("sh");
        crate::program::finish(command.args(["-c", &script]).env("RUST_BACKTRACE", "0"))
    };
    // the memory that `status` needs is the minimum for every verb
    let starts = (1..200).map(|step| step * 1024).find(|kib| limited(*kib, "status").status == 0);
    let least = starts.expect("status runs with 200 MiB");
    let mut partial = 0;
    for more in (512..5_120).step_by(256) {
        for line in ["report", "doctor"] {
            let ran = limited(least + more, line);
            assert!(ran.status == 0 || ran.status == 3, "{line} with {more} more: {}", ran.err);
            assert!(ran.out.starts_with("pagewise "), "{line} with {more} more: {}", ran.out);
            if ran.err.contains("could not be had") {
                partial += 1;
                assert!(ran.err.contains("left out") || ran.err.contains("no page contents"));
            }
        }
    }
    assert!(partial > 0);
}

/// A recording with a warning and a finding of severity info.
const FIXTURE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../fixtures/hosts/debian-trixie-6.12-x86_64-1g-commit-limit.tar"
);

#[test]
fn a_pager_gets_a_line_for_each_finding_and_nothing_where_there_is_none() {
    let quiet = ["doctor", "-q", "--root", FIXTURE];
    let ran = run(&quiet);
    assert_eq!((ran.status, ran.err.as_str()), (3, ""));
    assert_eq!(
        ran.out,
        "WARNING commit-limit: committed memory has reached 90 % of the commit limit\n"
    );
    let all = run(&[&quiet[..], &["--min-severity", "info"]].concat());
    assert_eq!((all.status, all.out.lines().count()), (3, 2), "{}", all.out);
    assert!(all.out.lines().nth(1).unwrap().starts_with("INFO zram-unused: "));
    let none = run(&[&quiet[..], &["--ignore", "commit-limit"]].concat());
    assert_eq!((none.status, none.out.as_str(), none.err.as_str()), (0, "", ""));
}

#[test]
fn what_is_ignored_is_counted_in_text_and_json_and_in_the_file_too() {
    let doctor = ["doctor", "--root", FIXTURE];
    let ran = run(&[&doctor[..], &["--ignore", "commit-limit", "--ignore", "zram-full"]].concat());
    assert_eq!(ran.status, 0, "{}", ran.out);
    let counted = "1 finding below --min-severity not shown. 1 finding ignored.";
    assert!(ran.out.contains(counted), "{}", ran.out);

    let folder = crate::program::empty_folder();
    let file = folder.path().join("doctor.toml");
    std::fs::write(&file, "ignore = [\"commit-limit\"]\nmin_severity = \"info\"\n").unwrap();
    let config = ["--config", file.to_str().unwrap()];
    let ran = run(&[&doctor[..], &config, &["--json"]].concat());
    let document: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(document["findings"][0]["id"], "zram-unused");
    assert_eq!(document["not_shown"]["ignored"], 1);
    assert_eq!((document["not_shown"]["below_min_severity"].as_u64(), ran.status), (Some(0), 3));
    let ran = run(&[&doctor[..], &config, &["--min-severity", "critical"]].concat());
    assert_eq!(ran.status, 0, "what is typed counts more: {}", ran.out);

    std::fs::write(&file, "ignore = [\"zram-unsed\"]\n").unwrap();
    let ran = run(&[&doctor[..], &config].concat());
    assert_eq!((ran.status, ran.out.as_str()), (1, ""));
    assert!(ran.err.contains("did you mean zram-unused?"), "{}", ran.err);
    assert!(ran.err.contains("doctor.toml") && ran.err.contains("next"), "{}", ran.err);
}

#[test]
fn every_rule_is_listed_and_explained_and_a_mistyped_one_is_guessed() {
    let list = run(&["doctor", "--list"]);
    assert_eq!(list.status, 0);
    let document = run(&["doctor", "--list", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&document.out).unwrap();
    let rules = document["rules"].as_array().unwrap();
    assert!(rules.len() >= 17);
    for rule in rules {
        let id = rule["id"].as_str().unwrap();
        assert!(list.out.contains(id), "{id}");
        let explained = run(&["doctor", "--explain", id]);
        assert!(explained.status == 0 && explained.out.starts_with(id), "{}", explained.out);
        assert!(explained.out.contains("  when ") && explained.out.contains("  act "), "{id}");
    }
    for option in ["--explain", "--ignore"] {
        let refused = run(&["doctor", option, "zram-ful"]);
        assert_eq!((refused.status, refused.out.as_str()), (2, ""));
        assert!(refused.err.contains("'zram-full'"), "{}", refused.err);
    }
}

/// `dd` allocates its buffer of 100 MiB, then waits for input that does not come.
#[test]
fn a_process_at_its_limit_of_address_space_is_found() {
    let mut dd = Command::new("dd")
        .args(["bs=100M", "count=1", "of=/dev/null", "status=none"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("dd starts");
    let pid = dd.id();
    let size = || -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"))?;
        let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib * 1024).filter(|size| *size >= 100 << 20)
    };
    let grown = (0..600).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        size()
    });
    let limited = grown.map(|size| {
        let limit = Some(size + (4 << 20));
        let target = rustix::process::Pid::from_child(&dd);
        let limits = rustix::process::Rlimit { current: limit, maximum: limit };
        rustix::process::prlimit(Some(target), rustix::process::Resource::As, limits)
    });
    let ran = run(&["doctor", "-q"]);
    dd.kill().expect("dd still waits");
    dd.wait().expect("dd ends");
    assert!(matches!(limited, Some(Ok(_))), "{limited:?}");
    let line = format!("WARNING process-limit: dd (pid {pid}) has 4.0 MiB of its RLIMIT_AS left\n");
    assert!(ran.status == 3 && ran.out.contains(&line), "{} {}", ran.out, ran.err);
}
