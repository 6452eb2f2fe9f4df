// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise lab guest`: runs a command in a guest, passes on its output, and reports its outcome.

use std::ops::{ControlFlow, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, bail};
use pagewise_guest::cache::Cache;
use pagewise_guest::kernel::{self, Kernel};
use pagewise_guest::qemu::{
    self, Accelerator, DiskAfter, DiskState, Guest, GuestEvent, InstalledGuest, MOST_DISKS, Phase,
    Run,
};
use pagewise_guest::wire::{LOSE_POWER, Stream};
use pagewise_model::Bytes;
use pagewise_terminal::output::{self, Foreign, Printed};
use pagewise_terminal::progress::StepSpinner;
use pagewise_terminal::{Global, Outcome, exit};

use super::out::{self, OutputFiles};
use super::print_message;
use crate::cli::lab as args;

pub(super) fn run(
    global: &Global,
    args: &args::Guest,
    cache: &Cache,
    stop: &AtomicBool,
) -> anyhow::Result<Outcome> {
    let guest = guest_for(args)?;
    if args.reboots.is_some() {
        InstalledGuest::check(&guest)?;
    }
    let boots = Boots::from_args(args);
    if let Some(folder) = &args.out {
        output::create_empty_folder(folder)?;
    }
    if let Some(log) = &args.kernel_log {
        out::refuse_existing(&boots.log_path(log, boots.first))?;
    }
    let shown = StepSpinner::start(global, "looking for the kernel");
    let kernel = kernel::find(&args.kernel, cache, stop, &mut |line| shown.note(line))?;
    let mut runs: Vec<Run> = Vec::new();
    let mut reader_is_gone = false;
    let mut not_copied = None;
    let mut machine = Machine::new(args, &guest, &kernel, (cache, stop), &shown)?;
    for boot in boots.numbers() {
        if !boots.is_one() {
            shown.restart(&format!("boot {boot} of {} to {}: ", boots.first, boots.last));
        }
        shown.set_step(phase_in_words(Phase::Kernel));
        let folder = args.out.as_deref().map(|folder| boots.folder(folder, boot));
        let mut brought = OutputFiles::new(folder, args.out_limit);
        let mut passed = Passed { raw: args.raw, json: global.json, ..Passed::default() };
        let mut on_event = |event: GuestEvent<'_>| {
            reader_is_gone |= show_event(event, &shown, &mut brought, &mut passed) == Printed::Cut;
            // The user may still want the files of --out.
            if reader_is_gone && args.out.is_none() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let mut run = machine.run(&guest, &kernel, (cache, stop), &mut on_event)?;
        passed.finish();
        if let (Some(file), Some(log)) = (&args.kernel_log, run.whole_log.take()) {
            output::create_file(&boots.log_path(file, boot), &log)?;
        }
        let copied = brought.finish();
        if let (Some(disk), false) = (&run.disk, global.json) {
            shown.end();
            for line in boot_lines(global, &kernel, &run, disk) {
                print_message(global, &line);
            }
        }
        let go_on = exit_status(&run.outcome) == 0 && copied.is_ok();
        runs.push(run);
        // after the report, which already has the files that the guest did not send, such as links
        not_copied = copied.err();
        if !go_on {
            break;
        }
    }
    shown.end();
    if reader_is_gone && args.out.is_none() {
        return Ok(Outcome::Done);
    }
    let is_lost = |run: &Run| run.outcome == qemu::Outcome::PowerLost;
    if args.lose_power.is_some() && !runs.iter().any(is_lost) {
        print_message(
            global,
            &format!("no power was lost: no command printed the line {LOSE_POWER}"),
        );
    }
    report_runs(global, &kernel, &runs)?;
    if let Some(error) = not_copied {
        return Err(error);
    }
    Ok(runs.last().map_or(Outcome::Done, |run| Outcome::Status(exit_status(&run.outcome))))
}

