// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the program that prints the counter of a cgroup's work. It is given to no shell, and for root
//! it must be a program that no other user can change.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use pagewise_observe::{acts_as_root, check_trusted_file};
use pagewise_terminal::interrupt::Stop;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::verbs::command_output::read_output;

/// The agent does nothing else meanwhile.
const LONGEST_RUN: Duration = Duration::from_secs(5);
const NAP: Duration = Duration::from_millis(10);

/// What the program prints on standard output; it must end with success within [`LONGEST_RUN`].
pub(super) fn run(words: &[String], stop: &Stop) -> anyhow::Result<Vec<u8>> {
    run_within(LONGEST_RUN, words, stop)
}

fn run_within(limit: Duration, words: &[String], stop: &Stop) -> anyhow::Result<Vec<u8>> {
    let [program, arguments @ ..] = words else { bail!("no program is named") };
    if acts_as_root() {
        check_trusted_file(Path::new(program)).map_err(anyhow::Error::msg)?;
    }
    let mut child = start(program, arguments).context("it cannot be started")?;
    let reader = read_output(child.stdout.take());
    let ended = wait(limit, &mut child, stop);
    // what it started and left behind holds the pipe open
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    child.wait()?;
    let text = reader.join().unwrap_or_default();
    ended.map(|()| text)
}

#[expect(clippy::disallowed_methods, reason = "the user's own command")]
fn start(program: &str, arguments: &[String]) -> std::io::Result<Child> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.process_group(0).spawn()
}

fn wait(limit: Duration, child: &mut Child, stop: &Stop) -> anyhow::Result<()> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            if !status.success() {
                bail!("it ended with {status}");
            }
            return Ok(());
        }
        if stop.is_asked() {
            bail!("the agent was stopped");
        }
        if started.elapsed() > limit {
            bail!("it ran for more than {} s", limit.as_secs_f64());
        }
        std::thread::sleep(NAP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> anyhow::Result<String> {
        let words = ["/bin/sh", "-c", script].map(str::to_owned);
        run(&words, &Stop::never()).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn what_it_prints_is_returned_and_failures_say_why() {
        assert_eq!(shell("echo 7; echo no >&2").unwrap(), "7\n");
        assert!(shell("exit 3").unwrap_err().to_string().contains("exit status: 3"));
        let missing = run(&["/nonesuch/program".to_owned()], &Stop::never()).unwrap_err();
        assert!(
            format!("{missing:#}").contains("nonesuch")
                || format!("{missing:#}").contains("No such file"),
            "{missing:#}"
        );
        // words reach the program as they are
        let words = ["/bin/echo", "$HOME", "a b; c"].map(str::to_owned);
        assert_eq!(run(&words, &Stop::never()).unwrap(), b"$HOME a b; c\n");
    }

    #[test]
    fn what_takes_too_long_is_killed_with_all_that_it_started() {
        let started = Instant::now();
        let words = ["/bin/sh", "-c", "sleep 600 & sleep 600"].map(str::to_owned);
        let why = run_within(Duration::from_millis(200), &words, &Stop::never()).unwrap_err();
        assert!(why.to_string().contains("it ran for more than 0.2 s"), "{why}");
        // a child that keeps the pipe open does not hold the agent up
        assert_eq!(shell("sleep 600 & echo 1").unwrap(), "1\n");
        assert!(started.elapsed() < Duration::from_secs(300), "nobody waited for the children");
    }
}
