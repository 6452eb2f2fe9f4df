// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Temporary changes (loans) that a test makes to the machine, and how they are undone.
//!
//! Before each change, the test sends the command that undoes it to a shell that runs beside the
//! test. When the input of this shell ends, it runs all commands, the last one first. This happens
//! when the test drops [`Loans`], and also when the test panics or is killed. The shell has a
//! session of its own, so that Ctrl-C in the terminal does not reach it.
//!
//! A test that makes changes first waits for its [`Turn`] (a lock), and the shell keeps the lock
//! until everything is undone.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::thing::Thing;
use crate::turn::{FOLDER, Turn};

/// Maximum time to wait for a device that another program has open.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until no other run of tests changes this machine. After that, this process has the lock
/// until it ends. Users other than root do not wait, because they cannot change anything.
///
/// # Panics
///
/// If another run keeps the lock for longer than all tests together take.
pub fn take_turn() -> &'static Option<Turn> {
    static TURN: OnceLock<Option<Turn>> = OnceLock::new();
    TURN.get_or_init(|| {
        let is_root = rustix::process::geteuid().is_root();
        is_root.then(|| Turn::wait().unwrap_or_else(|error| panic!("{error}")))
    })
}

/// Adds a thing that was created to the list with which `xtask` checks, at the end of all tests,
/// that nothing is left.
pub fn note_made(thing: &Thing) {
    take_turn();
    let list = OpenOptions::new().append(true).create(true).open(Path::new(FOLDER).join("made"));
    // only root can write the list; things that other users create end with their processes
    let _ = list.and_then(|mut list| writeln!(list, "{thing}"));
}

/// The changes that a test has made to this machine so far. They are undone when this is dropped.
#[derive(Debug)]
pub struct Loans {
    watcher: Child,
}

impl Loans {
    /// Creates an empty list of changes, and starts the shell that will undo them.
    ///
    /// # Panics
    ///
    /// If a program of util-linux is missing.
    #[expect(clippy::new_without_default, reason = "it starts a program")]
    #[must_use]
    pub fn new() -> Self {
        let lock = take_turn().as_ref().and_then(Turn::file);
        let lock = lock.map_or_else(Stdio::null, |file| file.try_clone().expect("a copy").into());
        let watcher = Command::new("setsid")
            // every process that has the lock file open holds the lock
            .args(["sh", "-c", "exec 3>&1 > /dev/null; tac | sh"])
            .stdin(Stdio::piped())
            .stdout(lock)
            .spawn()
            .expect("setsid, of util-linux");
        Self { watcher }
    }

    /// Registers a command that undoes a change, to be run when the test ends.
    pub fn promise(&mut self, command: &str) {
        let listed = self.watcher.stdin.as_mut().expect("open until dropped");
        writeln!(listed, "{command}").expect("the watcher lives");
    }

    /// Creates a zram device with `disksize`; never uses an existing one. Returns its number.
    pub fn zram(&mut self, disksize: &str) -> u32 {
        let id: u32 = read("/sys/class/zram-control/hot_add").parse().expect("a number");
        let own = Thing::zram(id).expect("the device that was made");
        let is_own = own.is_there_in_shell();
        // if the test were killed between the lines above and this line, an unused, empty device
        // would be left
        self.promise(&format!("! {is_own} || echo {id} > /sys/class/zram-control/hot_remove"));
        let reset = format!("! {is_own} || echo 1 > /sys/block/zram{id}/reset");
        self.promise(&format!("for i in $(seq 1200); do {reset} && break; sleep 0.05; done"));
        note_made(&own);
        write(&format!("/sys/block/zram{id}/disksize"), disksize);
        id
    }

    /// Creates a swap file in `folder` without enabling it.
    pub fn swap_file(&mut self, folder: &Path, megabytes: u32) -> PathBuf {
        let path = folder.join("swapfile");
        let shown = path.display().to_string();
        self.promise(&format!("rm -f '{shown}'"));
        note_made(&Thing::Path(path.clone()));
        run(
            "dd",
            &["if=/dev/zero", &format!("of={shown}"), "bs=1M", &format!("count={megabytes}")],
        );
        run("chmod", &["600", &shown]);
        run("mkswap", &[&shown]);
        path
    }

    /// Enables a swap area until the end of the test.
    pub fn swap_on(&mut self, area: &str, priority: i32) {
        self.promise(&format!("swapoff '{area}'"));
        note_made(&Thing::swap(area));
        run("swapon", &["--priority", &priority.to_string(), area]);
    }

    /// Changes a setting until the end of the test.
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

/// Returns the word in brackets of a text such as `always [madvise] never`; the whole text if it
/// has no brackets.
fn active_word(text: &str) -> &str {
    let inner = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inner.map_or(text, |(word, _)| word)
}

/// Returns the contents of a file, without surrounding white space.
///
/// # Panics
///
/// If the file cannot be read.
#[must_use]
pub fn read(path: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.trim().to_owned()
}

/// Writes a setting. While the file is busy, the write is tried again for up to a minute, because
/// pagewise as root opens block devices for a moment to see whether they are swap areas.
///
/// # Panics
///
/// If the write is refused.
pub fn write(path: &str, value: &str) {
    let until = Instant::now() + PATIENCE;
    let mut written = std::fs::write(path, value);
    while written.as_ref().is_err_and(|error| error.kind() == ErrorKind::ResourceBusy)
        && Instant::now() < until
    {
        sleep(Duration::from_millis(50));
        written = std::fs::write(path, value);
    }
    written.unwrap_or_else(|error| panic!("{path}: {error}"));
}

/// Mounts a file system again, read-only. While it is busy, this is tried again: a process that another test has just
/// started has this process's descriptors until it runs its own program.
///
/// # Panics
///
/// If the file system stays busy, or for another reason.
pub fn remount_read_only(folder: &str) {
    let until = Instant::now() + PATIENCE;
    loop {
        let mut mount = Command::new("mount");
        let output = mount.args(["-o", "remount,ro", folder]).output().expect("mount");
        let complaint = String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            return;
        }
        assert!(complaint.contains("busy") && Instant::now() < until, "{folder}: {complaint}");
        sleep(Duration::from_millis(50));
    }
}

/// Runs a program that must succeed, and returns its output.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect(program);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {complaint}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
