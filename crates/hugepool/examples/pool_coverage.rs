// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The CPU time of reading the coverage of this process: `pool_coverage [mib=1024] [thp=never]`
//!
//! Fills memory, and prints the CPU time of each of seven readings, without and with a sample for
//! growth.

#![expect(unsafe_code, reason = "the clock of the thread, and a switch of this process")]

#[path = "shared/clock.rs"]
mod clock;

use std::error::Error;

use hugepool::Process;

fn main() -> Result<(), Box<dyn Error>> {
    clock::check_options(&["mib"], "mib=N")?;
    clock::apply_thp_option()?;
    let mib: usize = clock::option("mib", 1024)?;
    let memory = vec![1u8; mib << 20];
    for samples in [0, 256] {
        let mut times = Vec::new();
        let mut total = hugepool::Coverage::default();
        for _ in 0..7 {
            let started = clock::cpu_time();
            total = Process::read(samples)?.total();
            times.push(clock::cpu_time() - started);
        }
        times.sort_unstable();
        let gib = total.resident as f64 / f64::from(1 << 30);
        let share = total.share().unwrap_or(0.0) * 100.0;
        let per_gib = times[3] as f64 / 1e6 / gib;
        println!(
            "{gib:.2} GiB resident, {share:.1} % huge, {samples} samples: {per_gib:.2} ms of CPU for each GiB"
        );
    }
    drop(memory);
    Ok(())
}
