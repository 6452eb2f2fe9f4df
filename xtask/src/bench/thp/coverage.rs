// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the cost of reading the huge page coverage of a process: of one with half a GiB of
//! small pages, and of one with ten thousand mappings.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::bench::table::{Promise, Row, Unit};
use crate::run;

/// A program that holds memory as requested; the program ends when this is dropped.
struct Held(Child);

impl Held {
    fn start(program: &Path, arguments: &str) -> Result<Self> {
        let mut command = run::program(program);
        command.args(arguments.split(' ')).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut held = Self(command.spawn()?);
        let said = held.0.stdout.as_mut().context("its output")?;
        let mut line = String::new();
        BufReader::new(said.take(64)).read_line(&mut line)?;
        ensure!(line.trim() == "ready", "{}: {line:?}", program.display());
        Ok(held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the program `cost`, which reads the coverage in `rounds` rounds. The promise is for reading
/// block by block; reading every page is measured for comparison.
pub(super) fn rows(cost: &Path, held: &Path, rounds: u16) -> Result<[Option<Row>; 4]> {
    let small = run_rounds(cost, &Held::start(held, "map 512 1 1")?, rounds, "median_ms_per_gib")?;
    let many = run_rounds(cost, &Held::start(held, "cut 10000")?, rounds, "median_ms")?;
    let rows = [
        ("coverage of 1 GiB in small pages, CPU", small.share, Promise::AtMost(0.002)),
        ("coverage of 10,000 mappings, CPU", many.share, Promise::AtMost(0.005)),
        ("each page of 1 GiB in small pages, CPU", small.process, Promise::Nothing),
        ("each page of 10,000 mappings, CPU", many.process, Promise::Nothing),
    ];
    Ok(rows.map(|(what, seconds, promise)| Row::new(what, Unit::Milliseconds, &seconds, promise)))
}

/// Seconds that reading the coverage took in each round.
#[derive(Default)]
struct Looked {
    share: Vec<f64>,
    process: Vec<f64>,
}

/// In each round, a new process reads the coverage five times in each of the two ways, and prints
/// the medians.
fn run_rounds(cost: &Path, held: &Held, rounds: u16, key: &str) -> Result<Looked> {
    let pid = held.0.id().to_string();
    let mut looked = Looked::default();
    for _ in 0..rounds {
        let said = run::output(run::program(cost).args([&pid, "5"]))?;
        let said: Value = serde_json::from_str(&said)?;
        let seconds = |way: &str| {
            let milliseconds = said[way][key].as_f64();
            Ok::<_, anyhow::Error>(milliseconds.with_context(|| format!("no {key}: {said}"))? / 1e3)
        };
        looked.share.push(seconds("share")?);
        looked.process.push(seconds("process")?);
    }
    Ok(looked)
}
