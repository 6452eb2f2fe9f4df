// SPDX-License-Identifier: Apache-2.0 OR MIT
//! In which order guests start that use the same cache, and what the waiting ones print.
//!
//! No check depends on how long anything takes: a guest that must not start needs more memory than
//! guests may use together, and one that must start does so while the sleeping guest lives.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::boot::{finish, lab};
use crate::caches;
use crate::outcomes::names;

/// A runner whose standard error is read line by line as it is printed.
struct Runner {
    child: Child,
    lines: Receiver<String>,
}

impl Runner {
    fn start(cache: &Path, options: &[&str], job: &str) -> Self {
        let mut command = guest(cache, options, job);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (say, lines) = channel();
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).try_for_each(|line| say.send(line))
        });
        Self { child, lines }
    }

    /// Waits for the next line that contains the text; fails at once if the runner ends without
    /// printing it.
    #[track_caller]
    fn hear(&self, text: &str) -> String {
        let mut heard = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(Duration::from_secs(900)) {
            if line.contains(text) {
                return line;
            }
            heard.push(line);
        }
        panic!("{text} was not said: {heard:#?}");
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn guest(cache: &Path, options: &[&str], job: &str) -> Command {
    let usual = ["--kernel", "bookworm", "--start-deadline", "10m", "--deadline", "30m"];
    let options = [&usual, options].concat();
    let mut command = lab(&[&options[..], &["--", "sh", "-c", job]].concat());
    command.env("PAGEWISE_CACHE", cache);
    command
}

/// As much memory as all guests may use together, so it does not fit next to another guest.
fn most_memory() -> String {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap();
    let total: u64 = total.split_whitespace().next().unwrap().parse().unwrap();
    format!("{}M", total / 4 * 3 / 1024)
}

#[test]
fn guests_start_in_order_and_one_that_sleeps_holds_up_nobody() {
    let cache = caches::own();
    let cache = cache.path();
    let all_cpus = std::thread::available_parallelism().unwrap().get().min(64).to_string();
    let job = "echo sleeps >&2; exec sleep 2000";
    let mut sleeper = Runner::start(cache, &["--cpus", &all_cpus], job);
    sleeper.hear("sleeps");
    let memory = most_memory();
    let mut first = Runner::start(cache, &["--memory", &memory], "echo runs >&2");
    let line = first.hear("waiting to start a guest");
    let runs = format!("Running: pid {} since ", sleeper.child.id());
    assert!(line.contains("place 1 of 1 in the queue") && line.contains(&runs), "{line}");
    assert!(
        line.contains("): bookworm: sh -c echo sleeps >&2; exec sleep 2000, 512.0 MiB"),
        "{line}"
    );
    assert!(line.contains("the running guests have 640.0 MiB of the "), "{line}");
    assert!(line.ends_with(" --now starts regardless"), "{line}");
    let mut others = ["place 2 of 2", "place 3 of 3"].map(|place| {
        let other = Runner::start(cache, &[], "echo runs >&2");
        let line = other.hear("waiting to start a guest");
        let waits =
            format!("the first in the queue has not started yet: pid {} ", first.child.id());
        assert!(line.contains(place) && line.contains(&waits), "{line}");
        other
    });
    // a runner that gets Ctrl-C leaves the queue at once
    others[0].signal(Signal::INT);
    assert_eq!(others[0].child.wait().unwrap().code(), Some(130));
    others[0].hear("stopped before a guest ran");
    // --now waits for none of them
    let now = finish(&mut guest(cache, &["--now"], "echo runs"));
    assert_eq!((now.status, now.out.as_str(), now.err.as_str()), (0, "runs\n", ""));
    assert!(first.is_alive() && others[1].is_alive());
    assert_eq!(names(&cache.join("queue")).len(), 2);
    // if the first in the queue is killed, the next starts: the sleeping guest needs no CPU
    first.signal(Signal::KILL);
    assert_eq!(first.child.wait().unwrap().signal(), Some(9));
    assert_eq!(others[1].child.wait().unwrap().code(), Some(0));
    others[1].hear("runs");
    assert!(first.lines.iter().all(|line| line != "runs"));
    assert!(sleeper.is_alive());
    sleeper.signal(Signal::INT);
    assert_eq!(sleeper.child.wait().unwrap().code(), Some(130));
    assert_eq!((names(&cache.join("queue")), names(&cache.join("runs"))), (vec![], vec![]));
}
