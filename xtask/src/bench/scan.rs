// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What scan's speed is held against, each beside its peer in the same round: sizing with lz4 beside
//! zram storing the same pages, zstd beside the bare library, finding duplicates beside only reading.
//!
//! The zram device is ours. The way back is told to a shell of its own session before the device is
//! taken; it goes when the shell's input ends, however we end.

use std::io::Write;
use std::process::{Child, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::spread::Spread;
use super::table::{self, Row, Unit};
use crate::run;

const CONTROL: &str = "/sys/class/zram-control/hot_add";

pub(super) fn main(runs: u16, machine: &str) -> Result<()> {
    let example = ["--package", "pagewise", "--example", "scan_speed"];
    let script = run::project().join("xtask/scripts/build-static.sh");
    run::succeed(run::program(&script).args(example))?;
    let program = run::output(run::program(&script).arg("--where"))?;
    let folder = run::project().join(program.trim());
    let speed = folder.parent().context("no target folder")?.join("examples/scan_speed");
    let device = Device::take()?;
    let rounds: Vec<Value> = (0..runs)
        .map(|_| {
            let said = run::output(run::program(&speed).arg(device.id.to_string()))?;
            Ok(serde_json::from_str(&said)?)
        })
        .collect::<Result<_>>()?;
    drop(device);
    let rows = rows(&rounds).context("a round said too little")?;
    println!("{machine}\n\n{}", table::markdown(&rows));
    ensure!(rows.iter().all(Row::kept), "a promise is not kept");
    Ok(())
}

fn rows(rounds: &[Value]) -> Option<Vec<Row>> {
    let all =
        |key: &str| rounds.iter().map(|round| round[key].as_f64()).collect::<Option<Vec<f64>>>();
    let per = |ours: &str, peer: &str| {
        let (ours, peers) = (all(ours)?, all(peer)?);
        Some(ours.iter().zip(&peers).map(|(ours, peer)| ours / peer).collect::<Vec<f64>>())
    };
    let ratio = |what, ours, peer, at_most| {
        Row::median(what, Unit::Times, Spread::of(&per(ours, peer)?), Some(at_most))
    };
    let time =
        |what, key, at_most| Row::median(what, Unit::Milliseconds, Spread::of(&all(key)?), at_most);
    Some(vec![
        ratio("lz4 sized per zram lz4 written, CPU", "lz4_sized", "zram_written", 1.0)?,
        ratio("zstd sized per zstd bare, CPU", "zstd_sized", "zstd_bare", 1.0 / 0.95)?,
        ratio("duplicates found per pages read, CPU", "duplicates_found", "pages_read", 2.0)?,
        ratio("two threads per one, time", "two_threads", "one_thread", 1.0 / 1.8)?,
        time("5,000-page estimate with lz4 and zstd, CPU", "estimate", Some(0.150))?,
        time("32 MiB sized with lz4, CPU", "lz4_sized", None)?,
        time("32 MiB written to zram with lz4, CPU", "zram_written", None)?,
        time("32 MiB sized with zstd, CPU", "zstd_sized", None)?,
    ])
}

/// A zram device with lz4, until this is dropped.
struct Device {
    id: u32,
    watcher: Child,
}

impl Device {
    fn take() -> Result<Self> {
        let watcher = run::program("setsid")
            .args(["sh", "-c", "tac | sh"])
            .stdin(Stdio::piped())
            .spawn()
            .context("setsid")?;
        let id = std::fs::read_to_string(CONTROL).context("a zram device of our own (root?)")?;
        let id: u32 = id.trim().parse()?;
        let mut told = watcher.stdin.as_ref().context("no way to tell the way back")?;
        writeln!(told, "echo {id} > /sys/class/zram-control/hot_remove")?;
        writeln!(told, "echo 1 > /sys/block/zram{id}/reset")?;
        let device = Self { id, watcher };
        for (file, value) in [("comp_algorithm", "lz4"), ("disksize", "64M")] {
            std::fs::write(format!("/sys/block/zram{id}/{file}"), value).context(file)?;
        }
        Ok(device)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.watcher.stdin = None;
        if let Err(error) = self.watcher.wait() {
            eprintln!("bench: giving zram{} back: {error}", self.id);
        }
    }
}
