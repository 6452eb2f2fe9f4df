// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes and groups of processes that grow steadily: over the interval and since they started.
//!
//! A program that starts or handles a request grows too, and then stops. So the *sustained* rate is
//! used: the rate over the interval, but at most four times the average since the process started.
//! A leak grows at about its average rate; a program that has just read a file grows far faster
//! than that. A limit that is more than ten times the memory now held is not predicted to be
//! reached: a virtual machine or a heap that fills up to its own bound also grows steadily, and
//! cannot be distinguished from a leak while it is small.
//!
//! Many small processes of a cgroup can fill memory together, although none of them grows enough by
//! itself, or each is too young to be in both snapshots. So groups are judged by the same rule. The
//! age of a group is that of its oldest process. A group is reported only if the reported processes
//! and groups inside it explain less than half of its growth and none of them fills the same limit
//! sooner.

use pagewise_model::{Bytes, Cgroup, Interval, Limit, Process, ProcessChange, Snapshot};

use crate::groups::{self, GroupPair};
use crate::room;

/// Growth faster than this multiple of the average since the process started counts only as that
/// multiple.
const TIMES_AVERAGE: f64 = 4.0;
/// A process younger than this many seconds may still be starting up, unless it is already large.
const YOUNG_SECONDS: f64 = 30.0;
const LARGE_PERCENT: f64 = 10.0;
/// A limit is not considered if the memory left below it is more than this many times the memory
/// of the process or group.
const TIMES_HELD: u64 = 10;
/// Growth over the interval below this many bytes is noise.
const NOISE: i64 = 1 << 20;
/// A limit that takes more than this many seconds to reach is not reported.
const FORESEEN_SECONDS: f64 = 3600.0;

/// A process or cgroup whose memory grows.
#[derive(Debug, Clone, Copy)]
pub enum Grower<'a> {
    /// A single process.
    Process(&'a Process),
    /// All processes of a group and its descendants together.
    Group(&'a Cgroup),
}

impl Grower<'_> {
    /// Name of the process or group for a sentence: `postgres (pid 4121)`,
    /// `/system.slice/db.service`.
    pub fn name(&self) -> String {
        match self {
            Self::Process(process) => format!("{} (pid {})", process.name, process.pid),
            Self::Group(group) => group.path.to_string(),
        }
    }

    /// Whether the process or group belongs to this cgroup.
    fn is_in(&self, group: &Cgroup) -> bool {
        match self {
            Self::Process(process) => groups::holds(&group.path, process),
            Self::Group(below) => groups::is_below(below, group),
        }
    }
}

/// A process or group that grows, and the limit that it will reach.
#[derive(Debug, Clone, Copy)]
pub struct Growth<'a> {
    /// The process or group that grows.
    pub grower: Grower<'a>,
    /// Anonymous memory of the process or group, in RAM and in swap.
    pub held: Bytes,
    /// Growth over the interval, in bytes per second.
    pub per_second: f64,
    /// Growth over the interval, in bytes.
    pub added: Bytes,
    /// Length of the interval, in seconds.
    pub seconds: f64,
    /// Age of the process, or of the oldest process in the group, in seconds.
    pub age_seconds: f64,
    /// Seconds until the limit `into` is reached at the sustained rate.
    pub lasts_seconds: f64,
    /// The limit that the growth reaches first.
    pub into: GrowthLimit<'a>,
}

/// A limit on memory that growth can reach.
#[derive(Debug, Clone, Copy)]
pub enum GrowthLimit<'a> {
    /// The host runs out of available memory and free swap.
    Host,
    /// The limit of a cgroup: of the process's own, of the growing group, or of a parent of these.
    Group(&'a Cgroup, Bytes),
}

impl GrowthLimit<'_> {
    fn is_same(&self, other: &GrowthLimit<'_>) -> bool {
        match (self, other) {
            (GrowthLimit::Host, GrowthLimit::Host) => true,
            (GrowthLimit::Group(one, _), GrowthLimit::Group(other, _)) => one.path == other.path,
            _ => false,
        }
    }
}

/// All processes that would fill memory, or reach the limit of a cgroup, within the hour, and all
/// groups whose processes would do so only together; soonest first.
pub fn growing(interval: &Interval) -> Vec<Growth<'_>> {
    let host = &interval.end;
    let of_host = room::room(host).map(|room| room.bytes_left());
    let changes = interval.process_changes();
    let mut growing: Vec<Growth<'_>> =
        changes.iter().filter_map(|change| of_process(host, change, of_host)).collect();
    // children before their parents
    for pair in groups::pairs(interval).iter().rev() {
        add_group(&mut growing, host, pair, of_host);
    }
    growing.sort_by(|a, b| a.lasts_seconds.total_cmp(&b.lasts_seconds));
    growing
}

