// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `pagewise pin`: keeps the code of running programs in memory (mlock) until they end.

use std::time::{Duration, Instant};

use pagewise_mappings::pin::CodePin;
use pagewise_model::{Bytes, Interval, PinnedCode, Refusal, Snapshot};
use pagewise_observe::Scope;
use pagewise_report::{json, text};
use pagewise_terminal::cost::{self, CostMeter};
use pagewise_terminal::interrupt::Stop;
use pagewise_terminal::{Global, Outcome, exit, output, screen};

use super::thp::targets;
use crate::{cli, input};

/// At most RAM divided by this number is pinned, because the kernel needs memory that it can
/// reclaim.
const MOST_OF_RAM: u64 = 4;

pub(super) fn run(global: &Global, args: &cli::Pin, started: CostMeter) -> anyhow::Result<Outcome> {
    super::thp::refuse_recording(global, "pin")?;
    if !rustix::process::geteuid().is_root() {
        let what =
            "pin: expected root, because only root may open what other processes have mapped";
        anyhow::bail!(Refusal::with_advice(what, "sudo pagewise pin …"));
    }
    let host = input::open(global)?.without_start();
    let scope = Scope { settings: false, kernel_log: false, ..Scope::everything(Duration::ZERO) };
    let interval: Interval = host.interval(&scope, || anyhow::Ok(()))?;
    let snapshot = &interval.end;
    check_budget(args.budget, snapshot)?;
    let found = targets::resolve(&args.whose, snapshot)?;
    let found = found.ok_or_else(|| {
        Refusal::with_advice(
            "pin: no process is named",
            "name one with --pid, --unit, --name or --cgroup",
        )
    })?;
    let stop = Stop::listen()?;
    let pids: Vec<u32> = found.processes.iter().map(|(pid, _)| *pid).collect();
    let pin = CodePin::new(&pids, args.budget).map_err(|error| {
        Refusal::new("pin: the processes cannot be followed", error.to_string())
    })?;
    let mut pin = pin.with_served_files(args.served);
    let first = pin.refresh()?;
    let shown = if global.json {
        json::pin(&first, snapshot, cost::measure_since(started, &interval))
    } else {
        text::pin(&first, screen::text_style(global))
    };
    output::print_answer(global, &shown)?;
    let last = keep_pinned(&mut pin, first, args, &stop)?;
    print_end(global, &last, &stop);
    Ok(if stop.is_asked() { Outcome::Status(exit::STOPPED) } else { Outcome::Done })
}

/// Keeps the code pinned until all processes have ended, the time is over, or Ctrl-C.
fn keep_pinned(
    pin: &mut CodePin,
    mut held: PinnedCode,
    args: &cli::Pin,
    stop: &Stop,
) -> anyhow::Result<PinnedCode> {
    let end = args.time.map(|time| Instant::now() + time);
    while !held.processes.is_empty() && !stop.is_asked() {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            break;
        }
        pin.wait(left.map_or(args.every, |left| left.min(args.every)));
        let now = pin.refresh()?;
        if now.processes.is_empty() {
            return Ok(PinnedCode { processes: Vec::new(), ..held });
        }
        held = now;
    }
    Ok(held)
}

fn print_end(global: &Global, last: &PinnedCode, stop: &Stop) {
    if global.quiet {
        return;
    }
    let why = match (last.processes.is_empty(), stop.is_asked()) {
        (true, _) => "the programs ended",
        (false, true) => "stopped",
        (false, false) => "the time is over",
    };
    output::print_message(format!("{why}: {} of code are no longer locked", last.locked));
}

fn check_budget(budget: Bytes, snapshot: &Snapshot) -> Result<(), Refusal> {
    let Some(ram) = snapshot.memory.total.get() else { return Ok(()) };
    let most = Bytes::new(ram.get() / MOST_OF_RAM);
    if budget <= most {
        return Ok(());
    }
    let what = format!("--budget {budget}: expected at most {most}, a quarter of RAM");
    Err(Refusal::with_advice(what, "give a smaller size: the kernel can reclaim nothing of it"))
}
