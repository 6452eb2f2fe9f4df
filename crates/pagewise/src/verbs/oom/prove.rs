// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise oom --prove`: repeats the newest kill of a log in a guest.
//!
//! A process that has read a log has given up the right to start a guest. So this process starts a
//! second one, which reads the log, prints the explanation, and writes the sizes of the kill to a
//! pipe. Only these sizes reach the guest.

#![expect(
    clippy::disallowed_methods,
    reason = "it starts this same program, and writes to its pipe"
)]

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use pagewise_guest::cache::Cache;
use pagewise_guest::kernel;
use pagewise_guest::qemu::{self, Guest, GuestEvent, Outcome as GuestOutcome};
use pagewise_guest::wire::Stream;
use pagewise_lab::rebuild::is_prediction_confirmed;
use pagewise_model::{Bytes, KernelLog, Name, OomProof, Rebuild, RebuiltRun, Refusal};
use pagewise_report::{json, text};
use pagewise_terminal::interrupt::Stop;
use pagewise_terminal::progress::StepSpinner;
use pagewise_terminal::{Global, Outcome, output, screen};

use crate::cli;
use crate::verbs::lab::guest::outcome_in_words;

/// Path of the file with the sizes in the guest.
const SIZES: &str = "rebuild.json";
/// Memory of the guest.
const MEMORY: Bytes = Bytes::new(256 << 20);
/// The guest's kernel: one with cgroups of version 2, multi-gen LRU and zram.
const KERNEL: &str = "trixie";
/// Time limit for all runs; without KVM each takes some seconds.
const DEADLINE: Duration = Duration::from_secs(600);
/// Maximum length in bytes of the message from the process that reads the log.
const LONGEST: u64 = 1 << 20;
/// How much of the guest's error output is kept, at least.
const LONGEST_ERRORS: usize = 4096;
/// Maximum number of runs that are accepted from a guest.
const MOST_RUNS: usize = 32;

/// What the process that reads the log reports of the newest kill: its sizes, or why it cannot be
/// repeated.
type Sizes = Result<Rebuild, String>;

/// The pipe to which the sizes of the newest kill are written. Opened before this process gives up its rights.
#[derive(Debug)]
pub(crate) struct SizesPipe(File);

impl SizesPipe {
    /// Opens the pipe with this file descriptor, which the parent process left open. Refuses
    /// anything but a pipe, because the number is an option that anybody can give.
    pub(super) fn open(number: u32) -> anyhow::Result<Self> {
        let path = format!("/proc/self/fd/{number}");
        let is_pipe = std::fs::metadata(&path).is_ok_and(|it| it.file_type().is_fifo());
        if !is_pipe {
            bail!("--rebuild-to is for pagewise itself: {number} is no open pipe");
        }
        let file = OpenOptions::new().write(true).open(&path);
        Ok(Self(file.with_context(|| path.clone())?))
    }

    pub(crate) fn write(mut self, log: &KernelLog) -> anyhow::Result<()> {
        let sizes: Sizes = pagewise_decide::oom::rebuild(log).map_err(str::to_owned);
        self.0.write_all(&serde_json::to_vec(&sizes)?).context("writing the sizes of the kill")
    }
}

pub(super) fn run(global: &Global, args: &cli::Oom) -> anyhow::Result<Outcome> {
    let reading = read_log(global)?;
    let proof = match reading.sizes {
        // the other process has already printed the reason
        None => return Ok(Outcome::Status(reading.status)),
        Some(Ok(rebuild)) => prove_in_guest(global, args.now, rebuild)?,
        Some(Err(why)) => {
            output::print_document(&String::from_utf8_lossy(&reading.printed))?;
            bail!(Refusal::new(
                "oom --prove: the newest kill cannot be done again in a guest",
                why
            ));
        }
    };
    if global.json {
        let document = json::with_proof(&reading.printed, &proof);
        output::print_document(&document.context("what was read of the log")?)?;
    } else {
        output::print_answer(global, &text::oom_proof(&proof, screen::text_style(global)))?;
    }
    Ok(Outcome::Status(reading.status))
}

