// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes to look at, whose memory is arranged by `examples/target.rs`.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A running target; it ends with this.
#[derive(Debug)]
pub struct Target {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// What followed "ready".
    pub message: String,
}

impl Target {
    /// Starts it; it has arranged its memory when this returns.
    pub fn start(arguments: &str) -> Self {
        Self::started(Command::new(target_program()).args(arguments.split(' ')))
    }

    /// Starts it in the way that the command says.
    pub fn started(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the target");
        let orders = child.stdin.take();
        let mut answers = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        answers.read_line(&mut line).expect("an answer");
        let message = line.trim().strip_prefix("ready").expect(&line).trim().to_owned();
        Self { child, orders, answers, message }
    }

    /// Its number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Gives an order without waiting.
    pub fn order(&mut self, order: &str) {
        writeln!(self.orders.as_mut().expect("open"), "{order}").expect("it lives");
    }

    /// Gives an order and waits until it is done.
    pub fn obey(&mut self, order: &str) {
        self.order(order);
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("an answer");
        assert_eq!(line.trim(), "done");
    }

    /// Waits until it has ended; its remains stay.
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

    /// Waits until it is called so.
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

/// A file of a process.
pub fn read_process(pid: u32, file: &str) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default()
}

/// A line of smaps_rollup, in KiB.
pub fn rollup(pid: u32, name: &str) -> u64 {
    let text = read_process(pid, "smaps_rollup");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).expect(name)
}

/// The program beside this test program. `cargo test` has built it, unless it was told to build
/// one test program only.
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
