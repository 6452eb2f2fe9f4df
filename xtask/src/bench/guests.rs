// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starts many guests of every suite, two at a time, and reports how many succeeded, and the CPU
//! time until PID 1 runs.
//!
//! The promise is about the CPU time of QEMU, as the runner measured it, because that depends
//! little on other load. The kernels are fetched before the first guest, so no boot waits for the
//! network.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::table::{self, Promise, Row, Unit};
use crate::run;

const SUITES: [&str; 3] = ["bookworm", "trixie", "sid"];
/// Promised maximum of CPU seconds until PID 1 runs, with emulation.
const PROMISED: f64 = 3.0;
const AT_A_TIME: usize = 2;

/// The results of booting the guests of one suite.
#[derive(Debug, Default)]
struct Boots {
    release: String,
    /// The outcome of each guest that did not succeed.
    bad: Vec<String>,
    cpu_seconds: Vec<f64>,
    seconds: Vec<f64>,
    initramfs_bytes: Vec<f64>,
}

pub(super) fn main(program: &Path, boots: u16, machine: &str) -> Result<()> {
    let lab = || {
        let mut command = run::program(program);
        command.args(["--json", "lab"]);
        command
    };
    let (mut rows, mut bad) = (Vec::new(), Vec::new());
    for suite in SUITES {
        run::output(lab().args(["guest", "--kernel", suite, "--", "true"]))?;
        let found = boot_all(boots, || boot(lab(), suite))?;
        rows.extend(found.rows(suite));
        bad.extend(found.bad);
    }
    bad.iter().for_each(|run| println!("{run}\n"));
    let of = usize::from(boots) * SUITES.len();
    let head = format!("{machine}\n{} of {of} guests were good.", of - bad.len());
    table::print(&head, rows)?;
    ensure!(bad.is_empty(), "{} of {of} guests were not good", bad.len());
    Ok(())
}

fn boot_all(boots: u16, boot: impl Fn() -> Result<Value> + Sync) -> Result<Boots> {
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

/// Starts one guest. Any outcome that the runner reports is a result; only a missing report is an
/// error.
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
        self.cpu_seconds.push(cpu);
        self.seconds.push(seconds);
        self.initramfs_bytes.extend(number("initramfs_bytes"));
        self.release = run["release"].as_str().unwrap_or("?").to_owned();
    }

    fn rows(&self, suite: &str) -> [Option<Row>; 3] {
        let name = |what: &str| format!("{suite}, {}: {what}", self.release);
        let promise = Promise::AtMost(PROMISED);
        [
            Row::new(name("CPU to PID 1"), Unit::Seconds, &self.cpu_seconds, promise),
            Row::new(name("time to PID 1"), Unit::Seconds, &self.seconds, Promise::Nothing),
            Row::new(name("initramfs"), Unit::Mebibytes, &self.initramfs_bytes, Promise::Nothing),
        ]
    }
}

fn is_good(run: &Value) -> bool {
    run["outcome"] == "exited"
        && run["status"] == 0
        && run["troubles"].as_array().is_some_and(Vec::is_empty)
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
        assert_eq!((boots.seconds.len(), boots.bad.len()), (2, 2));
        assert!(boots.bad[1].contains("no cgroup"));
        let [cpu, ..] = boots.rows("sid");
        let row = cpu.unwrap().cells().join(" | ");
        let expected = "1.50 s | 1.25 s to 1.75 s | 1.00 s to 2.00 s | at most 3.00 s | yes";
        assert_eq!(row, format!("sid, 6.1: CPU to PID 1 | {expected}"));
    }

    #[test]
    fn a_promise_needs_a_guest() {
        assert!(table::print("", Boots::default().rows("sid")).is_err());
    }

    #[test]
    fn every_guest_is_started_once() {
        let boots = boot_all(7, || Ok(run("exited", 1.0))).unwrap();
        assert_eq!((boots.seconds.len(), boots.bad.len()), (7, 0));
    }
}
