// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which process it is: tables of the report in the order that was asked for, and sections alone.

use std::process::{Child, Command, Stdio};

use crate::program::run;

/// A shell that is ended with all that it started.
struct Busy(Child);

impl Busy {
    fn start(script: &str) -> Self {
        let mut command = Command::new("setsid");
        command.args(["sh", "-c", script]).stdin(Stdio::null()).stdout(Stdio::null());
        Self(command.spawn().expect("a shell starts"))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // its session's processes have its id as their group
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.0.wait();
    }
}

/// Lines of the table of processes, each as words.
fn rows(text: &str) -> Vec<Vec<String>> {
    let table = text.lines().skip_while(|line| !line.contains("Processes ")).skip(1);
    let lines = table.take_while(|line| line.starts_with("    "));
    lines.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

#[test]
fn the_process_that_grows_comes_first_with_its_rate() {
    // tail keeps all that has no line end: 96 MiB within the interval
    let _busy = Busy::start("(sleep 1; head -c 100663296 /dev/zero; sleep 20) | tail -n 1");
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
    let tail = rows.iter().find(|row| row.get(1).is_some_and(|name| name == "tail"));
    let tail = tail.unwrap_or_else(|| panic!("{}", ran.out));
    let rate: f64 = tail[2].strip_prefix('+').unwrap().parse().unwrap();
    assert!(tail[3] == "MiB" && (20.0..60.0).contains(&rate), "{tail:?}");
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
