// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Takes a [`WatchSample`] of several processes: their current state, added up.
//!
//! A sample is taken a few times per second as long as the user watches. Each sample needs a walk
//! over the page tables, and a read of smaps_rollup, which also walks them and takes longer.

use pagewise_model::{Bytes, WatchSample};

use super::memory::{LookError, Memory};
use super::pss::{find_field, read_text};
use pagewise_model::text::kib;

/// Takes a sample of the memory of those processes that have not exited; `None` if all have exited.
///
/// # Errors
/// If we may not examine one of the processes.
pub fn take_sample(pids: &[u32], block: u64) -> Result<Option<WatchSample>, LookError> {
    let mut all: Option<WatchSample> = None;
    for pid in pids {
        match measure_process(*pid, block) {
            Ok(moment) => all = Some(all.map_or(moment, |sum| plus(&sum, &moment))),
            Err(LookError::Gone(_)) => (),
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

fn measure_process(pid: u32, block: u64) -> Result<WatchSample, LookError> {
    let (_, coverage) = Memory::open(pid, block)?.blocks()?;
    let rollup = read_text(pid, "smaps_rollup")?;
    let size = |key: &[u8]| find_field(&rollup, key).and_then(kib);
    Ok(WatchSample {
        coverage,
        memory: size(b"Pss:"),
        shared: size(b"Shared_Dirty:"),
        cpu_seconds: processor_time(&read_text(pid, "stat")?),
        ..WatchSample::default()
    })
}

fn plus(one: &WatchSample, other: &WatchSample) -> WatchSample {
    let bytes = |a: Option<Bytes>, b: Option<Bytes>| Some(a?.saturating_add(b?));
    let seconds = one.cpu_seconds.zip(other.cpu_seconds).map(|(a, b)| a + b);
    WatchSample {
        coverage: one.coverage.plus(other.coverage),
        memory: bytes(one.memory, other.memory),
        shared: bytes(one.shared, other.shared),
        cpu_seconds: seconds,
        ..*one
    }
}

/// Returns the CPU time of a process in user and kernel mode: fields 14 and 15 of `stat`. The name
/// in parentheses may contain any characters, including parentheses and spaces.
fn processor_time(stat: &[u8]) -> Option<f64> {
    let after_name = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(stat.get(after_name + 1..)?).ok()?;
    let mut times = rest.split_ascii_whitespace().skip(11).map(str::parse::<u64>);
    let ticks = times.next()?.ok()?.checked_add(times.next()?.ok()?)?;
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_moment_has_all() {
        let held = vec![1u8; 8 << 20];
        let found = take_sample(&[std::process::id(), u32::MAX], 2 << 20).unwrap().unwrap();
        assert!(found.coverage.anon >= Bytes::new(8 << 20), "{found:?} {}", held[77]);
        assert!(found.memory >= Some(Bytes::new(8 << 20)));
        assert!(found.cpu_seconds.is_some_and(|seconds| seconds < 3600.0));
        assert_eq!(take_sample(&[u32::MAX], 2 << 20).unwrap(), None);
    }

    #[test]
    fn a_name_does_not_move_the_times() {
        let stat = b"7 (a) b (c) S 1 7 7 0 -1 4194560 9 0 0 0 150 50 0 0 20 0 1 0 5 6 7\n";
        let hertz = rustix::param::clock_ticks_per_second() as f64;
        assert_eq!(processor_time(stat), Some(200.0 / hertz));
        assert_eq!(processor_time(b"7 (a"), None);
        assert_eq!(processor_time(b"7 (a) S 1"), None);
    }
}
