// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes and groups of processes that grow, and when they will reach the nearest limit.
//!
//! One second shows that something grows, but not whether the growth will stop. A leak grows at the
//! same rate as ever since its process started, and is larger than it has ever been. Three other
//! things grow for a while:
//!
//! - **A sawtooth** (a loop that allocates and frees, a garbage collector): it was this large
//!   before. The peak that the kernel records (`VmHWM`) was reached earlier, and the average rate
//!   since the process started is far lower than the rate in this second.
//! - **A program that starts**: it ends growing within seconds. A young process is therefore
//!   expected to fill memory only if it already holds half of it.
//! - **A cache**: its growth slows down as it fills, so that it grows more slowly than its average.
//!
//! A forecast is [`Forecast::Sustained`] if the growth has already lasted for a considerable part
//! of the time until memory is full. All other growth that would reach a limit within the hour is
//! [`Forecast::Tentative`]: it deserves to be mentioned but not to raise an alarm. A cache that
//! fills at a constant rate for more than half a minute cannot be distinguished from a leak.
//!
//! Many small processes of a cgroup can fill memory together, although none of them grows enough by
//! itself, or each is too young to be in both snapshots. Cgroups are therefore judged by the same
//! rule; the age of a group is the age of its oldest process. A group is reported only if no
//! process and no group inside it accounts for half of its growth.
//!
//! `VmHWM` includes file pages, which the kernel may have dropped since. If pages of the process's
//! cgroup were reclaimed, a size below the peak therefore does not prove anything.

use pagewise_model::{Bytes, Cgroup, Interval, Limit, Process, ProcessChange, Reading, Snapshot};

use crate::groups::{self, GroupPair};
use crate::room;

/// Growth is steady if its rate over the interval, divided by the average rate since the process
/// started, is in this range. A smaller quotient means that growth slows down, as that of a cache
/// does.
const STEADY: std::ops::Range<f64> = 0.8..2.0;
/// If growth is faster than the average rate by more than this factor, it counts only if the
/// process was never as large before.
const TIMES_AVERAGE: f64 = 4.0;
/// A process younger than this many seconds may still be starting.
const YOUNG_SECONDS: f64 = 30.0;
/// Growth is sustained if the process already holds at least this share of the memory that it could
/// fill: it has then been growing for at least a sixth of the time until memory is full.
const SUSTAINED_SHARE: f64 = 1.0 / 7.0;
/// The share that takes the place of [`SUSTAINED_SHARE`] for a process that may still be starting.
const YOUNG_SHARE: f64 = 0.5;
/// The share that takes the place of [`SUSTAINED_SHARE`] for growth that is not steady, because it
/// may have lasted for seconds only.
const UNSTEADY_SHARE: f64 = 0.75;
/// Growth is not mentioned if the process holds less than this share of the memory that it could
/// fill; the first value is for steady growth, the second for other growth.
const STEADY_SHARE: f64 = 0.04;
const TENTATIVE_SHARE: f64 = 0.1;
/// A process is at its peak if it is below the peak by at most this share of its growth, or of its
/// size.
const AT_PEAK: f64 = 1.0 / 8.0;
const AT_PEAK_OF_SIZE: f64 = 0.01;
/// Growth over the interval below this many bytes is noise.
const NOISE: i64 = 16 * 4096;
/// Growth below this many bytes does not show a rate: before Linux 6.16, the kernel updates the
/// size of a process only in steps of 32 pages or more.
const MEASURABLE: i64 = 2 * 32 * 4096;
/// A limit that would take more than this many seconds to reach is not reported. It is one hour
/// plus a quarter, because a rate over one second is not exact.
const FORESEEN_SECONDS: f64 = 4500.0;

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

    /// Whether the process or group is in the cgroup `group`.
    fn is_in(&self, group: &Cgroup) -> bool {
        match self {
            Self::Process(process) => groups::contains_process(&group.path, process),
            Self::Group(below) => groups::is_below(below, group),
        }
    }
}

/// A process or group that grows, and the limit that it will reach.
#[derive(Debug, Clone, Copy)]
pub struct Growth<'a> {
    /// The process or group that grows.
    pub grower: Grower<'a>,
    /// Anonymous memory that the process or group holds, in RAM and in swap.
    pub held: Bytes,
    /// Growth over the interval, in bytes per second.
    pub per_second: f64,
    /// Growth over the interval, in bytes.
    pub added: Bytes,
    /// Length of the interval, in seconds.
    pub seconds: f64,
    /// Age of the process, or of the oldest process in the group, in seconds.
    pub age_seconds: f64,
    /// Seconds until the limit `into` is reached at the rate of the interval.
    pub lasts_seconds: f64,
    /// How reliable `lasts_seconds` is.
    pub forecast: Forecast,
    /// Whether the rate over the interval is about the average rate since the process started.
    pub is_steady: bool,
    /// The limit that the growth reaches first.
    pub into: GrowthLimit<'a>,
}

