// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The code of a program in a cgroup that streams a file larger than its limit stays in memory if
//! it is pinned.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::held::Group;
use pagewise_testkit::folder_on_disk;

const MIB: u64 = 1 << 20;
const LIMIT: u64 = 100 * MIB;
/// Bytes that remain for the code and the file: a program with data fills the rest. Without that
/// program, the kernel finds enough pages to reclaim that were read only once.
const LEFT: u64 = 30 * MIB;
const PROGRAM: &str = env!("CARGO_BIN_EXE_pagewise");

/// A process that is killed when this is dropped.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// KiB of the program's code and constants that the process has mapped.
fn mapped_code(pid: u32, program: &Path) -> u64 {
    let smaps = std::fs::read_to_string(format!("/proc/{pid}/smaps")).expect("it runs");
    let name = program.to_str().unwrap();
    let mut is_code = false;
    let mut sum = 0;
    for line in smaps.lines() {
        if line.split(' ').nth(1).is_some_and(|rights| rights.len() == 4 && rights.ends_with('p')) {
            is_code = line.ends_with(name)
                && [" r-xp ", " r--p "].iter().any(|rights| line.contains(rights));
        } else if let Some(size) = line.strip_prefix("Rss:").filter(|_| is_code) {
            sum += size.trim().split(' ').next().unwrap().parse::<u64>().unwrap();
        }
    }
    sum
}

fn done(command: &mut Command) {
    assert!(command.stdout(Stdio::null()).status().unwrap().success(), "{command:?}");
}

/// Drops the unmapped pages of a file from the page cache.
fn forget(program: &Path) {
    let input = format!("if={}", program.display());
    done(Command::new("dd").args([&input, "iflag=nocache", "count=0", "status=none"]));
}

/// Bytes that a process has read with system calls.
fn bytes_read(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).expect("it runs");
    text.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok()).expect("a count")
}

/// Starts the program in the cgroup, waits until it has mapped its code, and stops it with SIGSTOP:
/// otherwise how much of its code it reads again under memory pressure would depend on the load.
fn start(group: &Group, program: &Path, output: &Path) -> Ends {
    let mut command = group.command(program);
    command.args(["capture", "--every", "1s", "--for", "1h"]).arg(output);
    let child = Ends(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let (pid, until) = (child.0.id(), Instant::now() + Duration::from_secs(120));
    let mut before = (bytes_read(pid), 0);
    loop {
        let code = mapped_code(pid, program);
        assert!(Instant::now() < until, "{code} KiB of code after two minutes");
        // it has read as much again as before, so it has executed the same code again
        if code > 1024 && bytes_read(pid) >= 2 * before.0 {
            if code == before.1 {
                kill_process(Pid::from_child(&child.0), Signal::STOP).unwrap();
                return child;
            }
            before = (bytes_read(pid), code);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Reads the file three times, while data fills the cgroup except for the process and [`LEFT`].
fn press(group: &Group, pid: u32, stream: &Path) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let anon = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    let anon: u64 = anon.trim().trim_end_matches(" kB").parse().unwrap();
    let size = LIMIT - anon * 1024 - LEFT;
    // tail keeps that many of the last bytes, until its input ends
    let mut data = group.command(Path::new("tail"));
    data.args(["-c", &size.to_string()]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut data = Ends(data.spawn().unwrap());
    let zeros = vec![0; usize::try_from(size).unwrap()];
    data.0.stdin.as_mut().unwrap().write_all(&zeros).unwrap();
    for _ in 0..3 {
        done(group.command(Path::new("cat")).arg(stream));
    }
}

/// The first of the documents that the program prints: several lines, of which the last has no
/// indentation.
fn first_document(from: impl BufRead) -> String {
    let mut text = String::new();
    for line in from.lines().map(Result::unwrap) {
        text += &line;
        if line == "}" {
            break;
        }
    }
    text
}

#[test]
fn code_that_is_pinned_stays_while_files_stream_through_memory() {
    let (group, folder) = (Group::with_limit(LIMIT), folder_on_disk());
    let (program, stream) = (folder.path().join("program"), folder.path().join("stream"));
    // pages are charged to the cgroup that reads them first
    done(group.command(Path::new("cp")).arg(PROGRAM).arg(&program));
    done(Command::new("sync").arg(&program));
    std::fs::File::create(&stream).unwrap().set_len(4 * LIMIT).unwrap();

    forget(&program);
    let free = start(&group, &program, &folder.path().join("free"));
    let before = mapped_code(free.0.id(), &program);
    press(&group, free.0.id(), &stream);
    let after = mapped_code(free.0.id(), &program);
    assert!(after < before * 9 / 10, "{before} KiB before, {after} KiB after");
    drop(free);

    forget(&program);
    let held = start(&group, &program, &folder.path().join("held"));
    let pid = held.0.id();
    let mut pin = Command::new(PROGRAM);
    pin.args(["pin", "--json", "--pid", &pid.to_string()]).stdout(Stdio::piped());
    let mut pin = Ends(pin.stderr(Stdio::null()).spawn().unwrap());
    let text = first_document(BufReader::new(pin.0.stdout.take().unwrap()));
    let document: Value = serde_json::from_str(&text).unwrap();
    let pinned = &document["pin"];
    assert_eq!((&pinned["locked"], &pinned["left_out"]), (&pinned["in_use"], &Value::Null));
    let own = pinned["files"]
        .as_array()
        .unwrap()
        .iter()
        .find(|file| file["name"] == program.to_str().unwrap());
    let locked = own.unwrap()["locked"].as_u64().unwrap();
    press(&group, pid, &stream);
    let after = mapped_code(pid, &program) * 1024;
    // the kernel unmaps a few pages before it notices that they are locked; they stay in memory
    assert!(after >= locked / 100 * 97 && locked > MIB, "{locked} bytes locked, {after} mapped");
    drop(held);
    assert!(pin.0.wait().unwrap().success(), "it ends with the program");
}
