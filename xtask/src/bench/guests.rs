// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many guests of every suite, two at a time → how many were good, and what the way to PID 1 takes.
//!
//! CPU time is what a promise is held against: it is QEMU's own, as the runner read it, and bears a
//! busy machine. The kernels are fetched before the first guest, so no boot waits for the network.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::spread::Spread;
use crate::run;

const SUITES: [&str; 3] = ["bookworm", "trixie", "sid"];
/// CPU seconds to PID 1 under emulation.
const PROMISED: f64 = 3.0;
const AT_A_TIME: usize = 2;

/// What the guests of one suite came to.
#[derive(Debug, Default)]
struct Boots {
    release: String,
    good: usize,
    /// What the others came to.
    bad: Vec<String>,
    cpu_seconds: Vec<f64>,
    seconds: Vec<f64>,
    initramfs_bytes: f64,
}

pub(super) fn main(program: &Path, boots: u16) -> Result<()> {
    let before = load()?;
    let lab = || {
        let mut command = run::program(program);
        command.args(["--json", "lab"]);
        command
    };
    let mut rows = Vec::new();
    for suite in SUITES {
        run::output(lab().args(["guest", "--kernel", suite, "--", "true"]))?;
        rows.push((suite, all(boots, || boot(lab(), suite))?));
    }
    println!("{}", described(boots, &before)?);
    println!("{}", markdown(boots, &rows));
    let bad: Vec<&String> = rows.iter().flat_map(|(_, boots)| &boots.bad).collect();
    for told in &bad {
        println!("\n{told}");
    }
    ensure!(bad.is_empty(), "{} of {} guests were not good", bad.len(), usize::from(boots) * 3);
    ensure!(rows.iter().all(|(_, boots)| boots.kept()), "a promise is not kept");
    Ok(())
}

fn all(boots: u16, boot: impl Fn() -> Result<Value> + Sync) -> Result<Boots> {
    let (begun, sum) = (AtomicU16::new(0), Mutex::new(Boots::default()));
    std::thread::scope(|scope| {
        let work = || -> Result<()> {
            while begun.fetch_add(1, Ordering::SeqCst) < boots {
                let run = boot()?;
                if let Ok(mut sum) = sum.lock() {
                    sum.add(&run);
                }
            }
            Ok(())
        };
        let workers: Vec<_> = (0..AT_A_TIME).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|_| bail!("panicked")))
    })?;
    sum.into_inner().context("a guest's thread panicked")
}

/// One guest; anything that the runner says of it is an answer, and no answer is an error.
fn boot(mut lab: Command, suite: &str) -> Result<Value> {
    lab.args(["guest", "--emulate", "--kernel", suite, "--", "true"]);
    let ended = lab.output().context("pagewise lab guest")?;
    let said = String::from_utf8_lossy(&ended.stderr);
    let document: Value =
        serde_json::from_slice(&ended.stdout).with_context(|| said.into_owned())?;
    Ok(document["runs"][0].clone())
}

impl Boots {
    fn add(&mut self, run: &Value) {
        let number = |key: &str| run[key].as_f64();
        let came = number("boot_cpu_seconds").zip(number("boot_seconds"));
        let Some((cpu, seconds)) = came.filter(|_| is_good(run)) else {
            self.bad.push(format!("{run:#}"));
            return;
        };
        self.good += 1;
        self.cpu_seconds.push(cpu);
        self.seconds.push(seconds);
        self.initramfs_bytes = number("initramfs_bytes").unwrap_or(0.0);
        self.release = run["release"].as_str().unwrap_or("?").to_owned();
    }

    fn kept(&self) -> bool {
        Spread::of(&self.cpu_seconds).is_some_and(|spread| spread.median <= PROMISED)
    }
}

fn is_good(run: &Value) -> bool {
    run["outcome"] == "exited"
        && run["status"] == 0
        && run["troubles"].as_array().is_some_and(Vec::is_empty)
}

fn markdown(boots: u16, rows: &[(&str, Boots)]) -> String {
    let head = "| suite | kernel | good | CPU-s to PID 1: median | middle half | all | s to PID 1: \
                median | initramfs |\n| --- | --- | --- | --- | --- | --- | --- | --- |";
    let row = |(suite, found): &(&str, Boots)| {
        let none = "–".to_owned();
        let cpu = Spread::of(&found.cpu_seconds);
        let seconds = Spread::of(&found.seconds);
        let range = |low: f64, high: f64| format!("{low:.2} to {high:.2}");
        let cells = [
            (*suite).to_owned(),
            found.release.clone(),
            format!("{} of {boots}", found.good),
            cpu.map_or(none.clone(), |cpu| format!("{:.2}", cpu.median)),
            cpu.map_or(none.clone(), |cpu| range(cpu.lower_quarter, cpu.upper_quarter)),
            cpu.map_or(none.clone(), |cpu| range(cpu.smallest, cpu.largest)),
            seconds.map_or(none, |seconds| format!("{:.2}", seconds.median)),
            format!("{:.1} MiB", found.initramfs_bytes / f64::from(1 << 20)),
        ];
        format!("| {} |", cells.join(" | "))
    };
    std::iter::once(head.to_owned()).chain(rows.iter().map(row)).collect::<Vec<_>>().join("\n")
}

fn load() -> Result<String> {
    let load = std::fs::read_to_string("/proc/loadavg")?;
    Ok(load.split(' ').next().unwrap_or("?").to_owned())
}

fn described(boots: u16, before: &str) -> Result<String> {
    let cpus = std::thread::available_parallelism()?;
    Ok(format!(
        "`make bench BENCH=\"--guests {boots}\"`: {boots} guests of each suite, {AT_A_TIME} at a \
         time, on {cpus} CPUs, load average {before} before and {} after.\n",
        load()?
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(outcome: &str, cpu: f64) -> Value {
        json!({"outcome": outcome, "status": 0, "troubles": [], "release": "6.1",
               "boot_cpu_seconds": cpu, "boot_seconds": 2.0, "initramfs_bytes": 1 << 20})
    }

    #[test]
    fn what_is_not_good_is_told_and_counts_for_no_number() {
        let mut boots = Boots::default();
        for one in [run("exited", 1.0), run("exited", 2.0), run("timed_out", 90.0)] {
            boots.add(&one);
        }
        boots.add(&json!({"outcome": "exited", "status": 0, "troubles": ["no cgroup"]}));
        assert_eq!((boots.good, boots.bad.len()), (2, 2));
        assert!(boots.kept() && boots.bad[1].contains("no cgroup"));
        let table = markdown(4, &[("sid", boots)]);
        let row = "| sid | 6.1 | 2 of 4 | 1.50 | 1.25 to 1.75 | 1.00 to 2.00 | 2.00 | 1.0 MiB |";
        assert_eq!(table.lines().last(), Some(row));
    }

    #[test]
    fn a_promise_needs_a_guest() {
        assert!(!Boots::default().kept());
    }

    #[test]
    fn every_guest_is_started_once() {
        let boots = all(7, || Ok(run("exited", 1.0))).unwrap();
        assert_eq!((boots.good, boots.bad.len()), (7, 0));
    }
}
