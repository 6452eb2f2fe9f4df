// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kills the command's process group if this program is killed, because no other process would.
//!
//! The watcher is a shell that reads lines from a pipe, of which only this program has the other
//! end: the process group of the current run, or an empty line between runs. If the pipe closes and
//! the last line was not empty, the shell kills that group. The shell is in its own process group,
//! so that Ctrl-C does not reach it. It is reaped after all runs, so its CPU time is not counted
//! for any run.
//!
//! Processes that leave the process group escape from the watcher. If there is a cgroup, they are
//! killed when it is returned to the lender.

#![expect(
    clippy::disallowed_methods,
    reason = "it starts the shell that ends the command where we cannot"
)]

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use pagewise_guest::program;

/// The shell script of the watcher: kills the process group in the last line of its input, unless
/// that line was empty. dash accepts `--` only after `-s`.
const SCRIPT: &str = r#"last=; while read -r group; do last=$group; done; [ -z "$last" ] || kill -s KILL -- "-$last""#;

/// The pipe to a shell that kills the running process group if this program is killed. Dropping
/// this value ends the shell without a kill.
#[derive(Debug)]
pub(super) struct Watcher(Option<Child>);

impl Watcher {
    /// Starts the shell. If that fails, there is no watcher, and the command continues to run after
    /// a kill -9 of this program.
    pub(super) fn new() -> Self {
        let start = || {
            let mut command = Command::new(program::find("sh", "dash").ok()?);
            command.args(["-c", SCRIPT]).stdin(Stdio::piped());
            command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
            command.spawn().ok()
        };
        Self(start())
    }

    /// Tells the shell that this process group runs; `None` between two runs.
    pub(super) fn watch(&mut self, group: Option<u32>) {
        let line = group.map_or_else(String::new, |group| group.to_string()) + "\n";
        if let Some(input) = self.0.as_mut().and_then(|child| child.stdin.as_mut()) {
            let _ = input.write_all(line.as_bytes());
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.watch(None);
        if let Some(child) = &mut self.0 {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_ended(mut child: Child) -> bool {
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while std::time::Instant::now() < until {
            if child.try_wait().unwrap().is_some() {
                return true;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let _ = child.kill();
        false
    }

    /// Simulates that this program is killed: the pipe closes without an empty line.
    #[test]
    fn the_group_of_one_who_is_gone_is_killed_and_no_other() {
        let sleeper = || Command::new("sleep").arg("999").process_group(0).spawn().unwrap();
        let (ours, mut others) = (sleeper(), sleeper());
        let mut watcher = Watcher::new();
        watcher.watch(Some(others.id()));
        watcher.watch(None);
        watcher.watch(Some(ours.id()));
        drop(watcher.0.as_mut().unwrap().stdin.take());
        assert!(has_ended(ours));
        watcher.0.take().unwrap().wait().unwrap();
        assert!(others.try_wait().unwrap().is_none(), "its run was over");
        let mut calm = Watcher::new();
        calm.watch(Some(others.id()));
        drop(calm);
        assert!(others.try_wait().unwrap().is_none(), "a farewell is no death");
        others.kill().unwrap();
        others.wait().unwrap();
    }
}