/// How reliable the forecast is that growth will reach a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Forecast {
    /// The memory grows now, but a program that starts, or a cache of limited size, would look the
    /// same so far.
    Tentative,
    /// The memory has been growing for a considerable part of the time until the limit is reached.
    Sustained,
}

/// A limit on memory that growth can reach.
#[derive(Debug, Clone, Copy)]
pub enum GrowthLimit<'a> {
    /// The host runs out of available memory and free swap.
    Host,
    /// A cgroup reaches its limit: the growing group, the group of the growing process, or an
    /// ancestor of either.
    Group(GroupLimit<'a>),
}

/// A limit on the memory of a cgroup.
#[derive(Debug, Clone, Copy)]
pub struct GroupLimit<'a> {
    /// The cgroup that has the limit.
    pub group: &'a Cgroup,
    /// Size of the limit.
    pub size: Bytes,
    /// The Reading of the limit: `memory.max` or `memory.high`.
    pub reading: &'a Reading<Limit>,
}

impl GroupLimit<'_> {
    /// Whether the limit is `memory.high`, at which the kernel slows tasks down but does not kill
    /// them.
    pub fn is_high(&self) -> bool {
        std::ptr::eq(self.reading, &raw const self.group.high)
    }
}

impl GrowthLimit<'_> {
    fn is_same(&self, other: &GrowthLimit<'_>) -> bool {
        match (self, other) {
            (GrowthLimit::Host, GrowthLimit::Host) => true,
            (GrowthLimit::Group(one), GrowthLimit::Group(other)) => {
                one.group.path == other.group.path
            }
            _ => false,
        }
    }
}

/// Finds all processes that would fill memory, or reach the limit of a cgroup, within the hour, and
/// all groups whose processes would do so only together. Sustained growth comes first, then the
/// growth that reaches its limit soonest.
pub fn find_growing(interval: &Interval) -> Vec<Growth<'_>> {
    let host = &interval.end;
    let of_host = room::measure_headroom(host).map(|room| room.bytes_left());
    let changes: Vec<GrowingProcess<'_>> =
        interval.process_changes().iter().filter_map(GrowingProcess::new).collect();
    let mut growing: Vec<Growth<'_>> =
        changes.iter().filter_map(|change| growth_of_process(host, change, of_host)).collect();
    let pairs = groups::pairs(interval);
    let grown: Vec<GrowingGroup<'_>> = pairs.iter().filter_map(GrowingGroup::new).collect();
    // descendants are examined before their ancestors
    for (at, group) in grown.iter().enumerate().rev() {
        let growth = growth_of_group(host, group, of_host);
        if let Some(growth) = growth.filter(|_| !has_actor(group, &grown[at + 1..], &changes)) {
            add_group(&mut growing, growth, group.pair.now);
        }
    }
    growing.sort_by(|a, b| {
        b.forecast.cmp(&a.forecast).then(a.lasts_seconds.total_cmp(&b.lasts_seconds))
    });
    growing
}

/// Adds a group, unless processes or groups that are already listed explain its growth. Entries
/// that are a part of the group's growth are removed.
fn add_group<'a>(growing: &mut Vec<Growth<'a>>, growth: Growth<'a>, group: &Cgroup) {
    let inside = |growth: &&Growth<'_>| growth.grower.is_in(group);
    let explained: u64 = growing.iter().filter(inside).map(|told| told.added.get()).sum();
    if explained >= growth.added.get() / 2 {
        return;
    }
    let fills_the_same = |other: &Growth<'_>| other.into.is_same(&growth.into);
    growing.retain(|told| !(told.grower.is_in(group) && fills_the_same(told)));
    growing.push(growth);
}

