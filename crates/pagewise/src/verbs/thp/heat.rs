// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `thp collapse --by-access`: which memory of the targets is in use, by DAMON.
//!
//! A thread of the kernel looks whether one page of each region was used, again and again, and draws
//! regions anew so that what is in one is used alike. We borrow one for each target, ask them a few
//! times what they saw and give them back. Looking clears the mark that a page was used, which reclaim
//! goes by too: so it is done only where it was asked for.
//!
//! There is one set of threads for the whole machine: where somebody else has made some we leave it
//! alone. `damon_stat`, which newer kernels start by themselves and which only counts, is stopped
//! meanwhile, as it excludes all others. A page counts as used in a look of at least 5 ms, so memory
//! that is used seldom is told from memory that is not only by looking for long.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use pagewise_apply::Session;
use pagewise_apply::act::{Heat, Whom};
use pagewise_model::lend::{KnobSetting, Lender, LoanId};
use pagewise_model::{Damon, DamonModule, Refusal};
use pagewise_observe::{HostRoot, damon_regions};

use crate::host_loans::HostLoans;
use crate::output;

/// Processes that are looked at: each takes a thread.
const MOST: usize = 4;
/// How often they are asked.
const ASKED: u32 = 6;
/// Looks at one page of a region, for each time that they are asked.
const LOOKS: u32 = 10;
const SHORTEST: Duration = Duration::from_millis(5);
const PIECE: Duration = Duration::from_millis(50);
/// How many regions a target is drawn in: each is read as three files.
const REGIONS: [(&str, &str); 2] =
    [("damon.context.nr_regions.max", "1000"), ("damon.context.nr_regions.min", "100")];
/// A scheme that does nothing to any region, so that what was seen of it is told.
const SCHEME: [(&str, &str); 4] = [
    ("damon.scheme.action", "stat"),
    ("damon.scheme.sz.max", "9223372036854775807"),
    ("damon.scheme.nr_accesses.max", "1000000"),
    ("damon.scheme.age.max", "1000000"),
];
const TELL: &str = "update_schemes_tried_regions";

/// Looks for so long; or why that cannot be.
pub(super) fn look(
    host: &HostRoot,
    seen: &Damon,
    whom: &Whom,
    time: Duration,
    stop: &AtomicBool,
) -> anyhow::Result<Heat> {
    match seen.kdamonds.get() {
        Some(0) => (),
        Some(_) => bail!("somebody else has threads of DAMON (nr_kdamonds)"),
        None => bail!("this kernel has no DAMON that can be asked"),
    }
    let mut loans = HostLoans::open(true)?;
    let pids: Vec<u32> = whom.processes.iter().map(|(pid, _)| *pid).take(MOST).collect();
    let looked = threads(&mut loans.session, seen, &pids, time / ASKED)
        .map(|threads| asked(&mut loans.session, host, &pids, &threads, time / ASKED, stop));
    loans.end().iter().for_each(output::message);
    match looked? {
        heat if heat.is_empty() => bail!("DAMON has told nothing"),
        heat => Ok(heat),
    }
}

/// A thread for each, which runs.
fn threads(
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
    of.map(|(number, pid)| thread(session, number, *pid, every)).collect()
}

fn thread(
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
    let look = (every / LOOKS).max(SHORTEST);
    set("damon.context.intervals.sample_us", &context, &micros(look))?;
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

/// What they tell, again and again. One whose target has ended tells no more.
fn asked(
    session: &mut Session,
    host: &HostRoot,
    pids: &[u32],
    threads: &[LoanId],
    every: Duration,
    stop: &AtomicBool,
) -> Heat {
    let mut heat = Heat::default();
    for _ in 0..ASKED {
        rest(every, stop);
        for (number, (pid, thread)) in (0..).zip(pids.iter().zip(threads)) {
            if session.trigger(*thread, TELL).is_ok() {
                heat.add(*pid, damon_regions(host, number));
            }
        }
    }
    heat
}

fn rest(time: Duration, stop: &AtomicBool) {
    let until = Instant::now() + time;
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(PIECE.min(time));
    }
}
