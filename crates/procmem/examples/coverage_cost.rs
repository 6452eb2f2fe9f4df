// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `coverage_cost PID [ROUNDS]` prints as JSON the CPU time that it takes to find a process's huge
//! pages: median, minimum and maximum in milliseconds, and the median per GiB of base pages; for
//! `share`, which queries each block, and for `process`, which gets every page. `held` of
//! pagewise-apply creates processes to examine. Build it with optimisations.

use pagewise_model::Bytes;
use pagewise_procmem::coverage::{LookError, measure_share, survey_process};
use rustix::time::{ClockId, clock_gettime};

const BLOCK: u64 = 2 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let pid: u32 = words.next().ok_or("coverage_cost PID [ROUNDS]")?.parse()?;
    let rounds: usize = words.next().map_or(Ok(21), |rounds| rounds.parse())?;
    let found = survey_process(pid, BLOCK, false)?;
    let small = found.coverage.anon.saturating_sub(found.coverage.anon_huge);
    let gib = small.get() as f64 / Bytes::new(1 << 30).get() as f64;
    let shares = timed(rounds, gib, || measure_share(pid, BLOCK).map(drop))?;
    let pages = timed(rounds, gib, || survey_process(pid, BLOCK, false).map(drop))?;
    let mappings = found.mappings;
    println!(
        r#"{{"mappings": {mappings}, "small_gib": {gib:.3}, "share": {shares}, "process": {pages}}}"#
    );
    Ok(())
}

fn timed(
    rounds: usize,
    gib: f64,
    look: impl Fn() -> Result<(), LookError>,
) -> Result<String, LookError> {
    let mut times = Vec::new();
    for _ in 0..rounds.max(1) {
        let before = cpu_milliseconds();
        look()?;
        times.push(cpu_milliseconds() - before);
    }
    times.sort_by(f64::total_cmp);
    let (median, least, most) = (times[times.len() / 2], times[0], times[times.len() - 1]);
    Ok(format!(
        r#"{{"median_ms": {median:.3}, "least_ms": {least:.3}, "most_ms": {most:.3}, "median_ms_per_gib": {:.3}}}"#,
        median / gib
    ))
}

fn cpu_milliseconds() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e3 + now.tv_nsec as f64 / 1e6
}
