// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints the CPU seconds that one snapshot of this machine takes: with everything but smaps, and
//! without `/proc/PID`. `cargo xtask bench` runs it many times.
//!
//! Each is the first of its kind in the process, as for a user: memory is still to be had from the
//! kernel. Which comes first alternates with the process id.

use std::time::Duration;

use pagewise_observe::{HostRoot, Scope, snapshot};
use rustix::time::{ClockId, clock_gettime};

fn main() -> std::io::Result<()> {
    let host = HostRoot::live()?;
    let everything = Scope::everything(Duration::ZERO);
    let outside = Scope { processes: false, ..everything };
    let (everything, outside) = if std::process::id() % 2 == 0 {
        let first = cpu_seconds(&host, &everything);
        (first, cpu_seconds(&host, &outside))
    } else {
        let first = cpu_seconds(&host, &outside);
        (cpu_seconds(&host, &everything), first)
    };
    println!(
        r#"{{"everything_cpu_seconds": {everything}, "outside_processes_cpu_seconds": {outside}}}"#
    );
    Ok(())
}

fn cpu_seconds(host: &HostRoot, scope: &Scope) -> f64 {
    let before = cpu_clock();
    let taken = snapshot(host, scope);
    let after = cpu_clock();
    drop(taken);
    after - before
}

fn cpu_clock() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}
