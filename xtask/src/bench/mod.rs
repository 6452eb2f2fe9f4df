// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the static program on a machine with 500 additional processes and 50 memory cgroups.
//! Prints a table with the promises in SPECIFICATION.md, the measured values, and the values of
//! `ps` for a part of the same work.
//!
//! Every program runs once in each round, so that other load affects all programs equally. CPU time
//! is compared, not wall time, because it depends less on other load. The cost of a snapshot is
//! measured inside a process (`examples/snapshot_cost.rs`); that of whole programs by the kernel's
//! accounting.

mod device;
mod guests;
mod kills;
mod load;
pub(crate) mod measure;
mod plans;
mod scan;
mod spread;
mod table;
mod thp;
mod way_back;
mod zram;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::{artefact, run};
use load::Load;
use measure::Used;
use table::Promise::{AtMost, EachAtMost, Nothing};
use table::{Row, Unit};

/// `ps` with the columns of the most common question. It reads the minimum that a snapshot must read
/// for these columns.
const PEER: &[&str] = &["ps", "-eo", "pid,rss,comm"];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The static release program
    #[arg(long)]
    program: PathBuf,
    /// How many rounds
    #[arg(long, default_value_t = 21, value_parser = clap::value_parser!(u16).range(3..))]
    runs: u16,
    /// Processes to add
    #[arg(long, default_value_t = 500)]
    processes: u16,
    /// Memory cgroups to have, the machine's own among them
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..))]
    groups: u16,
    #[command(flatten)]
    instead: Instead,
    /// With --kills: end so many more runs by SIGABRT
    #[arg(long, value_name = "RUNS", default_value_t = 0, requires = "kills")]
    aborts: u16,
}

/// A benchmark other than the table of promises.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct Instead {
    /// Instead hold the speed of scan against its peers
    #[arg(long)]
    scan: bool,
    /// Instead hold the block path of bench against fio, on one zram device
    #[arg(long)]
    zram: bool,
    /// Instead hold what finding and making huge pages costs and gains, on two redis-servers
    #[arg(long)]
    thp: bool,
    /// Instead make, apply and undo a plan of twelve steps; root
    #[arg(long)]
    plans: bool,
    /// Instead kill so many runs of what borrows at random moments, and look for what is left
    #[arg(long, value_name = "RUNS")]
    kills: Option<u16>,
    /// Instead start so many guests of every suite; no root
    #[arg(long, value_name = "BOOTS", value_parser = clap::value_parser!(u16).range(1..))]
    guests: Option<u16>,
}

/// The measurements of each quantity, one value for each round.
#[derive(Debug, Default)]
struct Rounds {
    snapshot: Vec<f64>,
    snapshot_bytes: Vec<f64>,
    outside: Vec<f64>,
    log: Vec<f64>,
    glance: Vec<f64>,
    report: Vec<f64>,
    report_peak: Vec<f64>,
    status: Vec<f64>,
    peer: Vec<f64>,
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let program = std::path::absolute(&args.program)?;
    let Args { runs, aborts, .. } = *args;
    match args.instead {
        Instead { kills: Some(kills), .. } => {
            let runs = kills.saturating_add(aborts);
            kills::main(kills, aborts, &program, &describe_machine(&format!("{runs} runs"))?)
        }
        Instead { guests: Some(boots), .. } => guests::main(
            &program,
            boots,
            &describe_machine(&format!("{boots} guests of each suite"))?,
        ),
        Instead { scan: true, .. } => {
            scan::main(runs, &describe_machine(&format!("{runs} rounds"))?)
        }
        Instead { zram: true, .. } => {
            zram::main(runs, &describe_machine(&format!("{runs} rounds"))?)
        }
        Instead { thp: true, .. } => {
            thp::main(runs, &program, &describe_machine(&format!("{runs} pairs"))?)
        }
        Instead { plans: true, .. } => {
            plans::main(runs, &program, &describe_machine(&format!("{runs} rounds"))?)
        }
        Instead { .. } => measure_promises(args, &program),
    }
}

/// Measures the promises in SPECIFICATION.md that every report must keep.
fn measure_promises(args: &Args, program: &Path) -> Result<()> {
    let size = artefact::size_of_static(program)?;
    let cost = build_example("pagewise-observe", "snapshot_cost")?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let machine = describe_machine(&format!(
        "{} rounds with {} processes added and {} memory cgroups",
        args.runs, args.processes, args.groups
    ))?;
    let load = Load::start(args.processes, args.groups)?;
    let rounds = measure(args, program, &cost, &stop);
    load.end()?;
    table::print(&machine, rows(&rounds?, size))
}

/// Builds an example of a package with the same target and flags as the program, so that
/// dependencies are built once.
fn build_example(package: &str, name: &str) -> Result<PathBuf> {
    let script = run::project().join("xtask/scripts/build-static.sh");
    run::run_to_success(run::program(&script).args(["--package", package, "--example", name]))?;
    let program = run::output(run::program(&script).arg("--where"))?;
    let program = run::project().join(program.trim());
    Ok(program.parent().context("no target folder")?.join("examples").join(name))
}

