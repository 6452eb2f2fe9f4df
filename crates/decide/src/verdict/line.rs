// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The verdict as text: the worst problem with its number, then the group that causes it.

use pagewise_facts::protection::{self, Protected};
use pagewise_facts::room::Headroom;
use pagewise_facts::tiers;
use pagewise_model::{
    Bytes, Cgroup, GroupVerdict, Interval, Level, Limit, Name, OomConstraint, OomKill, Psi,
    Snapshot, group_digits,
};

use super::group::{GroupTrouble, Trouble};
use super::host::{Cause, Signal};
use crate::grade::spared::has_memory_to_spare;
use crate::oom;
use crate::text::{count_of, format_roughly, rate, shorten_name, swap_disk};

/// The time until memory is exhausted is reported if it is at most this many seconds at the present
/// rate.
const FORESEEN_SECONDS: f64 = 30.0 * 60.0;
/// If available memory decreases by less than this share of RAM per second, the decrease is noise.
const NOISE_PER_SECOND: f64 = 1.0 / 5_000.0;

/// The verdict as one to three sentences.
pub(super) fn describe_verdict(
    interval: &Interval,
    level: Level,
    signals: &[Signal<'_>],
    groups: &[GroupVerdict],
    filling: Option<&Name>,
) -> String {
    let host = &interval.end;
    let mut sentences = Vec::new();
    match signals.first() {
        Some(worst) => {
            sentences.push(describe_worst_of_host(host, worst, signals));
            let scarce = signals.iter().any(|signal| matches!(signal.cause, Cause::Available(_)));
            sentences.extend(describe_trend(interval).filter(|_| scarce));
        }
        None if level == Level::Unknown => {
            sentences.push("The state of memory on this host could not be read.".to_owned());
        }
        None => sentences.push(describe_calm(host, groups.is_empty())),
    }
    sentences.extend(describe_groups(host, groups, filling));
    sentences.join(" ")
}

fn describe_worst_of_host(host: &Snapshot, worst: &Signal<'_>, signals: &[Signal<'_>]) -> String {
    let state = match worst.level {
        Level::Critical => "critically short",
        Level::Short => "short",
        Level::Tight | Level::Calm | Level::Unknown => "tight",
    };
    let available = || describe_available(host);
    match &worst.cause {
        Cause::Available(room) => {
            let state = if worst.level == Level::Critical { "nearly exhausted" } else { state };
            let pressed = signals.iter().find_map(|signal| match &signal.cause {
                Cause::Pressure { some, span, ended, .. } => Some(format!(
                    "; programs waited for memory {} of the last {span}{}",
                    some.format_share_of_time(),
                    ended.map_or_else(String::new, |ended| format!(
                        ", until about {} ago",
                        oom::format_age(ended)
                    ))
                )),
                _ => None,
            });
            let pressed = pressed.unwrap_or_default();
            format!(
                "Memory is {state}: {}{}{pressed}.",
                available(),
                describe_free_swap(host, room)
            )
        }
        Cause::Pressure { some, full, span, ended } => {
            let full = full.filter(|full| full.get() >= 0.01);
            let full = full.map(|full| {
                format!(" (all programs at the same time: {})", full.format_share_of_time())
            });
            if let Some(ended) = ended {
                // the verdict's level is one lower than it was before the pressure ended
                let state = if worst.level >= Level::Short { "critically short" } else { "short" };
                return format!(
                    "Memory was {state} until about {} ago: programs waited for memory {} of the last {span}{}. \
                     Now {}.",
                    oom::format_age(*ended),
                    some.format_share_of_time(),
                    full.unwrap_or_default(),
                    available()
                );
            }
            if has_memory_to_spare(host) {
                return format!(
                    "Programs waited for memory {} of the last {span}{}, although {}{}.",
                    some.format_share_of_time(),
                    full.unwrap_or_default(),
                    available(),
                    possible_reason(host)
                );
            }
            format!(
                "Memory is {state}: programs waited for memory {} of the last {span}{}; {}.",
                some.format_share_of_time(),
                full.unwrap_or_default(),
                available()
            )
        }
        Cause::SwapDisk(disk) => {
            format!("Memory is {state}: programs wait for {}; {}.", swap_disk(disk), available())
        }
        Cause::Thrashing(thrashing) => format!(
            "Memory is {state}: {:.0} % of the data read from disk are pages that the kernel dropped a moment \
             before; {}.",
            thrashing.of_read.unwrap_or_default(),
            available()
        ),
        Cause::RecentKill(kill) => {
            let what = match kill.constraint {
                Some(OomConstraint::Cpuset | OomConstraint::Policy) => "Memory of some NUMA nodes",
                _ => "Memory",
            };
            format!("{what} ran out: {}; {}.", describe_kill(kill), available())
        }
        // Without the kernel log, the cause is unknown: a kill frees the memory that was lacking,
        // and a group may disappear together with its process.
        Cause::Kills(kills) if has_memory_to_spare(host) => format!(
            "The kernel killed {} for lack of memory in the last {:.0} seconds, either because the machine ran \
             out or because a cgroup was at its limit; {}.",
            describe_process_count(kills.delta),
            kills.seconds.max(1.0),
            available()
        ),
        Cause::Kills(kills) => format!(
            "Memory ran out: the kernel killed {} in the last {:.0} seconds; {}.",
            describe_process_count(kills.delta),
            kills.seconds.max(1.0),
            available()
        ),
        Cause::Growth(growth) => format!(
            "Memory is filling: {} grows by {}, and the memory that is still available ({}) lasts about {} at \
             that rate.",
            growth.grower.name(),
            rate(growth.per_second),
            available_size(host).unwrap_or_else(|| "an unknown amount".to_owned()),
            format_roughly(growth.lasts_seconds)
        ),
        Cause::CommitLimit { committed, limit } => format!(
            "Memory is {state}: programs have committed {} (the commit limit), and the kernel refuses \
             allocations beyond this limit.",
            committed.part_of(*limit)
        ),
        Cause::Swap(filled) => format!(
            "Memory is {state}: swap is {:.0} % full; {}.",
            filled.get().floor(),
            available()
        ),
    }
}

