// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a worker for a task, and returns its answer or why it gave none. No worker outlives the
//! call.

#![expect(clippy::disallowed_methods, reason = "it starts the worker, which is this program")]

use std::fs::File;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::failure::{ErrorContext, Failure};
use super::spec::{Control, FaultsEnd};
use super::task::{Round, TASK, Task, TaskAnswer};

/// Interval for checking whether the user stops.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Time limit of a worker, long enough for an emulated machine: a worker that takes longer is
/// stuck.
const PATIENCE: Duration = Duration::from_secs(180);
/// Maximum length of an answer in bytes.
const MAX_ANSWER: usize = 64 * 1024;

/// Why a worker gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// The measurement was stopped, or its time is over.
    Over(FaultsEnd),
    /// The worker failed, for this reason.
    Failed(String),
}

/// Runs one worker until it has answered or ended.
pub(super) fn run(
    program: &Path,
    task: &Task,
    pages: &File,
    control: &Control<'_>,
) -> Result<Round, NoAnswer> {
    let mut worker =
        start(program, task, pages).map_err(|failure| NoAnswer::Failed(failure.to_string()))?;
    let text = match worker.0.stdout.take() {
        Some(pipe) => read_answer(pipe, control),
        None => Err(NoAnswer::Failed("the worker has no output".to_owned())),
    };
    if text.is_err() {
        let _ = worker.0.kill();
    }
    let status = worker.0.wait().map_err(|error| NoAnswer::Failed(error.to_string()))?;
    match serde_json::from_slice(&text?) {
        Ok(TaskAnswer::Measured(round)) => Ok(round),
        Ok(TaskAnswer::Failed(why)) => Err(NoAnswer::Failed(why)),
        Err(_) => Err(NoAnswer::Failed(describe_end(status))),
    }
}

/// A worker process, which is killed when this value is dropped.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(program: &Path, task: &Task, pages: &File) -> Result<Worker, Failure> {
    let task = serde_json::to_string(task).context(TASK)?;
    let pages = pages.try_clone().context("the pages")?;
    let mut command = Command::new(program);
    command.env_clear().env(TASK, task).stdin(pages).stdout(Stdio::piped()).stderr(Stdio::null());
    let worker = command.spawn().context(program.display())?;
    Ok(Worker(worker))
}

/// Reads the worker's output until it closes the pipe.
fn read_answer(mut pipe: ChildStdout, control: &Control<'_>) -> Result<Vec<u8>, NoAnswer> {
    let started = Instant::now();
    let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
    while answer.len() < MAX_ANSWER {
        if let Some(ended) = control.why_over() {
            return Err(NoAnswer::Over(ended));
        }
        if started.elapsed() > PATIENCE {
            let seconds = PATIENCE.as_secs();
            return Err(NoAnswer::Failed(format!("the worker did not answer for {seconds} s")));
        }
        if !matches!(poll(&mut [PollFd::new(&pipe, PollFlags::IN)], Some(&LOOK)), Ok(1..)) {
            continue;
        }
        match pipe.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(length) => answer.extend_from_slice(&buffer[..length]),
        }
    }
    Ok(answer)
}

fn describe_end(status: ExitStatus) -> String {
    match status.signal() {
        Some(9) => {
            "the worker was killed (signal 9): by somebody, or because its group's limit is \
                    too low"
                .to_owned()
        }
        Some(signal) => format!("the worker was ended by signal {signal}"),
        None => format!("the worker gave no answer ({status})"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use pagewise_model::{Access, SwappedKind};

    use super::super::task::{Pool, TaskKind};
    use super::*;

    /// Runs a shell script in place of a worker.
    fn no_answer(script: &str, stop: bool, until: Option<Instant>) -> NoAnswer {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("worker");
        // Another process writes the script: if this process had the file open for writing while
        // another thread forks, executing the script could fail with ETXTBSY.
        let write = r#"printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod 700 "$0""#;
        let written = Command::new("sh").args(["-c", write]).arg(&program).arg(script).status();
        assert!(written.unwrap().success());
        let (memory, access) = (SwappedKind::Private, Access::Random);
        let what = TaskKind::Swap { memory, access, pool: Pool::Zswap };
        let group = folder.path().to_owned();
        let task = Task { parent: std::process::id(), group, pages: 1, seed: 1, what };
        let (stop, mut progress) = (AtomicBool::new(stop), |_| {});
        let control = Control { stop: &stop, until, progress: &mut progress };
        run(&program, &task, &tempfile::tempfile().unwrap(), &control).unwrap_err()
    }

    #[test]
    fn a_worker_that_does_not_answer_is_told_of() {
        let failed = |script| match no_answer(script, false, None) {
            NoAnswer::Failed(why) => why,
            NoAnswer::Over(ended) => panic!("{ended:?}"),
        };
        assert_eq!(failed("exit 3"), "the worker gave no answer (exit status: 3)");
        assert_eq!(failed("echo '{\"failed\": \"no room\"}'"), "no room");
        assert!(failed("kill -9 $$").contains("signal 9"));
        assert_eq!(failed("kill -7 $$"), "the worker was ended by signal 7");
        assert!(failed("yes").contains("no answer") || failed("yes").contains("signal"));
    }

    #[test]
    fn a_worker_is_not_waited_for_when_it_is_over() {
        let forever = "exec sleep 1000";
        assert_eq!(no_answer(forever, true, None), NoAnswer::Over(FaultsEnd::Stopped));
        assert_eq!(
            no_answer(forever, false, Some(Instant::now())),
            NoAnswer::Over(FaultsEnd::OutOfTime)
        );
    }
}
