// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines whether memory pressure has ended, and how long ago.
//!
//! The averages of PSI fall slowly: 20 s after the last wait, the average over a minute is still 72
//! % of what it was. The total stall time shows the end at once, because it stops growing.
//!
//! The kernel updates each average every two seconds (`calc_avgs` in kernel/sched/psi.c): for an
//! average over T = 10, 60 or 300 s, it multiplies the old value by `exp(-2 / T)` and adds the
//! stalled share of these two seconds. If tasks waited for a constant share `p` of `D` seconds,
//! until `t` seconds ago, then
//!
//! ```text
//! avgT = p (1 - exp(-D / T)) exp(-t / T)
//! ```
//!
//! `p`, `D` and `t` can be computed from the three averages. If the pressure was not constant, the
//! result is inexact, but good enough for a statement like "about 20 seconds ago".

use pagewise_model::{Cgroup, Interval, Limit, Pressure, Snapshot, Stall};

/// Counters of `/proc/vmstat` that do not change while the kernel neither reclaims pages nor reads
/// reclaimed pages back. A name that ends in `_` stands for all counters that begin with it.
const RECLAIM: [&str; 8] = [
    "pgscan_",
    "pgsteal_",
    "allocstall_",
    "compact_stall",
    "pswpin",
    "pswpout",
    "workingset_refault_",
    "zswpin",
];
/// The time constants of the averages in seconds. The kernel multiplies by 1677/2048, 1981/2048 and
/// 2034/2048 every two seconds (`EXP_10s` and so on); the last of these corresponds to 292 s
/// instead of 300 s.
const SPANS: [f64; 3] = [10.007, 60.129, 291.570];
/// A group counts as waiting now if its tasks waited for at least this share of the last ten
/// seconds, in percent.
const LATELY: f64 = 1.0;
/// Stalls of up to this share of the interval come from single tasks that wait occasionally.
const STILL: f64 = 0.001;

/// Returns how many seconds ago the host's memory pressure ended, if no task has waited for memory
/// since the start of the interval. `None` if tasks wait, or if it cannot be determined.
///
/// A task that waits every few seconds may happen not to wait during the interval. Therefore one of
/// two further conditions must hold: the average over ten seconds is less than half of that over a
/// minute, or the kernel has not reclaimed any page. In addition, no group may use at least its
/// `memory.high` and still wait as much as before: its tasks sleep for two seconds at a time, in
/// which nothing is reclaimed.
pub fn ended_seconds_ago(interval: &Interval) -> Option<f64> {
    let seconds = interval.seconds()?;
    let memory = &interval.end.psi.memory;
    memory.some.total_us.get()?;
    let stalled = interval.change(|host| host.psi.memory.some.total_us.clone());
    let start_is_known = interval.start.as_deref()?.psi.memory.some.total_us.get().is_some();
    if interval.end.cgroups.groups.iter().any(is_throttled) {
        return None;
    }
    let has_ended = match stalled {
        Some(stalled) => {
            let is_still = stalled.delta as f64 <= seconds * 1e6 * STILL;
            is_still && (has_fallen(memory) || has_reclaimed_nothing(interval) == Some(true))
        }
        // the total decreased, which means that it was reset
        None if start_is_known => false,
        // recordings of older versions have no pressure for the start of the interval
        None => has_reclaimed_nothing(interval) == Some(true),
    };
    let most_recent = |stall: &Stall| seconds_since_end(stall, seconds);
    has_ended.then(|| most_recent(&memory.some)).flatten()
}

/// Whether the kernel makes tasks of the group sleep because the group exceeds its `memory.high`.
fn is_throttled(group: &Cgroup) -> bool {
    let limit = group.high.get().and_then(Limit::bytes);
    let is_above = limit.zip(group.current.get()).is_some_and(|(limit, used)| used >= limit);
    let waited = group.pressure.some.avg10.get();
    is_above && waited.is_some_and(|it| it.get() >= LATELY) && !has_fallen(&group.pressure)
}

fn has_fallen(memory: &Pressure) -> bool {
    let averages = memory.some.avg10.get().zip(memory.some.avg60.get());
    averages.is_some_and(|(ten, sixty)| ten.get() < sixty.get() / 2.0)
}

/// Whether no counter of reclaim changed over the interval; `None` if the kernel has none of these
/// counters.
fn has_reclaimed_nothing(interval: &Interval) -> Option<bool> {
    let before: &Snapshot = interval.start.as_deref()?;
    let is_reclaim = |name: &str| {
        RECLAIM.iter().any(|it| name == *it || it.ends_with('_') && name.starts_with(it))
    };
    let counters = interval.end.vmstat.iter().filter(|(name, _)| is_reclaim(name.as_str()));
    let mut still = counters.map(|(name, now)| {
        now.get().is_some() && before.vmstat.get(name.as_str()).get() == now.get()
    });
    let first = still.next()?;
    Some(first && still.all(|it| it))
}

/// The time since a stall ended, at least `least` seconds; `None` if the averages are not known.
fn seconds_since_end(stall: &Stall, least: f64) -> Option<f64> {
    // the kernel prints two decimals, so that 0.00 may be any value below 0.005
    let average = |percent: pagewise_model::Percent| percent.get().max(0.005);
    let ten = average(stall.avg10.get()?);
    let sixty = average(stall.avg60.get()?);
    let three_hundred = average(stall.avg300.get()?);
    // tasks cannot have stalled for more than 100 % of the time
    let most = 10.0 * (100.0 / ten).ln();
    Some(fit_end([ten, sixty, three_hundred]).clamp(least, most.max(least)))
}

/// Finds the duration of the stall that best explains all three averages, and returns the time
/// since its end.
fn fit_end([ten, sixty, three_hundred]: [f64; 3]) -> f64 {
    let [short, middle, long] = SPANS;
    let grown = |duration: f64, span: f64| 1.0 - (-duration / span).exp();
    let by_short = |duration: f64| {
        let ratio = grown(duration, short) / grown(duration, middle);
        (ratio * sixty / ten).ln() / (1.0 / short - 1.0 / middle)
    };
    let by_long = |duration: f64| {
        let ratio = grown(duration, middle) / grown(duration, long);
        (ratio * three_hundred / sixty).ln() / (1.0 / middle - 1.0 / long)
    };
    // durations from one second to three hours are tried
    let durations = (0..=400).map(|step| (f64::from(step) * 0.0233).exp());
    let best = durations.min_by(|a, b| {
        let miss = |duration: f64| (by_short(duration) - by_long(duration)).abs();
        miss(*a).total_cmp(&miss(*b))
    });
    best.map_or(0.0, by_short)
}

#[cfg(test)]
#[path = "../tests/unit/stalls.rs"]
mod tests;
