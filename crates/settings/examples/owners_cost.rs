// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints the CPU time that it takes to read all configuration files of a host and to determine who
//! owns each setting: for the first time in a new process, and the mean of many times. If a folder
//! is given, it is used as the host's root.
//!
//! Running values of settings are not read here: they are part of each snapshot.

use pagewise_hostfs::HostRoot;
use pagewise_model::{Snapshot, ownership};
use rustix::time::{ClockId, clock_gettime};

const REPEATS: u32 = 50;

fn main() -> std::io::Result<()> {
    let host = match std::env::args().nth(1) {
        Some(folder) => HostRoot::folder(std::path::Path::new(&folder))?,
        None => HostRoot::live()?,
    };
    let (first, owners) = cost(&host);
    let all: Vec<f64> = (0..REPEATS).map(|_| cost(&host).0).collect();
    let mean = all.iter().sum::<f64>() / f64::from(REPEATS);
    let most = all.iter().copied().fold(0.0, f64::max);
    println!(
        r#"{{"owners": {owners}, "first_cpu_seconds": {first:.6}, "mean_cpu_seconds": {mean:.6}, "most_cpu_seconds": {most:.6}}}"#
    );
    Ok(())
}

/// The CPU seconds of one run, and how many settings have an owner.
fn cost(host: &HostRoot) -> (f64, usize) {
    let before = cpu_clock();
    let configuration = pagewise_settings::read(host);
    let snapshot = Snapshot { configuration, ..Snapshot::default() };
    let owners = ownership(&snapshot).len();
    (cpu_clock() - before, owners)
}

fn cpu_clock() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}
