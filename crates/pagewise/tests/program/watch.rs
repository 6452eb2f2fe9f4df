// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `status --watch` on a real pseudo-terminal: keys, sizes, signals, and that the terminal is as it was afterwards.

use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::program::run;

const ENTERED: &str = "\x1b[?1049h";
const LEFT: &str = "\x1b[?1049l";

/// A terminal in which the program runs.
struct Terminal {
    master: OwnedFd,
    /// Open, so that the terminal lives on when the program has ended.
    _own: OwnedFd,
    child: Child,
    before: Termios,
    /// What was printed since somebody looked.
    shown: String,
}

impl Terminal {
    fn start(size: (u16, u16), variables: &[(&str, &str)]) -> Self {
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
            .args(["--ctty", env!("CARGO_BIN_EXE_pagewise"), "status", "--watch"])
            .args(["--every", "100ms"])
            .env("TERM", "xterm")
            .env("LC_ALL", "C.UTF-8")
            .envs(variables.iter().copied())
            .stdin(Stdio::from(open()))
            .stdout(Stdio::from(open()))
            .stderr(Stdio::from(open()))
            .spawn()
            .unwrap();
        Self { master, _own: open(), child, before, shown: String::new() }
    }

    fn press(&self, keys: &str) {
        rustix::io::write(&self.master, keys.as_bytes()).unwrap();
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until this is printed, and forgets what was printed before its end.
    fn wait_for(&mut self, wanted: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(at) = self.shown.find(wanted) {
                let rest = self.shown.split_off(at + wanted.len());
                return std::mem::replace(&mut self.shown, rest);
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
            self.shown.push_str(&String::from_utf8_lossy(&bytes[..length]));
        }
    }

    fn is_as_before(&self) -> bool {
        let now = tcgetattr(&self.master).unwrap();
        format!("{now:?}") == format!("{:?}", self.before)
    }

    /// How the program ended; the terminal must be as it was.
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
    resize(&terminal.master, (40, 10));
    let redrawn = terminal.wait_for("\x1b[10;1H");
    assert!(redrawn.contains(ENTERED), "the whole screen is drawn anew: {redrawn:?}");
    resize(&terminal.master, (120, 40));
    terminal.wait_for("by size");
    terminal.press("s");
    terminal.wait_for("by growth");
    terminal.press(" ");
    terminal.wait_for("FROZEN");
    // the process of this test, which does not end before it
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
    // it goes on once it has stopped, and not before
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

#[expect(clippy::disallowed_methods, reason = "a test asks for the state of its own child")]
fn is_stopped(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") T ")
}

#[test]
fn without_utf8_and_colours_all_is_ascii_without_colours() {
    let mut terminal = Terminal::start((80, 24), &[("LC_ALL", "C"), ("NO_COLOR", "1")]);
    let shown = terminal.wait_for("q quit");
    assert!(shown.is_ascii() && !shown.contains("\x1b[1m"), "{shown:?}");
    terminal.press("q");
    assert_eq!(terminal.end().code(), Some(0));
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
    assert!(refused(&["--root", "/"]).contains("a recording is of one moment"));
    let ran = run(&["status", "--every", "2s"]);
    assert!(ran.status == 2 && ran.err.contains("--watch"), "{}", ran.err);
    assert_eq!(run(&["status", "--watch", "--every", "10ms"]).status, 2);
    let mut dumb = Terminal::start((80, 24), &[("TERM", "dumb")]);
    dumb.wait_for("TERM=dumb");
    assert_eq!(dumb.child.wait().unwrap().code(), Some(2));
}
