// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the speed of scan. Each part is compared with a reference in the same round:
//! compression with lz4 with zram storing the same pages, compression with zstd with the bare
//! library, and the search for duplicates with only reading the pages.

use anyhow::{Context, Result};
use serde_json::Value;

use super::device::Device;
use super::table::Promise::{AtMost, Nothing};
use super::table::{self, Row, Unit};
use crate::run;

pub(super) fn main(runs: u16, machine: &str) -> Result<()> {
    let speed = super::build_example("pagewise", "scan_speed")?;
    let device = Device::create("64M")?;
    let rounds: Vec<Value> = (0..runs)
        .map(|_| {
            let said = run::output(run::program(&speed).arg(device.id.to_string()))?;
            Ok(serde_json::from_str(&said)?)
        })
        .collect::<Result<_>>()?;
    drop(device);
    table::print(machine, rows(&rounds)?)
}

fn rows(rounds: &[Value]) -> Result<[Option<Row>; 8]> {
    let all = |key: &str| -> Result<Vec<f64>> {
        let value =
            |round: &Value| round[key].as_f64().with_context(|| format!("no {key}: {round}"));
        rounds.iter().map(value).collect()
    };
    let ratio = |what, ours, peer, most| {
        let (ours, peers) = (all(ours)?, all(peer)?);
        let ratios: Vec<f64> = ours.iter().zip(&peers).map(|(ours, peer)| ours / peer).collect();
        Ok::<_, anyhow::Error>(Row::new(what, Unit::Times, &ratios, AtMost(most)))
    };
    let time = |what, key, promise| {
        Ok::<_, anyhow::Error>(Row::new(what, Unit::Milliseconds, &all(key)?, promise))
    };
    Ok([
        ratio("lz4 sized per zram lz4 written, CPU", "lz4_sized", "zram_written", 1.0)?,
        ratio("zstd sized per zstd bare, CPU", "zstd_sized", "zstd_bare", 1.0 / 0.95)?,
        ratio("duplicates found per pages read, CPU", "duplicates_found", "pages_read", 2.0)?,
        ratio("two threads per one, time", "two_threads", "one_thread", 1.0 / 1.8)?,
        time("5,000-page estimate with lz4 and zstd, CPU", "estimate", AtMost(0.150))?,
        time("32 MiB sized with lz4, CPU", "lz4_sized", Nothing)?,
        time("32 MiB written to zram with lz4, CPU", "zram_written", Nothing)?,
        time("32 MiB sized with zstd, CPU", "zstd_sized", Nothing)?,
    ])
}
