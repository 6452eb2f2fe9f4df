// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `status --watch` on a real pseudo-terminal: keys, sizes, signals, and that the terminal is
//! restored.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};

use pagewise_capture::{Stream, Timeline};
use pagewise_model::Bytes;
use pagewise_observe::{Entry, Rest, Tape, TapeEnd};
use pagewise_record::{Ring, RingLimits};
use pagewise_testkit::scene::Scene;

use crate::program::run;

const ENTERED: &str = "\x1b[?1049h";
const LEFT: &str = "\x1b[?1049l";

/// A pseudo-terminal in which the program runs.
pub(crate) struct Terminal {
    master: OwnedFd,
    /// Kept open, so that the terminal outlives the program.
    _own: OwnedFd,
    child: Child,
    before: Termios,
    /// What was printed since the last [`Self::wait_for`].
    shown: String,
    /// The screen that all of it makes: only cells that changed are printed.
    screen: vt100::Parser,
}

impl Terminal {
    fn start(size: (u16, u16), variables: &[(&str, &str)]) -> Self {
        Self::start_with(size, variables, &["--every".as_ref(), "100ms".as_ref()])
    }

    fn start_with(size: (u16, u16), variables: &[(&str, &str)], arguments: &[&OsStr]) -> Self {
        let watch = [&["status".as_ref(), "--watch".as_ref()], arguments].concat();
        Self::start_verb(size, variables, &watch)
    }

