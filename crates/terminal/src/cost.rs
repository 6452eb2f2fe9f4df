// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the cost of this program: [`Cost`].
//!
//! The CPU time of this process is read from a clock with a resolution of nanoseconds. That of
//! helper processes that have ended is read from `/proc/self/stat` in ticks of 10 ms, because the
//! more precise call has no safe wrapper.
//!
//! Both times are kept over exec: if a shell replaces itself by its last command, that command
//! starts with the CPU time of the shell and its children, which is not ours and is subtracted.

use std::time::Instant;

use pagewise_model::{Bytes, Cost, Interval};
use rustix::time::{ClockId, clock_gettime};

/// The time and the CPU time at the start of this program.
#[derive(Debug, Clone, Copy)]
pub struct CostMeter {
    at: Instant,
    cpu_seconds: f64,
}

impl CostMeter {
    /// Starts measuring.
    pub fn now() -> Self {
        Self { at: Instant::now(), cpu_seconds: cpu_seconds() }
    }
}

/// The cost since `started`, and the bytes read at both ends of `interval`.
pub fn measure_since(started: CostMeter, interval: &Interval) -> Cost {
    let at_start = interval.start.as_deref().map_or(0, |start| start.bytes_read);
    Cost {
        cpu_seconds: (cpu_seconds() - started.cpu_seconds).max(0.0),
        wall_seconds: started.at.elapsed().as_secs_f64(),
        bytes_read: interval.end.bytes_read.saturating_add(at_start),
        peak_memory_bytes: peak_memory().unwrap_or_default(),
    }
}

/// The cost as one line.
pub fn format_line(cost: &Cost) -> String {
    format!(
        "took {:.2} s, {:.3} s CPU; read {}, peak memory {}",
        cost.wall_seconds,
        cost.cpu_seconds,
        Bytes::new(cost.bytes_read),
        cost.peak_memory_bytes
    )
}

fn cpu_seconds() -> f64 {
    own_cpu_seconds() + children_cpu_seconds().unwrap_or(0.0)
}

fn own_cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// `cutime` and `cstime`: fields 16 and 17 of proc_pid_stat(5), counted from the process id.
fn children_cpu_seconds() -> Option<f64> {
    let stat = own_file("/proc/self/stat")?;
    let (_, after_name) = stat.rsplit_once(')')?;
    let ticks: u64 =
        after_name.split_whitespace().skip(13).take(2).flat_map(str::parse::<u64>).sum();
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

fn peak_memory() -> Option<Bytes> {
    let status = own_file("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Bytes::from_kib(line.trim().strip_suffix("kB")?.trim().parse().ok()?)
}

#[expect(clippy::disallowed_methods, reason = "our own process, not the host that is looked at")]
fn own_file(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work_until(holds: impl Fn() -> bool) {
        let started = Instant::now();
        let mut sum = 0u64;
        while !holds() {
            assert!(started.elapsed().as_secs() < 60, "a minute of work cost nothing");
            for _ in 0..100_000 {
                sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
            }
        }
    }

    #[test]
    fn what_was_taken_before_is_not_ours() {
        work_until(|| own_cpu_seconds() > 0.0);
        let cost = measure_since(CostMeter::now(), &Interval::default());
        assert!(cost.cpu_seconds < own_cpu_seconds(), "{cost:?}");
    }

    #[test]
    fn the_cost_of_working_grows() {
        let before = own_cpu_seconds();
        work_until(|| own_cpu_seconds() > before);
        assert!(children_cpu_seconds().is_some_and(|seconds| seconds >= 0.0));
        assert!(peak_memory().is_some_and(|peak| peak > Bytes::new(100_000)));
    }
}
