// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starts `crates/apply/examples/held.rs`, which arranges its memory as requested, and makes
//! cgroups for it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A running `held` process, which is ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Held {
    pub(crate) fn start(arguments: &str) -> Self {
        Self::started(Command::new(program()).args(arguments.split(' ')))
    }

    /// Starts the command; returns when the process has arranged its memory.
    pub(crate) fn started(command: &mut Command) -> Self {
        crate::machine::take_turn();
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
        let orders = child.stdin.take();
        let mut answers = BufReader::new(child.stdout.take().expect("piped"));
        let mut line = String::new();
        answers.read_line(&mut line).expect("an answer");
        assert_eq!(line.trim(), "ready");
        Self { child, orders, answers }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The PID of its child, if the process is `thp run`.
    pub(crate) fn child_of(&self) -> u32 {
        let path = format!("/proc/{0}/task/{0}/children", self.pid());
        let children = std::fs::read_to_string(path).expect("children");
        children.split_whitespace().next().and_then(|pid| pid.parse().ok()).expect("a child")
    }

    pub(crate) fn obey(&mut self, order: &str) -> String {
        writeln!(self.orders.as_mut().expect("open"), "{order}").expect("it lives");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("an answer");
        let answer = line.trim().to_owned();
        assert!(!answer.starts_with("no order"), "{answer}");
        answer
    }

    /// KiB in huge pages.
    pub(crate) fn huge(&self) -> u64 {
        rollup(self.pid(), "AnonHugePages")
    }

    /// KiB of anonymous memory, as its proportional share: unlike that of files, no other process
    /// changes it.
    pub(crate) fn anon(&self) -> u64 {
        rollup(self.pid(), "Pss_Anon")
    }

    /// KiB of proportional size (PSS).
    pub(crate) fn pss(&self) -> u64 {
        rollup(self.pid(), "Pss")
    }

    /// Waits until `so` is true, for at most a minute.
    pub(crate) fn wait_until(&mut self, what: &str, so: impl Fn(&Self) -> bool) {
        let until = Instant::now() + Duration::from_secs(60);
        while !so(self) {
            assert!(Instant::now() < until, "not {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.orders.take());
        let until = Instant::now() + Duration::from_secs(60);
        while Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn rollup(pid: u32, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("smaps_rollup");
    kib(&text, name)
}

fn kib(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).expect(name)
}

/// A memory cgroup for the test, removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Group {
    folder: PathBuf,
    /// The path below the root of the hierarchy.
    pub(crate) path: String,
}

impl Group {
    pub(crate) fn with_limit(bytes: u64) -> Self {
        let group = Self::named(&format!("pagewise-test-thp-{}", std::process::id()));
        let v1 = group.folder.join("memory.limit_in_bytes");
        let limit = if v1.exists() { v1 } else { group.folder.join("memory.max") };
        std::fs::write(limit, bytes.to_string()).expect("a limit");
        group
    }

    /// A cgroup named like that of a Docker container whose ID begins with `id`.
    pub(crate) fn of_container(id: &str) -> Self {
        Self::named(&format!("docker-{id}{:0>1$x}.scope", std::process::id(), 64 - id.len()))
    }

    fn named(name: &str) -> Self {
        let v1 = PathBuf::from("/sys/fs/cgroup/memory");
        let root = if v1.exists() { v1 } else { PathBuf::from("/sys/fs/cgroup") };
        let folder = root.join(name);
        crate::machine::note_made(&crate::machine::Thing::Path(folder.clone()));
        std::fs::create_dir(&folder).expect("a cgroup");
        Self { folder, path: format!("/{name}") }
    }

    pub(crate) fn start(&self, arguments: &str) -> Held {
        Held::started(self.command(&program()).args(arguments.split(' ')))
    }

    /// A command that runs the program in the cgroup.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let join = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", self.folder.display());
        let mut command = Command::new("sh");
        command.args(["-c", &join, "sh"]).arg(program);
        command
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let until = Instant::now() + Duration::from_secs(60);
        while std::fs::remove_dir(&self.folder).is_err() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The example program in this test's build folder; builds it if it does not exist.
pub(crate) fn program() -> PathBuf {
    let mut path = std::env::current_exe().expect("a path");
    path.pop();
    path.pop();
    path.push("examples/held");
    if !path.exists() {
        let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
        let arguments = ["build", "--quiet", "--package", "pagewise-apply", "--example", "held"];
        assert!(Command::new(cargo).args(arguments).status().expect("cargo").success());
    }
    path
}
