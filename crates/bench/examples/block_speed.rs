// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `block_speed DEVICE PAGES BLOCK JOBS read|write SECONDS`: one cell of the block path, as JSON.
//!
//! DEVICE must belong to the caller and hold the pages of the file PAGES, repeated; writes write
//! the same contents again. `cargo xtask bench --zram` runs it together with fio.
//! `ticked_kernel_share` is the kernel's own accounting for the process, sampled at timer ticks,
//! like fio's.

#![allow(clippy::disallowed_methods, reason = "a file of pages, and the device it is given")]

use std::error::Error;
use std::fs::{File, read_to_string};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use pagewise_bench::block::{Contestant, Device, Pages, Plan, Watch, measure};
use pagewise_model::{Bytes, Direction, Shape};
use serde_json::json;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [device, pages, block, jobs, direction, seconds] = arguments.as_slice() else {
        return Err("usage: block_speed DEVICE PAGES BLOCK JOBS read|write SECONDS".into());
    };
    let file = File::open(pages)?;
    let most = usize::try_from(file.metadata()?.len())? / rustix::param::page_size();
    let pages = Pages::read(&mut &file, most)?;
    let direction = match direction.as_str() {
        "read" => Direction::Read,
        "write" => Direction::Write,
        other => return Err(format!("expected read or write, found {other}").into()),
    };
    let shape = Shape { block_bytes: Bytes::new(block.parse()?), jobs: jobs.parse()?, direction };
    let budget = Duration::from_secs_f64(seconds.parse()?);
    println!("{}", measure_shape(device, &pages, shape, budget)?);
    Ok(())
}

fn measure_shape(
    device: &str,
    pages: &Pages,
    shape: Shape,
    budget: Duration,
) -> Result<serde_json::Value, Box<dyn Error>> {
    let device = Device::open(device.as_ref())?;
    let (span, label) = (Bytes::new(device.size()?), "device".to_owned());
    let (store, shapes) = (Box::new(device), vec![shape]);
    let contestant = Contestant { label, store, pages: Some(pages), span, shapes };
    let stop = AtomicBool::new(false);
    let mut watch = Watch { stop: &stop, progress: &mut |_| {} };
    let plan = Plan { rounds: 1, fewest: 1, budget, seed: u64::from(std::process::id()) };
    let before = read_cpu_ticks()?;
    let cells = measure(&[contestant], &plan, 0, &mut watch).cells;
    let after = read_cpu_ticks()?;
    let round = match (&cells[0].rounds[..], &cells[0].ended) {
        ([round], None) => round,
        (_, ended) => return Err(ended.clone().unwrap_or_default().into()),
    };
    let (user, kernel) = (after.0 - before.0, after.1 - before.1);
    Ok(json!({
        "requests": round.requests, "iops": round.iops, "mean_ns": round.mean_ns,
        "p50_ns": round.p50_ns, "p99_ns": round.p99_ns, "cpu_ns_per_io": round.cpu_ns_per_io,
        "kernel_ns_per_io": round.kernel_ns_per_io, "ticked_kernel_share": kernel / (user + kernel),
    }))
}

/// User and system time of this process, in clock ticks.
fn read_cpu_ticks() -> Result<(f64, f64), Box<dyn Error>> {
    let stat = read_to_string("/proc/self/stat")?;
    let (_, rest) = stat.rsplit_once(')').ok_or("no name in /proc/self/stat")?;
    let mut words = rest.split_whitespace().skip(11).map(str::parse);
    let mut next = || words.next().ok_or("/proc/self/stat is too short");
    Ok((next()??, next()??))
}
