// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of docs/privileges.md says what each command may still do when it prints its answer.
//!
//! Each command of the table writes to a full pipe that nobody reads. So it waits in the kernel, at
//! a place where everything is read and nothing is printed, and `/proc/PID/status` shows its
//! privileges.
//!
//! The name of this module is the first one of these tests, which run in its order: a later test
//! samples pages in the process of the tests, which forbids core dumps for all that it starts.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pagewise_testkit::Target;
use serde_json::json;

use crate::applied::{KNOB, Site, step};
use crate::machine::{read, write};

const TABLE: &str = include_str!("../../../../docs/privileges.md");
const RECORDING: &str = "debian-trixie-6.12-x86_64-512m-settings.tar";
const LOG: &str = "group-fills-6.1.log";
const PATIENCE: Duration = Duration::from_secs(120);

/// A process that is killed when this is dropped.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The rows of the table of commands, as cells.
fn rows() -> Vec<Vec<&'static str>> {
    let rows = TABLE.lines().filter_map(|line| line.strip_prefix("| `pagewise "));
    rows.map(|line| line.trim_end_matches(" |").split(" | ").collect()).collect()
}

/// A pipe in which there is no room; both ends.
fn full_pipe() -> (OwnedFd, OwnedFd) {
    let (ours, theirs) = rustix::pipe::pipe().unwrap();
    let flags = rustix::fs::fcntl_getfl(&theirs).unwrap();
    rustix::fs::fcntl_setfl(&theirs, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
    let mut file = std::fs::File::from(theirs.try_clone().unwrap());
    while file.write(&[0; 4096]).is_ok() {}
    rustix::fs::fcntl_setfl(&theirs, flags).unwrap();
    (ours, theirs)
}

fn status(pid: u32, name: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
    line.unwrap().split_whitespace().next().unwrap().to_owned()
}

/// Whether the first thread waits in a write to standard output.
fn is_printing(pid: u32) -> bool {
    let read = |name| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    read("wchan").ends_with("pipe_write") && read("syscall").split(' ').nth(1) == Some("0x1")
}

/// Starts the command with an unlimited core size, and waits until it prints.
fn at_its_output(site: &Site, words: &[String]) -> (Ends, OwnedFd) {
    let (ours, theirs) = full_pipe();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let pagewise = site.command(&words);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -c unlimited && exec \"$@\"", "sh"]);
    command.arg(pagewise.get_program()).args(pagewise.get_args());
    command.envs(pagewise.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(Stdio::null()).stdout(theirs).stderr(Stdio::null());
    let mut child = Ends(command.spawn().unwrap());
    let until = Instant::now() + PATIENCE;
    while !is_printing(child.0.id()) {
        assert!(Instant::now() < until, "{words:?} does not print");
        assert_eq!(child.0.try_wait().unwrap(), None, "{words:?} ended without printing");
        std::thread::sleep(Duration::from_millis(5));
    }
    (child, ours)
}

/// Whether the kernel may write the memory of the process to a file.
fn may_dump(pid: u32) -> bool {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max core file size"));
    line.unwrap().split_whitespace().next() != Some("0")
}

/// An experiment of `true` twice, once with each value of a setting without effect.
const EXPERIMENT: &str = "about = \"two values\"\n[workload]\nkind = \"command\"\nargv = [\"true\"]\n\
    [measure]\nprimary = \"cpu\"\npairs = 1\nwarm_up = 0\n\
    [[arm]]\nname = \"a\"\nset = { \"vm.extfrag_threshold\" = 400 }\n\
    [[arm]]\nname = \"b\"\nset = { \"vm.extfrag_threshold\" = 600 }\n";

fn bits(capabilities: &str, all: u64) -> u64 {
    let bit = |name| match name {
        "all" => all,
        "none" => 0,
        "CAP_DAC_READ_SEARCH" => 1 << 2,
        "CAP_SYS_PTRACE" => 1 << 19,
        "CAP_SYS_ADMIN" => 1 << 21,
        "CAP_SYS_NICE" => 1 << 23,
        other => panic!("{other}"),
    };
    capabilities.split(", ").map(bit).fold(0, |sum, bit| sum | bit)
}

#[test]
fn each_command_keeps_what_the_table_says() {
    let all = u64::from_str_radix(&status(std::process::id(), "CapPrm"), 16).unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let target = Target::start("hold 1");
    let folder = tempfile::tempdir().unwrap();
    let experiment = folder.path().join("own.toml");
    std::fs::write(&experiment, EXPERIMENT).unwrap();
    let site = Site::new();
    let before = read(KNOB);
    let to_400 = json!({
        "action": "set-knob", "target": "vm.extfrag_threshold", "from": before, "to": "400",
    });
    let plan = site.plan(&[step("knob", to_400)]);
    let rows = rows();
    assert!(rows.len() >= 35, "{} rows", rows.len());
    for row in rows {
        let [command, capabilities, user, new_rights, calls, dumps, _] = row[..] else {
            panic!("{row:?}")
        };
        let word = |word: &str| match word {
            "PID" => target.pid().to_string(),
            "FILE" => env!("CARGO_BIN_EXE_pagewise").to_owned(),
            "RECORDING" => fixtures.join("hosts").join(RECORDING).display().to_string(),
            "NEW" => folder.path().join("new").display().to_string(),
            "PLAN" => plan.clone(),
            "EXPERIMENT" => experiment.display().to_string(),
            "LOG" => fixtures.join("kills").join(LOG).display().to_string(),
            other => other.to_owned(),
        };
        let words: Vec<String> = command.trim_end_matches('`').split(' ').map(word).collect();
        // what `tune` changes: with 0 the kernel never compacts memory for a large allocation
        write(KNOB, if words[0] == "tune" { "0" } else { &before });
        let (child, _pipe) = at_its_output(&site, &words);
        let pid = child.0.id();
        let kept = format!("{:016x}", bits(capabilities, all));
        assert_eq!([status(pid, "CapPrm"), status(pid, "CapEff")], [kept.clone(), kept], "{row:?}");
        let user = if user == "root" { "0" } else { "65534" };
        assert_eq!(status(pid, "Uid"), user, "{row:?}");
        let no_new = if new_rights == "no" { "1" } else { "0" };
        assert_eq!(status(pid, "NoNewPrivs"), no_new, "{row:?}");
        let filtered = if calls == "filtered" { "2" } else { "0" };
        assert_eq!(status(pid, "Seccomp"), filtered, "{row:?}");
        assert_eq!(may_dump(pid), dumps == "yes", "{row:?}");
        drop(child);
        // a plan that was applied, and what a killed run borrowed
        let undone = site.output(&["undo", "--all"]);
        assert_eq!(undone.status.code(), Some(0), "{}", crate::machine::said(&undone));
    }
}
