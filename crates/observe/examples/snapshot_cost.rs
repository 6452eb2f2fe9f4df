// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints the CPU seconds that one snapshot of this machine takes, and how much it saw: everything
//! but smaps, or with `outside` also without `/proc/PID`. `cargo xtask bench` runs it many times.
//!
//! It is the first snapshot of its process, as for a user: memory is still to be had from the
//! kernel.

use std::time::Duration;

use pagewise_observe::{HostRoot, ProcessScope, Scope, snapshot};
use rustix::time::{ClockId, clock_gettime};

fn main() -> std::io::Result<()> {
    let everything = Scope::everything(Duration::ZERO);
    let processes = match std::env::args().nth(1).as_deref() {
        Some("outside") => ProcessScope::Nothing,
        _ => ProcessScope::Everything,
    };
    let host = HostRoot::live()?;
    let before = cpu_clock();
    let taken = snapshot(&host, &Scope { processes, ..everything });
    let cpu_seconds = cpu_clock() - before;
    println!(
        r#"{{"cpu_seconds": {cpu_seconds}, "processes": {}, "cgroups": {}, "bytes_read": {}}}"#,
        taken.processes.list.len(),
        taken.cgroups.groups.len(),
        taken.bytes_read
    );
    Ok(())
}

fn cpu_clock() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}