/// The guest for the command line. Its PID 1 is the executable of this process.
fn guest_for(args: &args::Guest) -> anyhow::Result<Guest> {
    let program = std::env::current_exe().context("finding this program's own file")?;
    if args.disk.len() > MOST_DISKS {
        bail!("expected at most {MOST_DISKS} disks, found {}", args.disk.len());
    }
    let files =
        args.file.iter().map(|text| out::parse_file(text)).collect::<anyhow::Result<_>>()?;
    let usual = args.userland.deadline();
    Ok(Guest {
        userland: args.userland.clone(),
        memory: args.memory,
        cpus: args.cpus,
        start_deadline: args.start_deadline.unwrap_or(usual),
        deadline: args.deadline.unwrap_or(usual),
        modules: args.module.clone(),
        files,
        disks: args.disk.clone(),
        whole_log: args.kernel_log.is_some(),
        append: args.append.clone(),
        count: args.count,
        accelerator: args.emulate.then_some(Accelerator::Tcg),
        packages: args.package.clone(),
        lose_power: args.lose_power,
        now: args.now,
        ..Guest::new(program, args.command.clone())
    })
}

/// The numbers of the boots of one command: new guests are counted from 1; boots of one root disk
/// from 0, like the variable PAGEWISE_BOOT in the guest.
#[derive(Debug, Clone, Copy)]
struct Boots {
    first: u32,
    last: u32,
}

impl Boots {
    fn from_args(args: &args::Guest) -> Self {
        match args.reboots {
            Some(last) => Self { first: 0, last },
            None => Self { first: 1, last: args.boots.unwrap_or(if args.count { 5 } else { 1 }) },
        }
    }

    fn numbers(self) -> RangeInclusive<u32> {
        self.first..=self.last
    }

    fn is_one(self) -> bool {
        self.first == self.last
    }

    /// The folder for --out. If there are several boots, each has a subfolder.
    fn folder(self, folder: &Path, boot: u32) -> PathBuf {
        if self.is_one() { folder.to_owned() } else { folder.join(boot.to_string()) }
    }

    fn log_path(self, file: &Path, boot: u32) -> PathBuf {
        if self.is_one() { file.to_owned() } else { format!("{}.{boot}", file.display()).into() }
    }
}

/// The machine that each boot uses.
enum Machine<'a> {
    /// A new guest for each boot.
    New,
    /// The same guest for all boots, with its root disk.
    Installed(Box<InstalledGuest<'a>>),
}

impl<'a> Machine<'a> {
    fn new(
        args: &args::Guest,
        guest: &Guest,
        kernel: &'a Kernel,
        (cache, stop): (&Cache, &AtomicBool),
        shown: &StepSpinner,
    ) -> Result<Self, pagewise_guest::Error> {
        if args.reboots.is_none() {
            return Ok(Self::New);
        }
        let installed = InstalledGuest::new(guest, kernel, cache, stop, &mut |event| {
            if let GuestEvent::Note(line) = event {
                shown.note(line);
            }
            ControlFlow::Continue(())
        })?;
        Ok(Self::Installed(Box::new(installed)))
    }

    fn run(
        &mut self,
        guest: &Guest,
        kernel: &Kernel,
        (cache, stop): (&Cache, &AtomicBool),
        on_event: &mut dyn FnMut(GuestEvent<'_>) -> ControlFlow<()>,
    ) -> Result<Run, pagewise_guest::Error> {
        match self {
            Self::New => qemu::run(guest, kernel, cache, stop, on_event),
            Self::Installed(installed) => installed.boot(None, stop, on_event),
        }
    }
}

fn show_event(
    event: GuestEvent<'_>,
    shown: &StepSpinner,
    brought: &mut OutputFiles,
    passed: &mut Passed,
) -> Printed {
    match event {
        GuestEvent::Output(stream, bytes) => {
            shown.end();
            return passed.pass_on(stream, &bytes);
        }
        GuestEvent::File(path, bytes) => brought.add_piece(path, &bytes),
        GuestEvent::Note(line) => shown.note(line),
        GuestEvent::Reached(phase) => shown.set_step(phase_in_words(phase)),
        GuestEvent::Chosen(_) | GuestEvent::Message(_) => {}
    }
    Printed::Whole
}

/// Passes the output of the command in the guest to standard output and standard error. The guest
/// is not trusted, and its output may reach a terminal even if it goes to a file first, so it is
/// always escaped, except with --raw.
#[derive(Debug, Default)]
struct Passed {
    raw: bool,
    json: bool,
    out: Foreign,
    error: Foreign,
}

impl Passed {
    fn pass_on(&mut self, stream: Stream, bytes: &[u8]) -> Printed {
        if self.raw {
            return self.write(stream, bytes);
        }
        let shown = match stream {
            Stream::Out => self.out.add(bytes),
            Stream::Err => self.error.add(bytes),
        };
        self.write(stream, shown.as_bytes())
    }

