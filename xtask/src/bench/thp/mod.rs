// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures collapsing memory of other processes into huge pages: the cost of reading the coverage,
//! and for a real redis-server, how much CPU time huge pages save, how many remain during a BGSAVE,
//! and how many a second collapse restores.
//!
//! Two equal servers run at the same time, and only the second one is collapsed. Both are measured
//! alternately, so that the two numbers of a pair are from the same state of the machine. The CPU
//! times of the server processes are compared.

mod coverage;
mod redis;

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::spread::Spread;
use super::table::{self, Promise, Row, Unit};
use crate::run;
use redis::{Asked, Redis};

const KEYS: u64 = 2_000_000;
/// The number of keys that are changed during a BGSAVE.
const CHANGED: u32 = 60_000;
/// Promised minimum of the saving of a GET divided by the saving that the canary measures in the
/// same minute.
const LEAST_SHARE: f64 = 0.5;
const LEAST_SHARE_SINGLY: f64 = 0.1;
/// The minimum number of pairs of measurements.
const LEAST: u16 = 7;

pub(super) fn main(runs: u16, program: &Path, machine: &str) -> Result<()> {
    ensure!(runs >= LEAST, "--runs: expected {LEAST} pairs at least, found {runs}");
    let cost = super::build_example("pagewise-procmem", "coverage_cost")?;
    let held = super::build_example("pagewise-apply", "held")?;
    let mut rows: Vec<_> = coverage::rows(&cost, &held, runs)?.into();
    rows.extend(Pair::start(program)?.rows(runs)?);
    table::print(machine, rows)
}

/// Two servers with the same contents; the second one is collapsed.
struct Pair<'a> {
    program: &'a Path,
    small: Redis,
    huge: Redis,
}

/// The measurements of all cycles of saving and collapsing again.
#[derive(Default)]
struct Cycles {
    left_by_save: Vec<f64>,
    after_save: Vec<f64>,
    small_again: Vec<f64>,
    cost: Vec<f64>,
    budget: Vec<f64>,
    again: Vec<f64>,
}

impl<'a> Pair<'a> {
    fn start(program: &'a Path) -> Result<Self> {
        let small = Redis::start("small", KEYS)?;
        Ok(Self { program, small, huge: Redis::start("huge", KEYS)? })
    }

    fn rows(&self, runs: u16) -> Result<[Option<Row>; 16]> {
        let equal = self.measure_pairs(runs, Asked::Batches)?;
        let equal_singly = self.measure_pairs(runs, Asked::OneByOne)?;
        let before = self.huge.size("Pss")?;
        let first = cost_per_gib(&self.collapse()?)?;
        let growth = self.huge.size("Pss")? / before;
        let small = 1.0 - self.huge.coverage()?;
        let (mut collapsed, mut singly, mut canaries) = (Vec::new(), Vec::new(), Vec::new());
        for run in 0..runs {
            canaries.push(self.canary()?);
            collapsed.push(self.ratio_of_servers(run, Asked::Batches)?);
            singly.push(self.ratio_of_servers(run, Asked::OneByOne)?);
        }
        let gain = shares(&collapsed, &equal, &canaries)?;
        let gain_singly = shares(&singly, &equal_singly, &canaries)?;
        let mut cycles = Cycles::default();
        for run in 0..runs {
            self.cycle(run, &mut cycles)?;
        }
        use Promise::{AtLeast, AtMost, EachAtMost, Nothing};
        let times = |what, values: &[f64], promise| Row::new(what, Unit::Times, values, promise);
        let part = |what, values: &[f64], promise| Row::new(what, Unit::Percent, values, promise);
        let seconds =
            |what, values: &[f64], most| Row::new(what, Unit::Seconds, values, AtMost(most));
        Ok([
            times("redis GET per that of an equal server, CPU, 1,000 at a time", &equal, Nothing),
            times("the same, one at a time", &equal_singly, Nothing),
            times("redis GET collapsed per small, CPU, 1,000 at a time", &collapsed, Nothing),
            times("the same, one at a time", &singly, Nothing),
            times("a random access in huge pages per small (thp --canary)", &canaries, Nothing),
            part("saved of what the canary saves, 1,000 at a time", &gain, AtLeast(LEAST_SHARE)),
            part("the same, one at a time", &gain_singly, AtLeast(LEAST_SHARE_SINGLY)),
            seconds("collapsed for the first time, CPU for 1 GiB", &[first], 2.0),
            times("its memory collapsed per small", &[growth], AtMost(1.03)),
            part("its memory still in small pages", &[small], AtMost(0.05)),
            part("after BGSAVE with writes: in huge pages", &cycles.left_by_save, Nothing),
            times("GET then per small, CPU, 1,000 at a time", &cycles.after_save, Nothing),
            times(
                "memory at most per its limit, also while it saves",
                &cycles.budget,
                EachAtMost(1.0),
            ),
            seconds("collapsed again, CPU for 1 GiB", &cycles.cost, 0.7),
            part("its memory still in small pages then", &cycles.small_again, AtMost(0.05)),
            times("GET collapsed again per small, CPU, 1,000 at a time", &cycles.again, Nothing),
        ])
    }

