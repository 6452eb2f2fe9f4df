// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes and groups of them that grow steadily: between the two looks and since they began.
//!
//! A program that starts or takes a request grows too, and stops. What counts is the *sustained* rate:
//! the rate over the interval, but at most four times the average since the process began. A leak
//! grows by about its average; a program that just read a file grows far faster than that. Nothing is foreseen
//! of what would have to grow more than tenfold: a virtual machine or a heap that fills to its own bound grows
//! steadily too, and nobody can tell it from a leak while it is small.
//!
//! Many small processes of a cgroup can fill memory together, while none of them grows enough by
//! itself, or while each is too young to be seen twice. So groups are judged by the same rule. A group
//! is as old as the oldest process in it. It is told only if what is told inside it (processes, groups
//! below it) explains less than half of its growth.

use pagewise_model::{Bytes, Cgroup, Interval, Limit, Process, ProcessChange, Snapshot};

use crate::groups::{self, GroupPair};
use crate::room;

/// The rate over the interval counts up to so many times the average since the process began.
const TIMES_AVERAGE: f64 = 4.0;
/// A younger process may just be starting, unless it is already large.
const YOUNG_SECONDS: f64 = 30.0;
const LARGE_PERCENT: f64 = 10.0;
/// A limit at so many times the memory that is held is too far away to be foreseen.
const TIMES_HELD: u64 = 10;
/// Less than this over the interval is noise.
const NOISE: i64 = 1 << 20;
/// A limit further away than this is not told.
const FORESEEN_SECONDS: f64 = 3600.0;

/// Who grows.
#[derive(Debug, Clone, Copy)]
pub enum Grower<'a> {
    /// One process.
    Process(&'a Process),
    /// All processes of a group and of the groups below it together.
    Group(&'a Cgroup),
}

impl Grower<'_> {
    /// The name for a sentence: `postgres (pid 4121)`, `/system.slice/db.service`.
    pub fn named(&self) -> String {
        match self {
            Self::Process(process) => format!("{} (pid {})", process.name, process.pid),
            Self::Group(group) => group.path.to_string(),
        }
    }

    /// Whether it belongs to this group.
    fn is_in(&self, group: &Cgroup) -> bool {
        match self {
            Self::Process(process) => groups::holds(&group.path, process),
            Self::Group(below) => groups::is_below(below, group),
        }
    }
}

/// A process or a group that grows, and what it grows into.
#[derive(Debug, Clone, Copy)]
pub struct Growth<'a> {
    /// Who.
    pub grower: Grower<'a>,
    /// Anonymous memory, in RAM and in swap.
    pub held: Bytes,
    /// Bytes per second over the interval.
    pub per_second: f64,
    /// Bytes that were added over the interval.
    pub added: Bytes,
    /// Length of the interval.
    pub seconds: f64,
    /// Since the process, or the oldest one of the group, began.
    pub age_seconds: f64,
    /// Seconds until `into` is full at the sustained rate.
    pub lasts_seconds: f64,
    /// What it fills first.
    pub into: GrowthLimit<'a>,
}

/// What ends first.
#[derive(Debug, Clone, Copy)]
pub enum GrowthLimit<'a> {
    /// What the host has available, and what swap can take.
    Host,
    /// The limit of a group: of the process's cgroup, of the group that grows, or of one above it.
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

/// Every process, and every group whose processes only together, would fill memory or the limit of a
/// cgroup within the hour; soonest first.
pub fn growing(interval: &Interval) -> Vec<Growth<'_>> {
    let host = &interval.end;
    let of_host = room::room(host).map(|room| room.left());
    let changes = interval.process_changes();
    let mut growing: Vec<Growth<'_>> =
        changes.iter().filter_map(|change| of_process(host, change, of_host)).collect();
    // groups below before those above them
    for pair in groups::pairs(interval).iter().rev() {
        add_group(&mut growing, host, pair, of_host);
    }
    growing.sort_by(|a, b| a.lasts_seconds.total_cmp(&b.lasts_seconds));
    growing
}

/// Adds a group unless its growth is told already, and takes out what is a part of its growth.
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

/// What was added over the interval.
struct GroupGrowth<'a> {
    grower: Grower<'a>,
    held: Bytes,
    added: i64,
    seconds: f64,
}

impl<'a> GroupGrowth<'a> {
    /// When the nearest limit is reached: that of the group `own`, or of one above it, or the host's.
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

/// What is left for a process of the group `own`, and whose it is.
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
