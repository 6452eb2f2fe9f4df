// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints the CPU seconds that one snapshot of this machine takes, and how many objects it read:
//! everything but smaps; with `outside` also without `/proc/PID` and the kernel log; with `log`
//! only the kernel log and journald's files; with `log FOLDER` those of the host in this folder.
//! `cargo xtask bench` runs it many times.
//!
//! It is the first snapshot of its process, as for a user: the allocator has to get its memory from
//! the kernel first.

use std::time::Duration;

use pagewise_model::Taken;
use pagewise_observe::{HostRoot, ProcessScope, Scope, kernel_log, snapshot};
use rustix::time::{ClockId, clock_gettime};

fn main() -> std::io::Result<()> {
    let everything = Scope::everything(Duration::ZERO);
    let what = std::env::args().nth(1);
    let host = match std::env::args().nth(2) {
        Some(folder) => HostRoot::folder(std::path::Path::new(&folder))?,
        None => HostRoot::live()?,
    };
    if what.as_deref() == Some("log") {
        return log(&host);
    }
    let kernel_log = what.as_deref() != Some("outside");
    let processes = if kernel_log { ProcessScope::Everything } else { ProcessScope::Nothing };
    let scope = Scope { processes, kernel_log, ..everything };
    let before = cpu_clock();
    let taken = snapshot(&host, &scope);
    let cpu_seconds = cpu_clock() - before;
    println!(
        r#"{{"cpu_seconds": {cpu_seconds}, "processes": {}, "cgroups": {}, "bytes_read": {}}}"#,
        taken.processes.list.len(),
        taken.cgroups.groups.len(),
        taken.bytes_read
    );
    Ok(())
}

fn log(host: &HostRoot) -> std::io::Result<()> {
    let before = cpu_clock();
    let log = kernel_log(host, &Taken::default());
    let cpu_seconds = cpu_clock() - before;
    let records = log.records.get().unwrap_or(0);
    println!(
        r#"{{"cpu_seconds": {cpu_seconds}, "records": {records}, "kills": {}, "journal_files": {}, "bytes_read": 0}}"#,
        log.kills.len(),
        log.journal_files.get().unwrap_or(0)
    );
    Ok(())
}

fn cpu_clock() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}
