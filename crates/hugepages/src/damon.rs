// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures with DAMON which memory of some processes is in use, as an [`AccessProfile`].
//!
//! DAMON's kernel thread repeatedly checks whether one page of each region was accessed, and splits
//! and merges regions until all pages of a region are accessed about equally often. One such thread
//! is started for each process, queried a few times for its regions, and removed. The check clears
//! the accessed bit of the page, which reclaim uses too, so this runs only if the user asks for it.
//!
//! The kernel has one set of these threads: if another program has created some, the measurement is
//! refused. `damon_stat`, which newer kernels start by themselves and which only counts, is stopped
//! during the measurement, because it excludes all other threads. A page counts as accessed if an
//! access falls into a sampling period of at least 5 ms, so to distinguish rarely accessed memory
//! from unused memory, measure for longer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pagewise_apply::Session;
use pagewise_model::lend::{KnobSetting, Lender, LoanId};
use pagewise_model::{Damon, DamonModule, Refusal};
use pagewise_observe::{HostRoot, damon_regions};

use crate::access_profile::AccessProfile;
use crate::collapse::CollapseTargets;

/// Maximum number of processes that are sampled: each needs a thread.
const MOST: usize = 4;
/// Number of times that each DAMON thread is queried for its regions.
const ASKED: u32 = 6;
/// Number of DAMON's sampling periods between two queries.
const LOOKS: u32 = 10;
const SHORTEST: Duration = Duration::from_millis(5);
const PIECE: Duration = Duration::from_millis(50);
/// Limits on the number of regions per process: each region is read from three files.
const REGIONS: [(&str, &str); 2] =
    [("damon.context.nr_regions.max", "1000"), ("damon.context.nr_regions.min", "100")];
/// Settings of a DAMON scheme that applies no action to any region: with it, the kernel reports
/// what it saw of each region.
const SCHEME: [(&str, &str); 4] = [
    ("damon.scheme.action", "stat"),
    ("damon.scheme.sz.max", "9223372036854775807"),
    ("damon.scheme.nr_accesses.max", "1000000"),
    ("damon.scheme.age.max", "1000000"),
];
const UPDATE: &str = "update_schemes_tried_regions";

/// Measures, for the given time, which memory of the targets is accessed.
///
/// # Errors
/// If there is no DAMON, somebody else uses it, it refuses a setting, or it reported nothing.
pub fn measure_accesses(
    session: &mut Session,
    host: &HostRoot,
    seen: &Damon,
    targets: &CollapseTargets,
    time: Duration,
    stop: &AtomicBool,
) -> Result<AccessProfile, NoProfile> {
    match seen.kdamonds.get() {
        Some(0) => (),
        Some(_) => return Err(NoProfile::InUse),
        None => return Err(NoProfile::NoDamon),
    }
    let pids: Vec<u32> = targets.processes.iter().map(|(pid, _)| *pid).take(MOST).collect();
    let threads = start_threads(session, seen, &pids, time / ASKED)?;
    let profile = read_regions(session, host, &pids, &threads, time / ASKED, stop);
    if profile.is_empty() { Err(NoProfile::Nothing) } else { Ok(profile) }
}

/// Why DAMON measured no accesses.
#[derive(Debug, thiserror::Error)]
pub enum NoProfile {
    /// DAMON is in use, and it supports one user at a time.
    #[error("somebody else has threads of DAMON (nr_kdamonds)")]
    InUse,
    /// DAMON is not built into the kernel, or cannot be configured through sysfs.
    #[error("this kernel has no DAMON that can be asked")]
    NoDamon,
    /// DAMON reported no accesses.
    #[error("DAMON reported no regions")]
    Nothing,
    /// A setting of DAMON could not be borrowed.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// Starts a DAMON thread for each process.
fn start_threads(
    session: &mut Session,
    seen: &Damon,
    pids: &[u32],
    every: Duration,
) -> Result<Vec<LoanId>, Refusal> {
    let counts = |module: &DamonModule| {
        module.name.as_str() == "damon_stat" && module.enabled.get() == Some(true)
    };
    if seen.modules.iter().any(counts) {
        session.lend_knob(&KnobSetting::new("damon_stat.enabled", "N"))?;
    }
    session.lend_knob(&KnobSetting::new("damon.nr_kdamonds", pids.len().to_string()))?;
    let of = pids.iter().enumerate();
    of.map(|(number, pid)| start_thread(session, number, *pid, every)).collect()
}

fn start_thread(
    session: &mut Session,
    number: usize,
    pid: u32,
    every: Duration,
) -> Result<LoanId, Refusal> {
    let thread = number.to_string();
    let context = format!("{thread}/0");
    let micros = |time: Duration| time.as_micros().to_string();
    let mut set = |name: &str, instance: &str, value: &str| {
        session.lend_knob(&KnobSetting::of_instance(name, instance, value))
    };
    set("damon.kdamond.nr_contexts", &thread, "1")?;
    set("damon.context.operations", &context, "vaddr")?;
    set("damon.context.intervals.aggr_us", &context, &micros(every))?;
    let period = (every / LOOKS).max(SHORTEST);
    set("damon.context.intervals.sample_us", &context, &micros(period))?;
    for (name, value) in REGIONS {
        set(name, &context, value)?;
    }
    set("damon.context.nr_targets", &context, "1")?;
    set("damon.target.pid", &format!("{context}/0"), &pid.to_string())?;
    set("damon.context.nr_schemes", &context, "1")?;
    for (name, value) in SCHEME {
        set(name, &format!("{context}/0"), value)?;
    }
    set("damon.kdamond.state", &thread, "on")
}

/// Queries each DAMON thread repeatedly for the regions of its process. A thread reports no more
/// after its process has exited.
fn read_regions(
    session: &mut Session,
    host: &HostRoot,
    pids: &[u32],
    threads: &[LoanId],
    every: Duration,
    stop: &AtomicBool,
) -> AccessProfile {
    let mut profile = AccessProfile::default();
    for _ in 0..ASKED {
        pause(every, stop);
        for (number, (pid, thread)) in (0..).zip(pids.iter().zip(threads)) {
            if session.trigger(*thread, UPDATE).is_ok() {
                profile.add(*pid, damon_regions(host, number));
            }
        }
    }
    profile
}

fn pause(time: Duration, stop: &AtomicBool) {
    let until = Instant::now() + time;
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(PIECE.min(time));
    }
}
