// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a program once and measures its CPU time, wall time and peak memory, including its helpers.
//!
//! The kernel reports only the sum (for the peak: the maximum) over *all* children of a process. So
//! every measured program gets a parent process of its own: this program again, with `measure`. The
//! measured peak is never below about 3 MiB, because the child has the memory of that parent until
//! it executes the program.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde_json::{Value, json};

use crate::run;

/// Exit status of the program if it has findings, which is no failure.
const FINDINGS: i32 = 3;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write what the program used to this file, and end as the program does: with its output, which may be
    /// nothing, and its exit status
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<String>,
}

/// The resources that one run of a program used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    pub(crate) cpu_seconds: f64,
    pub(crate) wall_seconds: f64,
    pub(crate) peak_bytes: f64,
}

/// Runs a program once, below a parent process of its own, and returns the resources it used.
pub(crate) fn measure(command: &[&str]) -> Result<Used> {
    let mut parent = run::program(std::env::current_exe()?);
    measure_child(parent.arg("measure").arg("--").args(command))
}

/// Runs a command that ends with this program's `measure`, and parses its output.
pub(super) fn measure_child(parent: &mut Command) -> Result<Used> {
    let answer = run::output(parent)?;
    let answer: Value = serde_json::from_str(&answer)?;
    let number = |key: &str| answer[key].as_f64().with_context(|| format!("measure: no {key}"));
    Ok(Used {
        cpu_seconds: number("cpu_seconds")?,
        wall_seconds: number("wall_seconds")?,
        peak_bytes: number("peak_bytes")?,
    })
}

/// Runs as the parent process of the measured program: starts it, and prints the resources that it
/// used.
pub(crate) fn main(args: &Args) -> Result<()> {
    let (program, rest) = args.command.split_first().context("no program")?;
    let mut command = run::program(program);
    let command = command.args(rest).stdin(Stdio::null()).stderr(Stdio::inherit());
    if let Some(file) = &args.to {
        let status = command.status().with_context(|| program.clone())?;
        let (cpu_seconds, peak_bytes) = used_by_children()?;
        let used = json!({ "cpu_seconds": cpu_seconds, "peak_bytes": peak_bytes });
        std::fs::write(file, used.to_string()).with_context(|| file.display().to_string())?;
        let code = status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(1);
        std::process::exit(code);
    }
    let begun = Instant::now();
    let output = command.output().with_context(|| program.clone())?;
    let wall_seconds = begun.elapsed().as_secs_f64();
    let (status, shown) = (output.status, args.command.join(" "));
    ensure!(status.success() || status.code() == Some(FINDINGS), "{shown}: {status}");
    // A program that does nothing would keep every promise, so it must print something.
    ensure!(!output.stdout.is_empty(), "{shown}: printed nothing");
    let (cpu_seconds, peak_bytes) = used_by_children()?;
    let used = json!({
        "cpu_seconds": cpu_seconds, "wall_seconds": wall_seconds, "peak_bytes": peak_bytes,
    });
    println!("{used}");
    Ok(())
}

/// CPU time in seconds of all ended children together, and the peak memory in bytes of the largest.
fn used_by_children() -> Result<(f64, i64)> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok((micros as f64 / 1e6, usage.max_rss() * 1024))
}