/// Whether the growth of this group has another explanation than many small processes: a single
/// process or group inside it grew by at least half as much, or most of the growth comes from
/// processes that were as large before. `after` contains the groups that follow this one, its
/// descendants first.
fn has_actor(
    group: &GrowingGroup<'_>,
    after: &[GrowingGroup<'_>],
    changes: &[GrowingProcess<'_>],
) -> bool {
    let path = &group.pair.now.path;
    let is_half = |added: i64| added >= group.added / 2;
    let inside = after.iter().take_while(|other| groups::is_below(other.pair.now, group.pair.now));
    if inside.map(|other| other.added).any(is_half) {
        return true;
    }
    let mut returning = 0;
    for change in changes.iter().filter(|change| groups::contains_process(path, change.change.end))
    {
        if is_half(change.added) {
            return true;
        }
        if change.size == Size::ReachedBefore {
            returning += change.added;
        }
    }
    is_half(returning)
}

/// The size of a process or group compared with its earlier peak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    /// Its growth made it larger than it ever was before the interval.
    Record,
    /// It is as large as at its peak.
    AtPeak,
    /// It was as large before the interval.
    ReachedBefore,
    /// It is slightly below its peak, which may be older than the interval.
    BelowPeak,
    Unknown,
}

/// A process that grew over the interval.
struct GrowingProcess<'a> {
    change: ProcessChange<'a>,
    held: Bytes,
    added: i64,
    size: Size,
}

impl<'a> GrowingProcess<'a> {
    fn new(change: &ProcessChange<'a>) -> Option<Self> {
        let added = change.growth().filter(|&added| added >= NOISE)?;
        let held = change.end.anonymous()?;
        Some(Self { change: *change, held, added, size: compare_with_peak(change, added) })
    }
}

/// Compares the size of a process with its peak before the interval; if that is not known, with its
/// peak at the end. Pages that were swapped out during the interval count as resident.
fn compare_with_peak(change: &ProcessChange<'_>, added: i64) -> Size {
    let size = || {
        let swapped = change.swap_growth()?.max(0).unsigned_abs();
        Some(change.end.resident()?.saturating_add(Bytes::new(swapped)).get() as f64)
    };
    let Some(now) = size() else { return Size::Unknown };
    let added = added as f64;
    match (change.start.peak.get(), change.end.peak.get()) {
        (Some(before), _) if now - before.get() as f64 >= added / 2.0 => Size::Record,
        (Some(_), _) => Size::ReachedBefore,
        (None, Some(peak))
            if peak.get() as f64 - now <= (added * AT_PEAK).max(now * AT_PEAK_OF_SIZE) =>
        {
            Size::AtPeak
        }
        (None, Some(peak)) if peak.get() as f64 - now >= added / 2.0 => Size::ReachedBefore,
        (None, Some(_)) => Size::BelowPeak,
        (None, None) => Size::Unknown,
    }
}

/// A group whose anonymous memory grew over the interval.
struct GrowingGroup<'a> {
    pair: GroupPair<'a>,
    held: Bytes,
    added: i64,
    seconds: f64,
}

impl<'a> GrowingGroup<'a> {
    fn new(pair: &GroupPair<'a>) -> Option<Self> {
        let added = pair.growth().filter(|&added| added >= NOISE)?;
        let held = groups::anonymous_memory(pair.now)?;
        Some(Self { pair: *pair, held, added, seconds: pair.seconds? })
    }

    /// Compares the usage of the group with its peak. Both include page cache.
    fn compare_with_peak(&self) -> Size {
        let group = self.pair.now;
        let below = || Some(group.peak.get()?.saturating_sub(group.current.get()?));
        match below() {
            Some(below) if below.get() as f64 <= self.added as f64 * AT_PEAK => Size::AtPeak,
            Some(below)
                if below.get() >= self.added.unsigned_abs()
                    && pages_reclaimed(group) == Some(0) =>
            {
                Size::ReachedBefore
            }
            Some(_) | None => Size::Unknown,
        }
    }
}

/// Number of pages that the kernel reclaimed from a group since it was created.
fn pages_reclaimed(group: &Cgroup) -> Option<u64> {
    group.stat.get("pgsteal").get()
}

fn growth_of_process<'a>(
    host: &'a Snapshot,
    growing: &GrowingProcess<'a>,
    of_host: Option<Bytes>,
) -> Option<Growth<'a>> {
    let process = growing.change.end;
    let own = process.cgroup.value();
    let is_reclaimed = || {
        let group = host.cgroups.groups.iter().find(|group| own == Some(&group.path));
        group.and_then(pages_reclaimed).is_some_and(|pages| pages > 0)
    };
    let size = match growing.size {
        Size::ReachedBefore if is_reclaimed() => Size::Unknown,
        size => size,
    };
    let growth = AddedMemory {
        grower: Grower::Process(process),
        held: growing.held,
        added: growing.added,
        seconds: growing.change.seconds,
        size,
    };
    let own = own.map(pagewise_model::Name::as_str);
    growth.foresee(host, own, || Some(host.age(process)?.get()), of_host)
}

