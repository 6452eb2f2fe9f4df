// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ends the command's process group when we are killed: nobody else would end what the command started.
//!
//! A shell reads lines from a pipe of which only we have the other end: the group of the run that goes on, or
//! nothing between two runs. When the pipe ends without our farewell, it kills the last group. It is a group
//! of its own, so that no Ctrl-C reaches it, and waited for after all runs: its processor time is nobody's.
//!
//! What leaves the group gets away from it; where there is a cgroup, giving that back ends those too.

#![expect(
    clippy::disallowed_methods,
    reason = "it starts the shell that ends the command where we cannot"
)]

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use pagewise_guest::program;

/// The last line without a farewell is who is killed. dash knows `--` only behind `-s`.
const SCRIPT: &str = r#"last=; while read -r group; do last=$group; done; [ -z "$last" ] || kill -s KILL -- "-$last""#;

/// Dropped at the end, which tells it that all is well.
#[derive(Debug)]
pub(super) struct Watcher(Option<Child>);

impl Watcher {
    /// One that cannot be started watches nothing: all that is lost is what happens after kill -9.
    pub(super) fn new() -> Self {
        let start = || {
            let mut command = Command::new(program::find("sh", "dash").ok()?);
            command.args(["-c", SCRIPT]).stdin(Stdio::piped());
            command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
            command.spawn().ok()
        };
        Self(start())
    }

    /// This group runs; none between two runs.
    pub(super) fn watch(&mut self, group: Option<u32>) {
        let line = group.map_or_else(String::new, |group| group.to_string()) + "\n";
        if let Some(told) = self.0.as_mut().and_then(|child| child.stdin.as_mut()) {
            let _ = told.write_all(line.as_bytes());
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

    fn ends(mut child: Child) -> bool {
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

    /// As when we are killed: the pipe ends and nobody has said that the run was over.
    #[test]
    fn the_group_of_one_who_is_gone_is_killed_and_no_other() {
        let sleeper = || Command::new("sleep").arg("999").process_group(0).spawn().unwrap();
        let (ours, mut others) = (sleeper(), sleeper());
        let mut watcher = Watcher::new();
        watcher.watch(Some(others.id()));
        watcher.watch(None);
        watcher.watch(Some(ours.id()));
        drop(watcher.0.as_mut().unwrap().stdin.take());
        assert!(ends(ours));
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