/// Returns a clause about why programs wait although much memory is available: a cgroup near its
/// limit, a protected cgroup, or the cgroup that waited the most. Empty if none of these is known.
fn possible_reason(host: &Snapshot) -> String {
    if host.cgroups.groups.is_empty() {
        return ": the limit of a cgroup may be the reason; pagewise report lists the cgroups"
            .to_owned();
    }
    if let Some((group, limit)) = nearest_limit(host) {
        return format!(": the limit of {} ({limit}) may be the reason", group.path);
    }
    if let Some(Protected { group, kind, held }) = protection::largest(host) {
        return format!(": {} keeps {held} of RAM by its {}", group.path, kind.file);
    }
    super::most_waiting(host).map_or_else(String::new, |(group, some)| {
        format!("; of the cgroups {} waited the most ({})", group.path, some.format_share_of_time())
    })
}

/// Returns the cgroup, among those that use at least nine tenths of their own limit, whose tasks
/// wait for memory the most; if PSI is not known, one whose tasks may wait.
fn nearest_limit(host: &Snapshot) -> Option<(&Cgroup, Bytes)> {
    let limit = |group: &Cgroup| {
        let limits = [group.max.get(), group.high.get()];
        limits.into_iter().flatten().filter_map(Limit::bytes).min()
    };
    let near = host.cgroups.groups.iter().filter_map(|group| {
        let limit = limit(group)?;
        let is_near = group.current.get()?.percent_of(limit)?.get() >= 90.0;
        let waited = group.pressure.some.avg60.get().map_or(100.0, pagewise_model::Percent::get);
        (is_near && waited > 0.0).then_some((group, limit, waited))
    });
    let most = near.max_by(|(_, _, one), (_, _, other)| one.total_cmp(other))?;
    Some((most.0, most.1))
}

fn describe_process_count(number: u64) -> String {
    match number {
        1 => "1 process".to_owned(),
        more => format!("{} processes", group_digits(more)),
    }
}

/// Returns a clause about available memory: `6.7 of 464.0 MiB are available`.
fn describe_available(host: &Snapshot) -> String {
    match available_size(host) {
        Some(size) => {
            let of_zfs = host.memory.zfs_cache.reclaimable().filter(|size| size.get() > 0);
            let and = of_zfs.map_or_else(String::new, |size| {
                format!(
                    " without the {size} that ZFS gives back from its cache when memory is short"
                )
            });
            format!("{size} are available{and}")
        }
        None => "the amount of available memory is unknown".to_owned(),
    }
}

/// Formats `MemAvailable` as a part of RAM.
fn available_size(host: &Snapshot) -> Option<String> {
    Some(host.memory.available.get()?.part_of(host.memory.total.get()?))
}

/// Returns a clause about free swap.
fn describe_free_swap(host: &Snapshot, room: &Headroom) -> String {
    if tiers::is_swap_off(host) {
        return " and there is no swap".to_owned();
    }
    match (room.swap_filled, room.swap) {
        (Some(filled), _) if filled.get() >= 50.0 => {
            format!(" and swap is {:.0} % full", filled.get().floor())
        }
        (_, Some(more)) if more > Bytes::new(0) => format!(", and swapping could free {more}"),
        _ => String::new(),
    }
}