fn growth_of_group<'a>(
    host: &'a Snapshot,
    growing: &GrowingGroup<'a>,
    of_host: Option<Bytes>,
) -> Option<Growth<'a>> {
    let group = growing.pair.now;
    let growth = AddedMemory {
        grower: Grower::Group(group),
        held: growing.held,
        added: growing.added,
        seconds: growing.seconds,
        size: growing.compare_with_peak(),
    };
    let oldest = || {
        let processes = host
            .processes
            .list
            .iter()
            .filter(|process| groups::contains_process(&group.path, process));
        processes.filter_map(|process| host.age(process)).map(pagewise_model::Millis::get).max()
    };
    growth.foresee(host, Some(group.path.as_str()), oldest, of_host)
}

/// The growth of a process or group over the interval, before limits are considered.
struct AddedMemory<'a> {
    grower: Grower<'a>,
    held: Bytes,
    added: i64,
    seconds: f64,
    size: Size,
}

impl<'a> AddedMemory<'a> {
    /// Finds the limit that this growth reaches first: that of the cgroup `own`, of one of its
    /// ancestors, or of the host. Returns the growth with that limit and the time until it is
    /// reached; `None` if no limit is expected to be reached within the hour.
    fn foresee(
        self,
        host: &'a Snapshot,
        own: Option<&str>,
        age_millis: impl FnOnce() -> Option<u64>,
        of_host: Option<Bytes>,
    ) -> Option<Growth<'a>> {
        let Self { grower, held, added, seconds, size } = self;
        let per_second = added as f64 / seconds;
        let (left, into) = nearest_limit(host, own, of_host)?;
        let lasts_seconds = left.get() as f64 / per_second;
        if lasts_seconds > FORESEEN_SECONDS || size == Size::ReachedBefore {
            return None;
        }
        let age_seconds = age_millis()? as f64 / 1000.0;
        let filled = held.get() as f64 / (held.get() as f64 + left.get() as f64);
        let times_average = per_second / (held.get() as f64 / age_seconds.max(1.0));
        let forecast = forecast(size, times_average, filled, age_seconds)?;
        let forecast = if added < MEASURABLE { Forecast::Tentative } else { forecast };
        Some(Growth {
            grower,
            held,
            per_second,
            added: Bytes::new(added.unsigned_abs()),
            seconds,
            age_seconds,
            lasts_seconds,
            forecast,
            is_steady: STEADY.contains(&times_average),
            into,
        })
    }
}

/// Decides how reliable a forecast is; `None` if no forecast should be made. `filled` is the share
/// of the available memory that the process already holds.
fn forecast(size: Size, times_average: f64, filled: f64, age_seconds: f64) -> Option<Forecast> {
    let is_steady = STEADY.contains(&times_average);
    let fastest = match size {
        Size::Record => f64::INFINITY,
        Size::AtPeak => TIMES_AVERAGE,
        Size::BelowPeak | Size::Unknown => STEADY.end,
        Size::ReachedBefore => 0.0,
    };
    let sustained = if !is_steady {
        UNSTEADY_SHARE
    } else if age_seconds < YOUNG_SECONDS {
        YOUNG_SHARE
    } else {
        SUSTAINED_SHARE
    };
    let mentioned = if is_steady { STEADY_SHARE } else { TENTATIVE_SHARE };
    if times_average >= fastest || filled < mentioned {
        return None;
    }
    let is_sustained = filled >= sustained && size != Size::BelowPeak;
    Some(if is_sustained { Forecast::Sustained } else { Forecast::Tentative })
}

/// Returns how much memory is left below the nearest limit for a process in the group `own`, and
/// which limit that is.
fn nearest_limit<'a>(
    host: &'a Snapshot,
    own: Option<&str>,
    of_host: Option<Bytes>,
) -> Option<(Bytes, GrowthLimit<'a>)> {
    let is_around =
        |group: &&Cgroup| own.is_some_and(|own| groups::is_in(own, group.path.as_str()));
    let limits = host.cgroups.groups.iter().filter(is_around).flat_map(|group| {
        [&group.max, &group.high].into_iter().filter_map(move |reading| {
            let size = reading.get()?.bytes()?;
            let held = groups::unreclaimable_memory(group)?;
            let swap = groups::swap_room(host, group).unwrap_or(Bytes::new(0));
            let left = size.saturating_sub(held).saturating_add(swap);
            Some((left, GrowthLimit::Group(GroupLimit { group, size, reading })))
        })
    });
    let of_host = of_host.map(|left| (left, GrowthLimit::Host));
    limits.chain(of_host).min_by_key(|(left, _)| *left)
}