    /// The CPU time of a GET of the second server divided by that of the first; which one is
    /// measured first alternates.
    fn ratio_of_servers(&self, run: u16, how: Asked) -> Result<f64> {
        if run % 2 == 0 {
            let small = self.small.measure_gets(how)?;
            return Ok(self.huge.measure_gets(how)? / small);
        }
        let huge = self.huge.measure_gets(how)?;
        Ok(huge / self.small.measure_gets(how)?)
    }

    fn measure_pairs(&self, runs: u16, how: Asked) -> Result<Vec<f64>> {
        (0..runs).map(|run| self.ratio_of_servers(run, how)).collect()
    }

    /// The time of a random access in huge pages divided by that in small pages, on this machine at
    /// this moment.
    fn canary(&self) -> Result<f64> {
        let mut canary = run::program(self.program);
        let said = run::output(canary.args(["--json", "thp", "--canary"]))?;
        let document: Value = serde_json::from_str(&said)?;
        number(&document, "/huge_per_small")
    }

    /// Runs one cycle: saves while keys change and a collapse is attempted, then collapses again.
    fn cycle(&self, run: u16, cycles: &mut Cycles) -> Result<()> {
        self.huge.start_saving()?;
        self.huge.change_keys(CHANGED)?;
        let meanwhile = self.collapse()?;
        self.huge.wait_until_saved()?;
        cycles.left_by_save.push(self.huge.coverage()?);
        cycles.after_save.push(self.ratio_of_servers(run, Asked::Batches)?);
        let again = self.collapse()?;
        cycles.cost.push(cost_per_gib(&again)?);
        for done in [meanwhile, again] {
            cycles.budget.push(number(&done, "/memory_peak")? / number(&done, "/memory_limit")?);
        }
        cycles.small_again.push(1.0 - self.huge.coverage()?);
        cycles.again.push(self.ratio_of_servers(run, Asked::Batches)?);
        Ok(())
    }

    fn collapse(&self) -> Result<Value> {
        let pid = self.huge.pid().to_string();
        let mut collapse = run::program(self.program);
        let said = run::output(collapse.args(["--json", "thp", "collapse", "--pid", &pid]))?;
        Ok(serde_json::from_str(&said)?)
    }
}

/// The relative saving of a GET after the collapse, divided by the canary's saving of a random
/// access in the same minutes. The difference that the two servers had before the collapse is
/// divided out.
fn shares(collapsed: &[f64], equal: &[f64], canaries: &[f64]) -> Result<Vec<f64>> {
    let median = |values: &[f64]| Spread::of(values).map(|spread| spread.median);
    let (equal, canary) = median(equal).zip(median(canaries)).context("no pair was measured")?;
    ensure!(canary < 1.0, "huge pages save nothing here: the canary takes {canary:.2} as long");
    Ok(collapsed.iter().map(|ratio| (1.0 - ratio / equal) / (1.0 - canary)).collect())
}

/// CPU time of a collapse for each GiB of collapsed memory.
fn cost_per_gib(collapse: &Value) -> Result<f64> {
    let gib = number(collapse, "/collapsed")? * 2.0 / 1024.0;
    ensure!(gib > 0.0, "nothing was collapsed: {collapse}");
    Ok(number(collapse, "/cpu_seconds")? / gib)
}

fn number(document: &Value, path: &str) -> Result<f64> {
    let number = document.pointer(path).and_then(Value::as_f64);
    number.with_context(|| format!("collapse: no {path}"))
}