/// The result of the process that reads the log.
struct LogReading {
    status: u8,
    /// The JSON document with --json; otherwise empty, because the process has printed its text
    /// itself.
    printed: Vec<u8>,
    /// `None` if it failed.
    sizes: Option<Sizes>,
}

fn read_log(global: &Global) -> anyhow::Result<LogReading> {
    // without CLOEXEC: the other process inherits the end that it writes
    let (ours, theirs) = rustix::pipe::pipe().context("making a pipe")?;
    let to = format!("--rebuild-to={}", theirs.as_raw_fd());
    let words = std::env::args_os().skip(1).filter(|word| word != "--now");
    let words = words.map(|word| if word == "--prove" { to.clone().into() } else { word });
    let program = std::env::current_exe().context("finding this program's own file")?;
    let mut command = Command::new(program);
    command.args(words);
    if global.json {
        command.stdout(Stdio::piped());
    }
    let mut child = command.spawn().context("starting the process that reads the log")?;
    drop(theirs);
    let mut printed = Vec::new();
    if let Some(mut out) = child.stdout.take() {
        out.read_to_end(&mut printed).context("reading what was found in the log")?;
    }
    let mut sizes = Vec::new();
    File::from(ours)
        .take(LONGEST)
        .read_to_end(&mut sizes)
        .context("reading the sizes of the kill")?;
    let status = child.wait().context("waiting for the process that reads the log")?;
    let status = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(LogReading { status, printed, sizes: serde_json::from_slice(&sizes).ok() })
}

/// Repeats the kill in a guest, once as it was and once with each change.
fn prove_in_guest(global: &Global, now: bool, rebuild: Rebuild) -> anyhow::Result<OomProof> {
    let cache = Cache::open()?;
    let stop = Stop::listen()?;
    let shown = StepSpinner::start(global, "looking for the kernel");
    let wanted = KERNEL.parse().map_err(anyhow::Error::msg)?;
    let kernel = kernel::find(&wanted, &cache, stop.flag(), &mut |line| shown.note(line))?;
    let program = std::env::current_exe().context("finding this program's own file")?;
    let argv = ["/init", "lab", "rebuild", &format!("/{SIZES}")].map(str::to_owned).to_vec();
    let guest = Guest {
        memory: MEMORY,
        // Files in a tmpfs root would be swapped out, too, and their contents would take memory in
        // zram.
        append: vec!["rootfstype=ramfs".to_owned()],
        deadline: DEADLINE,
        texts: vec![(serde_json::to_vec(&rebuild)?, SIZES.to_owned())],
        now,
        purpose: Some("oom --prove".to_owned()),
        ..Guest::new(program, argv)
    };
    let mut runs: Vec<RebuiltRun> = Vec::new();
    let mut errors = String::new();
    shown.set_step("doing the kill again in a guest");
    let run = qemu::run(&guest, &kernel, &cache, stop.flag(), &mut |event| {
        match event {
            GuestEvent::Message(message) if runs.len() < MOST_RUNS => {
                runs.extend(serde_json::from_slice::<RebuiltRun>(&message));
            }
            GuestEvent::Output(Stream::Err, bytes) if errors.len() < LONGEST_ERRORS => {
                errors.push_str(&String::from_utf8_lossy(&bytes));
            }
            GuestEvent::Note(line) => shown.note(line),
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    shown.end();
    let is_over = runs.iter().any(|run| run.trouble.is_some());
    if !matches!(run.outcome, GuestOutcome::Exited { status: 0 }) || (runs.is_empty() && !is_over) {
        let how = outcome_in_words(&run);
        let how = how.unwrap_or_else(|| "the command in the guest ended early".to_owned());
        let last = errors.lines().chain(run.log.iter().map(String::as_str)).last();
        let last = last.map(|line| format!("; last it said: {}", Name::from(line)));
        bail!(Refusal::with_advice(
            format!("oom --prove: {how}{}", last.unwrap_or_default()),
            "pagewise oom --what-if states what the numbers of the log say, without a guest"
        ));
    }
    let was = runs.first().cloned();
    let agreed = |run: &RebuiltRun| is_prediction_confirmed(&rebuild, was.as_ref()?, run);
    let agrees = runs.iter().map(agreed).collect();
    Ok(OomProof { kernel: Name::from(kernel.release.as_str()), rebuild, runs, agrees })
}