    /// Starts the program with these arguments.
    pub(crate) fn start_verb(
        size: (u16, u16),
        variables: &[(&str, &str)],
        arguments: &[&OsStr],
    ) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let open = || {
            let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
            rustix::fs::open(&name, flags, Mode::empty()).unwrap()
        };
        resize(&master, size);
        let before = tcgetattr(&master).unwrap();
        let child = Command::new("setsid")
            .args(["--ctty", env!("CARGO_BIN_EXE_pagewise")])
            .args(arguments)
            .env("TERM", "xterm")
            .env("LC_ALL", "C.UTF-8")
            .envs(variables.iter().copied())
            .stdin(Stdio::from(open()))
            .stdout(Stdio::from(open()))
            .stderr(Stdio::from(open()))
            .spawn()
            .unwrap();
        let screen = vt100::Parser::new(size.1, size.0, 0);
        Self { master, _own: open(), child, before, shown: String::new(), screen }
    }

    fn resize(&mut self, size: (u16, u16)) {
        self.screen.set_size(size.1, size.0);
        resize(&self.master, size);
    }

    pub(crate) fn press(&self, keys: &str) {
        rustix::io::write(&self.master, keys.as_bytes()).unwrap();
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until this text is printed or on the screen. Returns the output that had not been
    /// returned before: up to the end of the text if it was printed, else all.
    pub(crate) fn wait_for(&mut self, wanted: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(at) = self.shown.find(wanted) {
                let rest = self.shown.split_off(at + wanted.len());
                return std::mem::replace(&mut self.shown, rest);
            }
            if self.screen.screen().contents().contains(wanted) {
                return std::mem::take(&mut self.shown);
            }
            assert!(Instant::now() < deadline, "no {wanted:?} came");
            self.read();
        }
    }

    fn read(&mut self) {
        let timeout = Timespec::try_from(Duration::from_millis(100)).unwrap();
        let mut ready = [PollFd::new(&self.master, PollFlags::IN)];
        if poll(&mut ready, Some(&timeout)).unwrap() == 1 {
            let mut bytes = [0; 8192];
            let length = rustix::io::read(&self.master, &mut bytes).unwrap();
            self.screen.process(&bytes[..length]);
            self.shown.push_str(&String::from_utf8_lossy(&bytes[..length]));
        }
    }

    /// Waits until the program has ended, and returns its status and what the screen shows.
    pub(crate) fn end_of_program(&mut self) -> (ExitStatus, String) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let status = loop {
            self.read();
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "the program did not end");
        };
        self.read();
        (status, self.screen.screen().contents())
    }

    fn is_as_before(&self) -> bool {
        let now = tcgetattr(&self.master).unwrap();
        format!("{now:?}") == format!("{:?}", self.before)
    }

    /// Waits for the program's end; the terminal must be restored.
    fn end(&mut self) -> ExitStatus {
        self.wait_for(LEFT);
        let status = self.child.wait().unwrap();
        assert!(self.is_as_before(), "the terminal was not restored");
        status
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn resize(master: &OwnedFd, (columns, lines): (u16, u16)) {
    let size = Winsize { ws_col: columns, ws_row: lines, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(master, size).unwrap();
}

#[test]
fn keys_and_sizes_are_followed_until_q() {
    let mut terminal = Terminal::start((80, 24), &[]);
    terminal.wait_for(ENTERED);
    terminal.wait_for("Memory");
    terminal.wait_for("\x1b[24;1H");
    let during = tcgetattr(&terminal.master).unwrap().local_modes;
    assert!(!during.intersects(LocalModes::ICANON | LocalModes::ECHO), "{during:?}");
    terminal.resize((40, 10));
    let redrawn = terminal.wait_for("\x1b[10;1H");
    assert!(redrawn.contains(ENTERED), "the whole screen is drawn anew: {redrawn:?}");
    terminal.resize((120, 40));
    terminal.wait_for("by size");
    terminal.press("s");
    terminal.wait_for("by growth");
    terminal.press(" ");
    terminal.wait_for("FROZEN");
    // filter for this test's own process, which outlives the view
    let own = std::fs::read_to_string("/proc/self/comm").unwrap();
    terminal.press(&format!(" /{}", own.trim()));
    terminal.wait_for(&format!("{}_", own.trim()));
    terminal.press("\r\r");
    terminal.wait_for("In RAM");
    terminal.press("\x1b");
    terminal.wait_for("resident");
    terminal.press("q");
    assert_eq!(terminal.end().code(), Some(0));
}

#[test]
fn signals_end_it_with_the_terminal_restored() {
    let mut terminal = Terminal::start((80, 24), &[]);
    terminal.wait_for("Memory");
    terminal.signal(Signal::TERM);
    assert_eq!(terminal.end().signal(), Some(Signal::TERM.as_raw()));
    let mut terminal = Terminal::start((80, 24), &[]);
    terminal.wait_for("Memory");
    terminal.press("\x03");
    assert_eq!(terminal.end().code(), Some(130));
}

#[test]
fn while_it_is_stopped_the_terminal_is_as_before() {
    let mut terminal = Terminal::start((80, 24), &[]);
    terminal.wait_for("Memory");
    terminal.press("\x1a");
    terminal.wait_for(LEFT);
    let deadline = Instant::now() + Duration::from_secs(60);
    while !terminal.is_as_before() {
        assert!(Instant::now() < deadline, "the terminal was not restored");
        std::thread::sleep(Duration::from_millis(10));
    }
    // continue it only after it has stopped
    while !is_stopped(terminal.child.id()) {
        assert!(Instant::now() < deadline, "it did not stop");
        std::thread::sleep(Duration::from_millis(10));
    }
    terminal.signal(Signal::CONT);
    terminal.wait_for(ENTERED);
    terminal.wait_for("Memory");
    terminal.press("q");
    assert_eq!(terminal.end().code(), Some(0));
}

fn is_stopped(pid: u32) -> bool {
    status(pid).contains("State:\tT")
}

#[expect(clippy::disallowed_methods, reason = "a test asks for the state of its own child")]
fn status(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap()
}

#[test]
fn without_utf8_and_colours_all_is_ascii_without_colours() {
    let mut terminal = Terminal::start((80, 24), &[("LC_ALL", "C"), ("NO_COLOR", "1")]);
    let shown = terminal.wait_for("q quit");
    assert!(shown.is_ascii() && !shown.contains("\x1b[1m"), "{shown:?}");
    terminal.press("q");
    assert_eq!(terminal.end().code(), Some(0));
}

/// Readings of a recorded host, in which free memory in MiB equals the number of the reading, from 1
/// on.
fn tapes(steps: u32) -> Vec<Tape> {
    let scene = Scene::load("debian-sid-7.2-x86_64-512m-zram-pressure");
    let files: Vec<(String, Vec<u8>)> = scene.into_files().into_iter().collect();
    let tape = |step: u32| {
        let of_end = files.iter().filter_map(|(path, bytes)| {
            let path = path.strip_prefix("end/")?.replace("%2E%2E", "..");
            Some((path, Entry::File(bytes.clone())))
        });
        let mut files: std::collections::BTreeMap<String, Entry> = of_end.collect();
        let free = format!("MemTotal: 500000 kB\nMemFree: {} kB\nMemAvailable: 9 kB\n", step << 10);
        files.insert("proc/meminfo".to_owned(), Entry::File(free.into_bytes()));
        let seconds = f64::from(step);
        let end = TapeEnd {
            name: "end",
            unix_seconds: 20_000.0 * 86_400.0 + seconds,
            monotonic_seconds: 1000.0 + seconds,
            awake_seconds: Some(1000.0 + seconds),
            files,
        };
        Tape { page_size: Some(4096), ends: vec![end] }
    };
    (1..=steps).map(tape).collect()
}

/// A recording over time of these readings.
fn recording(steps: u32) -> tempfile::TempDir {
    let tapes = tapes(steps);
    let folder = tempfile::tempdir().unwrap();
    let file = std::fs::File::create(folder.path().join("x.tar.zst")).unwrap();
    let (mut timeline, capture) = Timeline::begin(&tapes[0]);
    let mut stream = Stream::begin(&capture, file).unwrap();
    for tape in &tapes[1..] {
        assert!(stream.add_step(&timeline.step(tape).unwrap()).unwrap());
    }
    stream.finish().unwrap();
    folder
}

/// The folder of a record is stepped through like a recording, from a time on.
#[test]
fn a_record_of_the_monitor_is_stepped_through() {
    let folder = tempfile::tempdir().unwrap();
    let limits = RingLimits { size: Bytes::new(8 << 20), age: Duration::from_secs(1 << 40) };
    let mut ring = Ring::open(folder.path(), limits).unwrap();
    for tape in tapes(4) {
        ring.add(tape, &Rest::Nothing).unwrap();
    }
    drop(ring);
    let at = ["--root".as_ref(), folder.path().as_os_str(), "--at".as_ref(), "00:00:03".as_ref()];
    let mut terminal = Terminal::start_with((80, 24), &[], &at);
    terminal.wait_for("step 3 of 4");
    terminal.wait_for("3.0 MiB free");
    assert!(status(terminal.child.id()).contains("Seccomp:\t2\n"), "the rights are given up");
    terminal.press(",");
    terminal.wait_for("step 2 of 4");
    terminal.wait_for("2.0 MiB free");
    terminal.press("q");
    assert_eq!(terminal.end().code(), Some(0));
}

/// The program has given up its rights by then, but must still be able to use the terminal.
#[test]
fn a_recording_is_gone_through_and_the_terminal_restored() {
    let folder = recording(4);
    let path = folder.path().join("x.tar.zst");
    let arguments = ["--root".as_ref(), path.as_os_str()];
    let mut terminal = Terminal::start_with((80, 24), &[], &arguments);
    terminal.wait_for("step 1 of 4");
    terminal.wait_for("1.0 MiB free");
    assert!(status(terminal.child.id()).contains("Seccomp:\t2\n"), "the rights are given up");
    terminal.press(".");
    terminal.wait_for("step 2 of 4");
    terminal.wait_for("2.0 MiB free");
    terminal.press("\x1b[F");
    terminal.wait_for("step 4 of 4");
    terminal.wait_for("4.0 MiB free");
    terminal.press("\x1b[D");
    terminal.wait_for("step 3 of 4");
    terminal.press("j1\r");
    terminal.wait_for("step 1 of 4");
    // it plays to the end by itself
    terminal.press("+++ ");
    terminal.wait_for("playing ×10");
    terminal.wait_for("step 4 of 4");
    terminal.press("\x1a");
    terminal.wait_for(LEFT);
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_stopped(terminal.child.id()) {
        assert!(Instant::now() < deadline, "it did not stop");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(terminal.is_as_before());
    terminal.signal(Signal::CONT);
    terminal.wait_for(ENTERED);
    terminal.wait_for("step 4 of 4");
    terminal.press("q");
    assert_eq!(terminal.end().code(), Some(0));
    for (keys, signal) in [("\x03", None), ("", Some(Signal::TERM))] {
        let mut terminal = Terminal::start_with((80, 24), &[], &arguments);
        terminal.wait_for("step 1 of 4");
        terminal.press(keys);
        signal.into_iter().for_each(|signal| terminal.signal(signal));
        let status = terminal.end();
        let expected = signal.map_or((Some(130), None), |signal| (None, Some(signal.as_raw())));
        assert_eq!((status.code(), status.signal()), expected);
    }
    let mut none = Terminal::start_with((80, 24), &[], &["--root".as_ref(), "/dev/null".as_ref()]);
    none.wait_for("expected a folder or a .tar.zst file");
    assert_eq!(none.child.wait().unwrap().code(), Some(1));
    assert!(!none.shown.contains(ENTERED) && none.is_as_before());
}

#[test]
fn what_is_no_screen_is_refused_with_what_to_do_instead() {
    let refused = |arguments: &[&str]| {
        let ran = run(&[&["status", "--watch"], arguments].concat());
        assert_eq!((ran.status, ran.out.as_str()), (2, ""), "{arguments:?}");
        assert!(ran.err.contains("next   pagewise status"), "{}", ran.err);
        ran.err
    };
    assert!(refused(&[]).contains("standard output is not a terminal"));
    assert!(refused(&["--json"]).contains("--json"));
    assert!(refused(&["--root", "/"]).contains("standard output is not a terminal"));
    let ran = run(&["status", "--watch", "--every", "2s", "--root", "/"]);
    assert!(ran.status == 2 && ran.err.contains("cannot be used with"), "{}", ran.err);
    let ran = run(&["status", "--every", "2s"]);
    assert!(ran.status == 2 && ran.err.contains("--watch"), "{}", ran.err);
    assert_eq!(run(&["status", "--watch", "--every", "10ms"]).status, 2);
    // `top` is the same view: the same refusals
    let ran = run(&["top", "--every", "2s", "--root", "/"]);
    assert_eq!((ran.status, ran.out.as_str()), (2, ""), "{}", ran.err);
    assert!(run(&["top"]).err.contains("standard output is not a terminal"));
    let mut dumb = Terminal::start((80, 24), &[("TERM", "dumb")]);
    dumb.wait_for("TERM=dumb");
    assert_eq!(dumb.child.wait().unwrap().code(), Some(2));
}