    /// Passes on the command's output. With --json, it goes to standard error, because standard
    /// output has only the document. If the reader of standard output is gone, further output is
    /// discarded.
    fn write(&self, stream: Stream, bytes: &[u8]) -> Printed {
        if let (Stream::Out, false) = (stream, self.json) {
            return output::write_out(bytes).unwrap_or(Printed::Cut);
        }
        output::write_error(bytes);
        Printed::Whole
    }

    fn finish(mut self) {
        let (out, error) = (std::mem::take(&mut self.out), std::mem::take(&mut self.error));
        self.write(Stream::Out, out.end().as_bytes());
        self.write(Stream::Err, error.end().as_bytes());
    }
}

fn exit_status(outcome: &qemu::Outcome) -> u8 {
    match outcome {
        qemu::Outcome::Exited { status } => u8::try_from(*status & 0xff).unwrap_or(1),
        qemu::Outcome::Crashed { signal } => {
            u8::try_from(*signal & 0x7f).map_or(exit::FAILED, exit::of_signal)
        }
        qemu::Outcome::OutOfMemory { .. } => exit::OUT_OF_MEMORY,
        qemu::Outcome::TimedOut { .. } => exit::TIMED_OUT,
        qemu::Outcome::Stopped => exit::STOPPED,
        qemu::Outcome::Restarted | qemu::Outcome::PowerLost => 0,
        qemu::Outcome::NotStarted { .. }
        | qemu::Outcome::Panicked { .. }
        | qemu::Outcome::Failed { .. } => exit::GUEST_LOST,
    }
}

/// Reports the outcomes of the guests, on standard error or as the document.
fn report_runs(global: &Global, kernel: &Kernel, runs: &[Run]) -> anyhow::Result<()> {
    if global.json {
        let document = serde_json::json!({
            "schema": "pagewise/guest/1",
            "pagewise": env!("CARGO_PKG_VERSION"),
            "kernel": kernel.name,
            "runs": runs,
        });
        output::print_document(&format!("{document:#}\n"))?;
        return Ok(());
    }
    // the runs of a root disk were reported when each of them ended
    for run in runs.iter().filter(|run| run.disk.is_none()) {
        for line in run_lines(global, kernel, run) {
            print_message(global, &line);
        }
    }
    if let Some(line) = counts_in_words(runs) {
        print_message(global, &line);
    }
    Ok(())
}

/// The lines of the report about one boot of a root disk.
fn boot_lines(global: &Global, kernel: &Kernel, run: &Run, disk: &DiskAfter) -> Vec<String> {
    let mut lines: Vec<String> =
        disk.repairs.iter().map(|line| format!("root disk repaired at start: {line}")).collect();
    lines.extend(run_lines(global, kernel, run));
    if let qemu::Outcome::Exited { status } = run.outcome {
        lines.push(format!("the command exited with status {status}"));
    }
    lines.push(format!("root disk: {}", state_in_words(disk.state)));
    lines.into_iter().map(|line| format!("boot {}: {line}", disk.boot)).collect()
}

fn state_in_words(state: DiskState) -> &'static str {
    match state {
        DiskState::Clean => "unmounted",
        DiskState::InUse => {
            "not unmounted: what was not yet written is lost; the next boot replays the journal"
        }
        DiskState::Damaged => "the kernel found an error in its file system",
        DiskState::Unknown => "no ext4 file system was found on it",
    }
}

fn run_lines(global: &Global, kernel: &Kernel, run: &Run) -> Vec<String> {
    let mut lines: Vec<String> = run.troubles.iter().map(|what| format!("guest: {what}")).collect();
    let ended = outcome_in_words(run);
    if let Some(ended) = &ended {
        let log = if is_expected(&run.outcome) { &[][..] } else { &run.log };
        lines.extend(log.iter().map(|line| format!("kernel: {line}")));
        lines.push(ended.clone());
    }
    if run.left > 0 {
        lines.push(format!("the command left {} processes, which were killed", run.left));
    }
    if global.verbose || ended.is_some() {
        lines.push(summary(kernel, run));
    }
    lines
}

