// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rates of reclaim, refaults, swap and stalls.
//!
//! There are up to three rates for each of these: one over the own interval of each of the two
//! readings, which shows the activity at that time, and one over the time between the readings.
//! Counters restart at a boot, so that readings of different boots have an average since each boot
//! instead.

use pagewise_model::{ActivityChange, ActivityUnit, Change, Interval, Relation, Snapshot};

use crate::relation::uptime;

type Activity = (&'static str, &'static [&'static str], ActivityUnit);

const ACTIVITY: [Activity; 10] = [
    ("file refaults", &["workingset_refault_file"], ActivityUnit::Pages),
    ("anonymous refaults", &["workingset_refault_anon"], ActivityUnit::Pages),
    ("swapped in", &["pswpin"], ActivityUnit::Pages),
    ("swapped out", &["pswpout"], ActivityUnit::Pages),
    ("major faults", &["pgmajfault"], ActivityUnit::Events),
    ("scanned by kswapd", &["pgscan_kswapd"], ActivityUnit::Pages),
    ("scanned by programs", &["pgscan_direct"], ActivityUnit::Pages),
    ("written back by zswap", &["zswpwb"], ActivityUnit::Pages),
    ("compaction stalls", &["compact_stall"], ActivityUnit::Events),
    ("OOM kills", &["oom_kill"], ActivityUnit::Events),
];

/// The rates of both readings over their own intervals, in the order of the table.
pub(crate) type OwnRates = Vec<[Option<f64>; 2]>;

pub(crate) fn rates_of_intervals(before: &Interval, after: &Interval) -> OwnRates {
    let rate = |interval: &Interval, counters: &[&str]| {
        counters.iter().map(|name| Some(interval.vmstat(name)?.per_second)).sum()
    };
    ACTIVITY
        .iter()
        .map(|(_, counters, _)| [rate(before, counters), rate(after, counters)])
        .collect()
}

pub(crate) fn activity_changes(
    interval: &Interval,
    relation: Relation,
    own_rates: OwnRates,
) -> Vec<ActivityChange> {
    let changes = ACTIVITY.iter().zip(own_rates).map(|(&(name, counters, unit), own)| {
        let between = growth_between(interval, counters);
        ActivityChange {
            name,
            counters,
            unit,
            page_bytes: (unit == ActivityUnit::Pages).then(|| interval.end.page_size()),
            before: own[0],
            after: own[1],
            between: between.map(|(_, per_second)| per_second),
            between_count: between.map(|(count, _)| count),
            since_boot: averages_since_boot(interval, relation, |host| {
                sum_of_counters(host, counters)
            }),
        }
    });
    let is_known = |it: &ActivityChange| {
        [it.before, it.after, it.between].iter().any(Option::is_some) || it.since_boot.is_some()
    };
    changes.filter(is_known).collect()
}

/// Returns how much the sum of these counters grew between the two readings, in total and per
/// second.
fn growth_between(interval: &Interval, counters: &[&str]) -> Option<(u64, f64)> {
    let changes: Option<Vec<Change>> = counters.iter().map(|name| interval.vmstat(name)).collect();
    let changes = changes?;
    let count = changes.iter().map(|it| it.delta).fold(0, u64::saturating_add);
    Some((count, changes.iter().map(|it| it.per_second).sum()))
}

fn sum_of_counters(host: &Snapshot, counters: &[&str]) -> Option<f64> {
    counters.iter().map(|name| Some(host.vmstat.get(name).get()? as f64)).sum()
}

/// Returns the averages per second since each boot, if the two readings are of different boots.
pub(crate) fn averages_since_boot(
    interval: &Interval,
    relation: Relation,
    total: impl Fn(&Snapshot) -> Option<f64>,
) -> Option<[f64; 2]> {
    if relation == Relation::SameBoot {
        return None;
    }
    let average = |host: &Snapshot| Some(total(host)? / uptime(host)?);
    Some([average(interval.start.as_deref()?)?, average(&interval.end)?])
}
