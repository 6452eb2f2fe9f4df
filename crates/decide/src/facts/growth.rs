// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes that grow steadily: between the two looks and since they began.
//!
//! A program that starts or takes a request grows too, and stops. What counts is the *sustained* rate:
//! the rate over the interval, but at most four times the average since the process began. A leak
//! grows by about its average; a program that just read a file grows far faster than that.

use pagewise_model::{Bytes, Cgroup, Interval, Level, Limit, Process, ProcessChange, Snapshot};

use super::{groups, room};

/// The rate over the interval counts up to so many times the average since the process began.
const TIMES_AVERAGE: f64 = 4.0;
/// A younger process may just be starting, unless it is already large.
const YOUNG_SECONDS: f64 = 30.0;
const LARGE_PERCENT: f64 = 10.0;
/// Less than this over the interval is noise.
const NOISE: i64 = 1 << 20;
/// A limit further away than this is not told.
const FORESEEN_SECONDS: f64 = 3600.0;

/// A process that grows, and what it grows into.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Growth<'a> {
    pub(crate) process: &'a Process,
    /// Anonymous memory, in RAM and in swap.
    pub(crate) held: Bytes,
    /// Bytes per second over the interval.
    pub(crate) per_second: f64,
    /// Bytes that were added over the interval.
    pub(crate) added: Bytes,
    pub(crate) seconds: f64,
    pub(crate) age_seconds: f64,
    /// Seconds until `into` is full at the sustained rate.
    pub(crate) lasts_seconds: f64,
    pub(crate) into: Into<'a>,
}

/// Memory that lasts no longer than this leaves no time to act.
const SOON_SECONDS: f64 = 120.0;
/// Memory that lasts no longer than this is tight.
const TIGHT_SECONDS: f64 = 900.0;

impl Growth<'_> {
    /// How short of memory what it fills is by that; `None` if it lasts long enough.
    pub(crate) fn level(&self) -> Option<Level> {
        match self.lasts_seconds {
            seconds if seconds < SOON_SECONDS => Some(Level::Short),
            seconds if seconds < TIGHT_SECONDS => Some(Level::Tight),
            _ => None,
        }
    }
}

/// What ends first.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Into<'a> {
    /// What the host has available, and what swap can take.
    Host,
    /// The limit of the process's cgroup or of one above it.
    Group(&'a Cgroup, Bytes),
}

/// Every process that would fill memory, or the limit of its cgroup, within the hour; soonest first.
pub(crate) fn growing(interval: &Interval) -> Vec<Growth<'_>> {
    let host = &interval.end;
    let of_host = room::room(host).map(|room| room.left());
    let changes = interval.process_changes();
    let mut growing: Vec<Growth<'_>> =
        changes.iter().filter_map(|change| growth(host, change, of_host)).collect();
    growing.sort_by(|a, b| a.lasts_seconds.total_cmp(&b.lasts_seconds));
    growing
}

fn growth<'a>(
    host: &'a Snapshot,
    change: &ProcessChange<'a>,
    of_host: Option<Bytes>,
) -> Option<Growth<'a>> {
    let added = change.growth().filter(|&added| added >= NOISE)?;
    let process = change.end;
    let held = process.anonymous()?;
    let age_seconds = host.age(process)?.get() as f64 / 1000.0;
    let is_large = held.percent_of(host.memory.total.get()?)?.get() >= LARGE_PERCENT;
    if age_seconds < YOUNG_SECONDS && !is_large {
        return None;
    }
    let per_second = change.growth_per_second()?;
    let average = held.get() as f64 / age_seconds.max(1.0);
    let sustained = per_second.min(TIMES_AVERAGE * average);
    let (left, into) = nearest_limit(host, process, of_host)?;
    let lasts_seconds = left.get() as f64 / sustained;
    (lasts_seconds <= FORESEEN_SECONDS).then_some(Growth {
        process,
        held,
        per_second,
        added: Bytes::new(added.unsigned_abs()),
        seconds: change.seconds,
        age_seconds,
        lasts_seconds,
        into,
    })
}

/// What is left for this process, and whose it is.
fn nearest_limit<'a>(
    host: &'a Snapshot,
    process: &Process,
    of_host: Option<Bytes>,
) -> Option<(Bytes, Into<'a>)> {
    let own = process.cgroup.value();
    let around = host.cgroups.groups.iter().filter(|group| {
        own.is_some_and(|own| own == &group.path || is_path_below(own.as_str(), group))
    });
    let limits = around.filter_map(|group| {
        let limit = match group.max.get()? {
            Limit::Bytes(limit) => limit,
            Limit::Max => return None,
        };
        let held = groups::unreclaimable(group)?;
        let swap = groups::swap_room(host, group).unwrap_or(Bytes::new(0));
        Some((limit.saturating_sub(held).saturating_add(swap), Into::Group(group, limit)))
    });
    let of_host = of_host.map(|left| (left, Into::Host));
    limits.chain(of_host).min_by_key(|(left, _)| *left)
}

fn is_path_below(path: &str, group: &Cgroup) -> bool {
    let above = group.path.as_str().trim_end_matches('/');
    path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
}

/// A duration as people say it: `40 seconds`, `7 minutes`.
pub(crate) fn told(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 10.0 => "10 seconds".to_owned(),
        seconds if seconds < 90.0 => format!("{seconds:.0} seconds"),
        seconds if seconds < 5400.0 => format!("{:.0} minutes", seconds / 60.0),
        seconds => format!("{:.0} hours", seconds / 3600.0),
    }
}

/// A rate in bytes per second.
pub(crate) fn rate(per_second: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    let bytes = Bytes::new(per_second.max(0.0) as u64);
    format!("{bytes}/s")
}