/// Whether a guest's outcome needs no explanation from the kernel's log.
fn is_expected(outcome: &qemu::Outcome) -> bool {
    use qemu::Outcome::{PowerLost, Restarted, Stopped};
    matches!(outcome, PowerLost | Restarted | Stopped)
}

fn summary(kernel: &Kernel, run: &Run) -> String {
    let release = run.release.as_deref().unwrap_or(&kernel.release);
    let boot = match (run.boot_cpu_seconds, run.boot_seconds) {
        (Some(cpu), Some(wall)) => format!("PID 1 after {cpu:.2} CPU-s ({wall:.1} s)"),
        _ => "PID 1 did not come".to_owned(),
    };
    let with = match (run.accelerator, &run.why_emulated) {
        (Accelerator::Kvm, _) => "KVM".to_owned(),
        (Accelerator::Tcg, None) => "emulated".to_owned(),
        (Accelerator::Tcg, Some(why)) => format!("emulated ({why})"),
    };
    let size = Bytes::new(run.initramfs_bytes);
    format!(
        "{} {release}, {with}: {boot}, end after {:.2} CPU-s ({:.1} s), initramfs {size}",
        kernel.name, run.cpu_seconds, run.seconds
    )
}

/// The outcome of a run in a guest as text; `None` if the exit status of the command already shows
/// it.
pub(crate) fn outcome_in_words(run: &Run) -> Option<String> {
    Some(match &run.outcome {
        qemu::Outcome::Exited { .. } => return None,
        qemu::Outcome::Crashed { signal } => format!("the command was ended by signal {signal}"),
        qemu::Outcome::NotStarted { why } => format!("the command was not started: {why}"),
        qemu::Outcome::OutOfMemory { kills: 0 } => "the guest ran out of memory".to_owned(),
        qemu::Outcome::OutOfMemory { kills } => {
            format!("the command was killed for lack of memory (kills in the guest: {kills})")
        }
        qemu::Outcome::Panicked { message: said } => format!("the kernel panicked: {said}"),
        qemu::Outcome::TimedOut { phase } => {
            let (seconds, option) = match run.command_seconds {
                Some(seconds) => (seconds, "--deadline"),
                None => (run.seconds, "--start-deadline"),
            };
            format!("still {} after {seconds:.0} s: ended by {option}", phase_in_words(*phase))
        }
        qemu::Outcome::Failed { message: said } => format!("the machine ended early: {said}"),
        qemu::Outcome::Restarted => "the command restarted the guest or switched it off".to_owned(),
        qemu::Outcome::PowerLost => {
            format!("the power was cut {:.1} s after the start", run.seconds)
        }
        qemu::Outcome::Stopped => {
            format!("stopped by the user after {:.1} s; QEMU is gone", run.seconds)
        }
    })
}

fn phase_in_words(phase: Phase) -> &'static str {
    match phase {
        Phase::Kernel => "starting the kernel",
        Phase::System => "preparing the guest",
        Phase::Job => "running the command",
        Phase::End => "ending",
    }
}

/// The instruction counts of several boots, and their spread.
fn counts_in_words(runs: &[Run]) -> Option<String> {
    let counted: Vec<u64> = runs.iter().filter_map(|run| Some(run.counted?.ticks)).collect();
    let (least, most) = (*counted.iter().min()?, *counted.iter().max()?);
    let each: Vec<String> = counted.iter().map(|ticks| format_millions(*ticks)).collect();
    #[expect(clippy::cast_precision_loss, reason = "a percentage with two digits")]
    let apart = (most - least) as f64 * 100.0 / (least.max(1)) as f64;
    let idle: u64 = runs.iter().filter_map(|run| Some(run.counted?.idle_milliseconds)).sum();
    Some(format!(
        "million instructions while the command ran: {}; {apart:.2} % apart; idle {idle} ms in all, \
         counted as {} million",
        each.join(", "),
        idle
    ))
}

fn format_millions(ticks: u64) -> String {
    format!("{}.{:02}", ticks / 1_000_000, ticks / 10_000 % 100)
}