/// Adds a group unless its growth is already explained, and removes entries whose growth is part of
/// it.
fn add_group<'a>(
    growing: &mut Vec<Growth<'a>>,
    host: &'a Snapshot,
    pair: &GroupPair<'a>,
    of_host: Option<Bytes>,
) {
    let Some(growth) = of_group(host, pair, of_host) else { return };
    let inside = |growth: &&Growth<'_>| growth.grower.is_in(pair.now);
    let explained: u64 = growing.iter().filter(inside).map(|told| told.added.get()).sum();
    let fills_the_same = |other: &Growth<'_>| other.into.is_same(&growth.into);
    let is_told_worse = growing
        .iter()
        .filter(inside)
        .any(|told| fills_the_same(told) && told.lasts_seconds <= growth.lasts_seconds);
    if explained >= growth.added.get() / 2 || is_told_worse {
        return;
    }
    growing.retain(|told| !(told.grower.is_in(pair.now) && fills_the_same(told)));
    growing.push(growth);
}

fn of_process<'a>(
    host: &'a Snapshot,
    change: &ProcessChange<'a>,
    of_host: Option<Bytes>,
) -> Option<Growth<'a>> {
    let process = change.end;
    let own = process.cgroup.value().map(pagewise_model::Name::as_str);
    let growth = GroupGrowth {
        grower: Grower::Process(process),
        held: process.anonymous()?,
        added: change.growth()?,
        seconds: change.seconds,
    };
    growth.foreseen(host, own, || Some(host.age(process)?.get()), of_host)
}

fn of_group<'a>(
    host: &'a Snapshot,
    pair: &GroupPair<'a>,
    of_host: Option<Bytes>,
) -> Option<Growth<'a>> {
    let group = pair.now;
    let growth = GroupGrowth {
        grower: Grower::Group(group),
        held: groups::anonymous(group)?,
        added: pair.growth()?,
        seconds: pair.seconds?,
    };
    let oldest = || {
        let processes =
            host.processes.list.iter().filter(|process| groups::holds(&group.path, process));
        processes.filter_map(|process| host.age(process)).map(pagewise_model::Millis::get).max()
    };
    growth.foreseen(host, Some(group.path.as_str()), oldest, of_host)
}

/// A process or group with its growth over the interval, before limits are considered.
struct GroupGrowth<'a> {
    grower: Grower<'a>,
    held: Bytes,
    added: i64,
    seconds: f64,
}

impl<'a> GroupGrowth<'a> {
    /// The growth with the nearest limit, and when this is reached: that of the cgroup `own`, of
    /// one of its parents, or of the host.
    fn foreseen(
        self,
        host: &'a Snapshot,
        own: Option<&str>,
        age_millis: impl FnOnce() -> Option<u64>,
        of_host: Option<Bytes>,
    ) -> Option<Growth<'a>> {
        let Self { grower, held, added, seconds } = self;
        if added < NOISE {
            return None;
        }
        let age_seconds = age_millis()? as f64 / 1000.0;
        let is_large = held.percent_of(host.memory.total.get()?)?.get() >= LARGE_PERCENT;
        if age_seconds < YOUNG_SECONDS && !is_large {
            return None;
        }
        let per_second = added as f64 / seconds;
        let average = held.get() as f64 / age_seconds.max(1.0);
        let sustained = per_second.min(TIMES_AVERAGE * average);
        let (left, into) = nearest_limit(host, own, of_host)?;
        if held.get().saturating_mul(TIMES_HELD) < left.get() {
            return None;
        }
        let lasts_seconds = left.get() as f64 / sustained;
        (lasts_seconds <= FORESEEN_SECONDS).then_some(Growth {
            grower,
            held,
            per_second,
            added: Bytes::new(added.unsigned_abs()),
            seconds,
            age_seconds,
            lasts_seconds,
            into,
        })
    }
}

/// The memory left below the nearest limit for a process of the group `own`, and whose limit it is.
fn nearest_limit<'a>(
    host: &'a Snapshot,
    own: Option<&str>,
    of_host: Option<Bytes>,
) -> Option<(Bytes, GrowthLimit<'a>)> {
    let is_around =
        |group: &&Cgroup| own.is_some_and(|own| groups::is_in(own, group.path.as_str()));
    let limits = host.cgroups.groups.iter().filter(is_around).filter_map(|group| {
        let limit = match group.max.get()? {
            Limit::Bytes(limit) => limit,
            Limit::Max => return None,
        };
        let held = groups::unreclaimable(group)?;
        let swap = groups::swap_room(host, group).unwrap_or(Bytes::new(0));
        Some((limit.saturating_sub(held).saturating_add(swap), GrowthLimit::Group(group, limit)))
    });
    let of_host = of_host.map(|left| (left, GrowthLimit::Host));
    limits.chain(of_host).min_by_key(|(left, _)| *left)
}
