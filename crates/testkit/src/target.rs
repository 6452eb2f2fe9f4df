// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes whose memory tests sample. They run `examples/target.rs`, which arranges the memory.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A running target program, which ends when this is dropped.
#[derive(Debug)]
pub struct Target {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// The text that the program printed after "ready".
    pub message: String,
}

impl Target {
    /// Starts the program, and returns when it has arranged its memory in the way that the
    /// arguments request.
    pub fn start(arguments: &str) -> Self {
        Self::from_command(Command::new(target_program()).args(arguments.split(' ')))
    }

    /// Starts the program with this command, and returns when it has arranged its memory.
    pub fn from_command(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the target");
        let orders = child.stdin.take();
        let mut answers = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        answers.read_line(&mut line).expect("an answer");
        let message = line.trim().strip_prefix("ready").expect(&line).trim().to_owned();
        Self { child, orders, answers, message }
    }

    /// Process id of the program.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends an order to the program without waiting.
    pub fn order(&mut self, order: &str) {
        writeln!(self.orders.as_mut().expect("open"), "{order}").expect("it lives");
    }

    /// Sends an order to the program and waits until it is carried out.
    pub fn obey(&mut self, order: &str) {
        self.order(order);
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("an answer");
        assert_eq!(line.trim(), "done");
    }

    /// Waits until `/proc/PID/stat` shows this state, such as Z for a process that has ended and
    /// was not reaped yet.
    pub fn wait_for_state(&self, requested: &str) {
        for _ in 0..12_000 {
            let stat = read_process(self.pid(), "stat");
            if stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(requested))
            {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("not in state {requested}");
    }

    /// Waits until the process has this name.
    pub fn wait_for_name(&self, requested: &str) {
        for _ in 0..12_000 {
            if read_process(self.pid(), "comm").trim() == requested {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("not called {requested}");
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        drop(self.orders.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The contents of a file in the /proc folder of a process; empty if the file cannot be read.
pub fn read_process(pid: u32, file: &str) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default()
}

/// Returns a value in the smaps_rollup of a process, in KiB.
pub fn rollup(pid: u32, name: &str) -> u64 {
    let text = read_process(pid, "smaps_rollup");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).expect(name)
}

/// Returns the path of the target program, which is in the folder next to this test program. `cargo
/// test` builds it, except if only a single test program is built.
pub fn target_program() -> PathBuf {
    let mut path = std::env::current_exe().expect("a path");
    path.pop();
    path.pop();
    path.push("examples/target");
    if !path.exists() {
        let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
        let arguments = ["build", "--quiet", "--package", "pagewise-sample", "--example", "target"];
        assert!(Command::new(cargo).args(arguments).status().expect("cargo").success());
    }
    path
}