/// Returns a sentence about when memory and swap will be exhausted, if they decrease at the rate of
/// the interval.
fn describe_trend(interval: &Interval) -> Option<String> {
    let seconds = interval.seconds()?;
    let left = |host: &Snapshot| {
        let swap = host.memory.swap_free.get().unwrap_or(Bytes::new(0));
        Some(host.memory.available.get()?.saturating_add(swap))
    };
    let now = left(&interval.end)?;
    let lost = left(interval.start.as_deref()?)?.get().checked_sub(now.get())?;
    let per_second = lost as f64 / seconds;
    let noise = interval.end.memory.total.get()?.get() as f64 * NOISE_PER_SECOND;
    let lasts = now.get() as f64 / per_second;
    if per_second < noise || lasts > FORESEEN_SECONDS {
        return None;
    }
    Some(format!(
        "At the present rate ({}), memory and swap are used up in about {}.",
        rate(per_second),
        format_roughly(lasts)
    ))
}

fn describe_calm(host: &Snapshot, and_groups: bool) -> String {
    let whose = if and_groups { "Memory is not short" } else { "The host is not short of memory" };
    match describe_waiting(&host.psi) {
        Some(waiting) if and_groups => {
            format!("{whose}: {}, and {waiting}.", describe_available(host))
        }
        _ => format!("{whose}: {}.", describe_available(host)),
    }
}

/// Returns a sentence about stalls on memory that are below every threshold; `None` if the stalls
/// are unknown.
fn describe_waiting(psi: &Psi) -> Option<String> {
    let some = psi.memory.some.avg60.get()?;
    if some.get() <= 0.0 {
        return Some("no task waited for memory in the last minute".to_owned());
    }
    let full = psi.memory.full.avg60.get().filter(|full| full.get() > 0.0);
    let full =
        full.map(|full| format!(" (all tasks at the same time: {})", full.format_share_of_time()));
    let full = full.unwrap_or_default();
    Some(format!(
        "tasks waited for memory {} of the last minute{full}",
        some.format_share_of_time()
    ))
}

/// Returns a sentence about the group that is shortest of memory, and the number of other such
/// groups.
///
/// `filling` is a group whose worst problem is that something inside it grows.
fn describe_groups(
    host: &Snapshot,
    groups: &[GroupVerdict],
    filling: Option<&Name>,
) -> Option<String> {
    let (worst, others) = groups.split_first()?;
    let more = match others.len() {
        0 => String::new(),
        more => format!(" (and {} more)", count_of(more as u64, "group")),
    };
    if oom::is_gone(host, &worst.group) {
        return Some(format!(
            "In {}, which no longer exists, {} because the group was at its own limit{more}.",
            worst.group, worst.line
        ));
    }
    if filling == Some(&worst.group) && worst.level < Level::Critical {
        return Some(format!("{} is filling: {}{more}.", worst.group, worst.line));
    }
    let state = match worst.level {
        Level::Critical => "critically short of memory",
        Level::Short => "short of memory",
        Level::Tight | Level::Calm | Level::Unknown => "nearly full",
    };
    Some(format!("{} is {state} because of its own limit: {}{more}.", worst.group, worst.line))
}

/// Names the killed process and the time of the kill, as a clause.
pub(super) fn describe_kill(kill: &OomKill) -> String {
    let when = match kill.seconds_ago {
        Some(seconds) if seconds < 1.0 => " just now".to_owned(),
        Some(seconds) => format!(" {} ago", oom::format_age(seconds)),
        None => String::new(),
    };
    let when = if kill.earlier_boot.is_some() { when + " (before this boot)" } else { when };
    match &kill.victim {
        Some(victim) => format!("the kernel killed {} (pid {}){when}", victim.name, victim.pid),
        None => format!("the kernel found no process to kill{when}"),
    }
}

/// Describes the worst problem of a group, as a clause.
pub(crate) fn describe_group(group: &GroupTrouble<'_>) -> String {
    match group.troubles.first().map(|(_, trouble)| trouble) {
        Some(Trouble::Kills(kills)) => format!(
            "the kernel killed {} in it in the last {:.0} seconds",
            describe_process_count(kills.delta),
            kills.seconds.max(1.0)
        ),
        Some(Trouble::Waits { some, full }) => {
            let full = full.filter(|full| full.get() >= 0.01);
            let full = full.map(|full| {
                format!(" (all tasks at the same time: {})", full.format_share_of_time())
            });
            format!(
                "its tasks waited for memory {} of the last minute{}",
                some.format_share_of_time(),
                full.unwrap_or_default()
            )
        }
        Some(Trouble::Rereads { refaults, .. }) => format!(
            "its tasks read back {} pages per second that the kernel had just dropped",
            group_digits(round_to_whole(refaults.per_second))
        ),
        Some(Trouble::Full { held, limit }) => {
            format!(
                "memory that the kernel cannot drop takes {} of the cgroup's limit, and swap has no room \
                 for it",
                held.part_of(*limit)
            )
        }
        Some(Trouble::Fills { who, per_second, lasts_seconds }) => format!(
            "{who} grows by {} and reaches the limit in about {}",
            rate(*per_second),
            format_roughly(*lasts_seconds)
        ),
        None => shorten_name(group.limited.path.as_str()),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and a rate is never negative"
)]
fn round_to_whole(number: f64) -> u64 {
    number.round() as u64
}