fn measure(args: &Args, program: &Path, cost: &Path, stop: &AtomicBool) -> Result<Rounds> {
    let mut rounds = Rounds::default();
    for _ in 0..args.runs {
        let taken = rounds.take(args, program, cost);
        if stop.load(Ordering::Relaxed) {
            bail!("stopped; the processes and cgroups are given back");
        }
        taken?;
    }
    Ok(rounds)
}

impl Rounds {
    fn take(&mut self, args: &Args, program: &Path, cost: &Path) -> Result<()> {
        let (seconds, bytes) = snapshot_cost(run::program(cost).arg("all"), args.processes, args)?;
        self.snapshot.push(seconds);
        self.snapshot_bytes.push(bytes);
        self.outside.push(snapshot_cost(run::program(cost).arg("outside"), 0, args)?.0);
        self.log.push(log_cost(run::program(cost).arg("log"))?);
        let program = program.to_str().context("the program's path is not UTF-8")?;
        let glance = [program, "report", "--no-contents", "--interval", "0", "--smaps-budget", "0"];
        self.glance.push(measure::measure(&glance)?.cpu_seconds);
        let Used { cpu_seconds, peak_bytes, .. } = measure::measure(&[program, "report"])?;
        self.report.push(cpu_seconds);
        self.report_peak.push(peak_bytes);
        self.status.push(measure::measure(&[program, "status"])?.cpu_seconds);
        self.peer.push(measure::measure(PEER)?.cpu_seconds);
        Ok(())
    }
}

/// Measures the CPU seconds and bytes read of one snapshot; an error if the snapshot did not
/// contain all processes and cgroups.
fn snapshot_cost(command: &mut Command, processes: u16, args: &Args) -> Result<(f64, f64)> {
    let answer: Value = serde_json::from_str(&run::output(command)?)?;
    let seen = |key: &str| answer[key].as_u64().unwrap_or(0);
    for (key, wanted) in [("processes", processes), ("cgroups", args.groups)] {
        let found = seen(key);
        ensure!(found >= u64::from(wanted), "snapshot: expected {wanted} {key}, found {found}");
    }
    let number = |key| answer[key].as_f64().with_context(|| format!("snapshot: no {key}"));
    Ok((number("cpu_seconds")?, number("bytes_read")?))
}

/// Measures the CPU seconds that reading the kernel log takes; an error if the log could not be
/// read.
fn log_cost(command: &mut Command) -> Result<f64> {
    let answer: Value = serde_json::from_str(&run::output(command)?)?;
    ensure!(answer["records"].as_u64() > Some(0), "the kernel log could not be read");
    answer["cpu_seconds"].as_f64().context("log: no cpu_seconds")
}

fn rows(rounds: &Rounds, size: u64) -> [Option<Row>; 11] {
    let cpu = |name, values: &[f64], promise| Row::new(name, Unit::Milliseconds, values, promise);
    let per_peer = rounds.glance.iter().zip(&rounds.peer).map(|(ours, peer)| ours / peer);
    let per_peer: Vec<f64> = per_peer.collect();
    let bytes = "snapshot without smaps, bytes read";
    let glance = "`report --no-contents --interval 0 --smaps-budget 0`, all its CPU";
    let (peak, largest) = (f64::from(30 << 20), artefact::LARGEST as f64);
    [
        cpu("snapshot without smaps, CPU", &rounds.snapshot, AtMost(0.025)),
        cpu("of it outside /proc/PID, CPU", &rounds.outside, AtMost(0.006)),
        cpu("of it the kernel log, CPU", &rounds.log, AtMost(0.005)),
        Row::new(bytes, Unit::Kibibytes, &rounds.snapshot_bytes, Nothing),
        cpu("`status`, all its CPU", &rounds.status, AtMost(0.015)),
        cpu("`report`, all its CPU", &rounds.report, Nothing),
        cpu(glance, &rounds.glance, Nothing),
        cpu("`ps -eo pid,rss,comm`, all its CPU", &rounds.peer, Nothing),
        Row::new("that report per that ps", Unit::Times, &per_peer, Nothing),
        Row::new("`report`, peak memory", Unit::Mebibytes, &rounds.report_peak, EachAtMost(peak)),
        Row::new("static program, size", Unit::Mebibytes, &[size as f64], AtMost(largest)),
    ]
}

/// Describes what the numbers depend on: machine, load by other programs, command.
fn describe_machine(what: &str) -> Result<String> {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let cpus = std::thread::available_parallelism()?;
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo")?;
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown model", |(_, model)| model);
    let load = std::fs::read_to_string("/proc/loadavg")?;
    let load = load.split(' ').next().unwrap_or("?");
    Ok(format!(
        "`make bench`: {what}, on {cpus} CPUs ({model}), kernel {}, load average {load} before.",
        kernel.trim()
    ))
}
