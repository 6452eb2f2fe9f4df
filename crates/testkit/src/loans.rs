// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a test borrows from the machine it runs on, and how it is given back.
//!
//! The way back of every loan is told to a watching shell *before* the loan is taken. The shell
//! runs what it was told, last first, when its input ends: when the test drops [`Loans`], and just
//! as well when the test panics or is killed. It is a session of its own, so that a Ctrl-C at the
//! terminal does not reach it.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// Everything borrowed so far.
#[derive(Debug)]
pub struct Loans {
    watcher: Child,
}

impl Loans {
    /// Nothing yet.
    ///
    /// # Panics
    ///
    /// Where util-linux is missing.
    #[expect(clippy::new_without_default, reason = "it starts a program")]
    #[must_use]
    pub fn new() -> Self {
        let watcher = Command::new("setsid")
            .args(["sh", "-c", "tac | sh"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("setsid, of util-linux");
        Self { watcher }
    }

    /// Promises to run `command` at the end.
    pub fn promise(&mut self, command: &str) {
        let listed = self.watcher.stdin.as_mut().expect("open until dropped");
        writeln!(listed, "{command}").expect("the watcher lives");
    }

    /// A zram device of our own with `disksize`, never one that was there. Answers its number.
    pub fn zram(&mut self, disksize: &str) -> u32 {
        let id: u32 = read("/sys/class/zram-control/hot_add").parse().expect("a number");
        // between the line above and this one a kill would leave an empty, unused device behind
        self.promise(&format!("echo {id} > /sys/class/zram-control/hot_remove"));
        let reset = format!("echo 1 > /sys/block/zram{id}/reset");
        self.promise(&format!("for i in $(seq 100); do {reset} && break; sleep 0.05; done"));
        write(&format!("/sys/block/zram{id}/disksize"), disksize);
        id
    }

    /// A swap file in `folder`, not switched on.
    pub fn swap_file(&mut self, folder: &Path, megabytes: u32) -> PathBuf {
        let path = folder.join("swapfile");
        let shown = path.display().to_string();
        self.promise(&format!("rm -f '{shown}'"));
        run(
            "dd",
            &["if=/dev/zero", &format!("of={shown}"), "bs=1M", &format!("count={megabytes}")],
        );
        run("chmod", &["600", &shown]);
        run("mkswap", &[&shown]);
        path
    }

    /// Switches a swap area on.
    pub fn swap_on(&mut self, area: &str, priority: i32) {
        self.promise(&format!("swapoff '{area}'"));
        run("swapon", &["--priority", &priority.to_string(), area]);
    }

    /// Writes a setting for a while.
    pub fn setting(&mut self, path: &str, value: &str) {
        let old = read(path);
        self.promise(&format!("echo '{}' > {path}", active_word(&old)));
        write(path, value);
    }
}

impl Drop for Loans {
    fn drop(&mut self) {
        drop(self.watcher.stdin.take());
        let ended = self.watcher.wait().expect("the watcher ends");
        if !std::thread::panicking() {
            assert!(ended.success(), "giving back what the test borrowed: {ended}");
        }
    }
}

/// Of `always [madvise] never` the word in brackets, of anything else all of it.
fn active_word(text: &str) -> &str {
    let inner = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inner.map_or(text, |(word, _)| word)
}

/// A file without the white space around it.
///
/// # Panics
///
/// Where it cannot be read.
#[must_use]
pub fn read(path: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.trim().to_owned()
}

/// Writes a setting. As root, the program opens block devices for a moment to see whether they are swap, so one that
/// is busy is tried again for up to 5 s.
///
/// # Panics
///
/// Where it is refused.
pub fn write(path: &str, value: &str) {
    let mut written = std::fs::write(path, value);
    for _ in 0..100 {
        if !written.as_ref().is_err_and(|error| error.kind() == ErrorKind::ResourceBusy) {
            break;
        }
        sleep(Duration::from_millis(50));
        written = std::fs::write(path, value);
    }
    written.unwrap_or_else(|error| panic!("{path}: {error}"));
}

/// Runs a tool of the machine that must succeed.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect(program);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {complaint}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
