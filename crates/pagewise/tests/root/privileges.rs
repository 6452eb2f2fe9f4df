// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of docs/privileges.md says what each command may still do when it prints its answer.
//!
//! Each command of the table writes to a full pipe that nobody reads. So it waits in the kernel, at
//! a place where everything is read and nothing is printed, and `/proc/PID/status` shows its
//! privileges.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pagewise_testkit::Target;

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

/// Starts the command, and waits until it prints.
fn at_its_output(words: &[String]) -> (Ends, OwnedFd) {
    let (ours, theirs) = full_pipe();
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagewise"));
    command.args(words).stdin(Stdio::null()).stdout(theirs).stderr(Stdio::null());
    let mut child = Ends(command.spawn().unwrap());
    let until = Instant::now() + PATIENCE;
    while !is_printing(child.0.id()) {
        assert!(Instant::now() < until, "{words:?} does not print");
        assert_eq!(child.0.try_wait().unwrap(), None, "{words:?} ended without printing");
        std::thread::sleep(Duration::from_millis(5));
    }
    (child, ours)
}

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
    let rows = rows();
    assert!(rows.len() >= 29, "{} rows", rows.len());
    for row in rows {
        let [command, capabilities, user, new_rights, calls, _] = row[..] else {
            panic!("{row:?}")
        };
        let word = |word: &str| match word {
            "PID" => target.pid().to_string(),
            "FILE" => env!("CARGO_BIN_EXE_pagewise").to_owned(),
            "RECORDING" => fixtures.join("hosts").join(RECORDING).display().to_string(),
            "NEW" => folder.path().join("new").display().to_string(),
            "LOG" => fixtures.join("kills").join(LOG).display().to_string(),
            other => other.to_owned(),
        };
        let words: Vec<String> = command.trim_end_matches('`').split(' ').map(word).collect();
        let (child, _pipe) = at_its_output(&words);
        let pid = child.0.id();
        let kept = format!("{:016x}", bits(capabilities, all));
        assert_eq!([status(pid, "CapPrm"), status(pid, "CapEff")], [kept.clone(), kept], "{row:?}");
        let user = if user == "root" { "0" } else { "65534" };
        assert_eq!(status(pid, "Uid"), user, "{row:?}");
        let no_new = if new_rights == "no" { "1" } else { "0" };
        assert_eq!(status(pid, "NoNewPrivs"), no_new, "{row:?}");
        let filtered = if calls == "filtered" { "2" } else { "0" };
        assert_eq!(status(pid, "Seccomp"), filtered, "{row:?}");
    }
}
