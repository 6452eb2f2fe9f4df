// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Estimates from the numbers in a log what single changes would have done about a kill.
//!
//! Each change gives *room*: bytes that could have been used before the kernel had to kill. Whether
//! the room is enough depends on how much more memory the processes would have taken, which one
//! report shows only in part. There are two sources for it in a log:
//!
//! - A process that maps its memory first and then fills it (a heap of a fixed size, a file that is
//!   read into memory) has mapped more than it uses: in the report's list, `total_vm` is larger
//!   than `rss`. If the difference fits into the room, the kill is avoided, on the condition that
//!   the process takes no more.
//! - Two reports of the same boot show how fast a process grew. The kill is delayed by the room
//!   divided by this rate.
//!
//! A process that has used nearly all that it mapped, and is in one report only, may or may not be
//! a leak: nothing can be said, and the sentence says which number is missing.

use pagewise_model::{
    Bytes, KernelLog, Limit, OomConstraint, OomExplanation, OomKill, OomTask, WhatIf, WhatIfEffect,
    WhatIfKind,
};

use super::limit_of_kill::limit;
use super::reason;
use super::words::format_age;
use crate::text::rate;

/// In a single report, mapped and unused memory says nothing if it is less than this share of the
/// used memory, in percent: every program maps more of itself and its libraries than it reads. (A
/// leaking program of 40 MB had 35 % unused memory at a limit of 64 MiB; a lower threshold would
/// have taken that for a heap to be filled.)
const MAPPED_PERCENT: u64 = 50;
/// Mapped and unused memory of less than this says nothing either.
const LEAST_MAPPED: Bytes = Bytes::new(32 << 20);
/// If a process has mapped more than this many times what it uses, the mapping is only a
/// reservation, as by Go or a browser, and not memory that the program is about to use.
const RESERVED: u64 = 4;
/// Growth is computed from the last report that is at least this many seconds older, or from the
/// oldest report if none is. Over only a second or two, a program grows in steps.
const APART: f64 = 10.0;
/// Growth between two reports of less than this many bytes is ignored.
const LEAST_GROWTH: u64 = 1 << 20;

/// Adds to each explanation what single changes would have done. The explanations are in order,
/// newest first.
pub fn add_what_if(log: &KernelLog, explained: &mut [OomExplanation]) {
    for (at, explanation) in (0..log.kills.len()).rev().zip(explained) {
        explanation.what_if = estimate_changes(log, at);
    }
}

/// Returns what single changes would have done about this kill, the most effective change first.
pub(super) fn estimate_changes(log: &KernelLog, at: usize) -> Vec<WhatIf> {
    let Some(kill) = log.kills.get(at) else { return Vec::new() };
    if let Some(cured) = changes_without_room(kill) {
        return cured;
    }
    let earlier = earlier_of_boot(log.kills.get(..at).unwrap_or_default(), kill);
    let demand = Demand::from_kills(kill, &earlier);
    let mut all = match kill.constraint {
        Some(OomConstraint::Cgroup) => estimate_for_group(kill, &demand),
        Some(OomConstraint::Host) => estimate_for_host(kill, &demand),
        Some(OomConstraint::Cpuset | OomConstraint::Policy) | None => Vec::new(),
    };
    all.extend(estimate_without_grower(kill, &demand));
    all.extend(estimate_without_shmem(kill, &demand));
    if all.is_empty() {
        let because = "the log has no report with the sizes of memory";
        all.push(Change::new_other("any change").with_effect(WhatIfEffect::NotKnown, because));
    }
    all.sort_by_key(|one| rank(one.effect));
    all
}

fn rank(effect: WhatIfEffect) -> u8 {
    match effect {
        WhatIfEffect::Avoided => 0,
        WhatIfEffect::Delayed => 1,
        WhatIfEffect::NotKnown => 2,
        WhatIfEffect::None => 3,
    }
}

/// A change, described in words and as a number.
struct Change {
    text: String,
    kind: WhatIfKind,
    size: Option<Bytes>,
}

impl Change {
    fn new(text: String, kind: WhatIfKind, size: Bytes) -> Self {
        Self { text, kind, size: Some(size) }
    }

    /// Creates a change that is not a size.
    fn new_other(text: &str) -> Self {
        Self { text: text.to_owned(), kind: WhatIfKind::Other, size: None }
    }

    fn with_effect(self, effect: WhatIfEffect, because: &str) -> WhatIf {
        let Self { text: change, kind, size } = self;
        WhatIf { change, kind, size, effect, seconds_later: None, because: because.to_owned() }
    }

    fn with_delay(self, seconds: f64, because: &str) -> WhatIf {
        WhatIf { seconds_later: Some(seconds), ..self.with_effect(WhatIfEffect::Delayed, because) }
    }
}

/// Returns the changes for a kill that has another cause than too little memory: which of them
/// remove the cause, and which do not. `None` if memory was the cause.
fn changes_without_room(kill: &OomKill) -> Option<Vec<WhatIf>> {
    let cured = |text: &str, because: &str| {
        Change::new_other(text).with_effect(WhatIfEffect::Avoided, because)
    };
    let swap =
        |because: &str| Change::new_other("more swap").with_effect(WhatIfEffect::None, because);
    if reason::is_by_hand(kill) {
        return Some(vec![
            cured(
                "nobody asking for it (SysRq f)",
                "the kernel kills at once when it is asked to, however much is free",
            ),
            swap("the kernel was asked to kill"),
        ]);
    }
    if reason::is_by_min_ttl(kill) {
        return Some(vec![cured(
            &format!("0 in {}", reason::MIN_TTL),
            "kswapd kills for no other reason; it would have evicted pages that were used a short time ago, and \
             whether that had been enough is not in the log",
        )]);
    }
    if kill.panic.as_ref().is_some_and(|panic| panic.as_str().contains("panic_on_oom")) {
        return Some(vec![cured(
            "vm.panic_on_oom=0",
            "the panic, not the shortage: the kernel would have killed a process and gone on",
        )]);
    }
    if kill.victim.is_none() && kill.tasks.iter().any(|task| task.oom_score_adj == -1000) {
        return Some(vec![cured(
            "a process that may be killed (oom_score_adj above -1000)",
            "nothing could be killed, because every large process of the report was exempt",
        )]);
    }
    let zone = reason::lacking_zone(kill).map(str::to_owned);
    let low = reason::unusable_high_memory(kill);
    let zone = zone.or_else(|| low.map(|_| "Normal".to_owned()))?;
    let cma: Bytes = kill.zones.iter().filter_map(|zone| zone.free_cma).sum();
    let mut all = Vec::new();
    if cma.get() > 0 {
        all.push(cured(
            "a smaller area for movable pages only (CMA)",
            &format!("{cma} were free in it that this request could not use"),
        ));
    }
    if low.is_some() || kill.zones.iter().any(|zone| zone.name.as_str() == "HighMem") {
        all.push(cured(
            "a 64-bit kernel",
            "it has no HighMem: what was free there could then have been used",
        ));
    }
    all.push(swap(&format!("zone {zone} was short of memory that cannot be swapped")));
    Some(all)
}

/// Whether the kill has another cause than too little memory.
pub(super) fn has_other_cause(kill: &OomKill) -> bool {
    changes_without_room(kill).is_some()
}

/// Returns the memory of the process that grew and, if the log shows it, how much more it may take.
pub(super) fn find_grower(log: &KernelLog, at: usize) -> Option<(Bytes, Option<Bytes>)> {
    let kill = log.kills.get(at)?;
    let earlier = earlier_of_boot(log.kills.get(..at).unwrap_or_default(), kill);
    let demand = Demand::from_kills(kill, &earlier);
    Some((demand.grower?.1, demand.mapped))
}

/// Returns the earlier kills of the same boot of the same machine, oldest first. If times are
/// missing, there are none, because the order of a text alone proves nothing.
fn earlier_of_boot<'a>(kills: &'a [OomKill], kill: &OomKill) -> Vec<&'a OomKill> {
    let mut next = kill.boot_seconds;
    let same = kills.iter().rev().take_while(|earlier| {
        let is_same = earlier.machine == kill.machine
            && earlier.earlier_boot == kill.earlier_boot
            && earlier.boot_seconds > 0.0
            && earlier.boot_seconds <= next;
        next = earlier.boot_seconds;
        is_same
    });
    let mut same: Vec<&OomKill> = same.collect();
    same.reverse();
    same
}

/// How much more memory the processes would have taken, as far as the log shows this.
#[derive(Debug, Default)]
struct Demand {
    /// Name and memory of the process that grew, or of the largest process.
    grower: Option<(String, Bytes)>,
    /// Memory that the large processes had mapped and not used yet; `None` if it says nothing.
    mapped: Option<Bytes>,
    /// Growth of the process in `grower`, in bytes per second, and the text that explains where it
    /// comes from.
    growth: Option<(f64, String)>,
    /// Growth, in bytes per second, of the other processes that both reports list.
    others: Option<f64>,
}

impl Demand {
    fn from_kills(kill: &OomKill, earlier: &[&OomKill]) -> Self {
        let is_apart = |before: &&&OomKill| kill.boot_seconds - before.boot_seconds >= APART;
        let apart = earlier.iter().rev().filter(is_apart);
        let near = earlier.iter().filter(|before| !is_apart(before));
        let grown = apart.chain(near).find_map(|before| Grown::growth_between(before, kill));
        let restarted = || measure_restarts(kill, earlier);
        let victim = kill.victim.as_ref();
        let of_victim = kill.tasks.iter().find(|task| victim.is_some_and(|it| it.pid == task.pid));
        let largest = of_victim.or_else(|| kill.tasks.iter().max_by_key(|task| task.size()));
        let grower = match (&grown, largest) {
            (Some(grown), _) => Some(grown.task),
            (None, largest) => largest,
        };
        let of_victim = victim.and_then(|it| Some((it.name.to_string(), it.resident()?)));
        let named = |task: &OomTask| (format!("{} (pid {})", task.name, task.pid), task.size());
        Self {
            grower: grower.map(named).or(of_victim),
            mapped: match grown.as_ref().map(|grown| grown.maps) {
                // a process that maps more memory while it grows has no known final size
                Some(Some(true)) => None,
                // a process that grows without mapping more fills what it has mapped, however
                // little that is
                Some(Some(false)) => unused_memory(kill).map(|(unused, _)| unused),
                Some(None) | None => telling_unused_memory(kill),
            },
            others: grown.as_ref().map(|grown| grown.others),
            growth: grown.map(|grown| (grown.rate, grown.shown_by)).or_else(restarted),
        }
    }

    /// Estimates what this much more room would have done.
    fn estimate_effect(&self, change: Change, room: Bytes) -> WhatIf {
        let name = self.grower.as_ref().map_or("the process", |(name, _)| name.as_str());
        if room.get() == 0 {
            return change.with_effect(WhatIfEffect::None, "it would have given no room");
        }
        if let Some(mapped) = self.mapped.filter(|mapped| add_slack(*mapped) <= room) {
            return change.with_effect(
                WhatIfEffect::Avoided,
                &format!(
                    "if {name} took no more than was mapped: {mapped} were mapped and not used yet, and there would \
                     have been room for {room} more"
                ),
            );
        }
        if let Some((growth, shown_by)) = &self.growth {
            #[expect(clippy::cast_precision_loss, reason = "a size in bytes, for a time in words")]
            let later = room.get() as f64 / growth;
            return change.with_delay(
                later,
                &format!(
                    "by about {}: room for {room} more, and {name} grew by {} {shown_by}",
                    format_age(later),
                    rate(*growth)
                ),
            );
        }
        match self.mapped {
            Some(mapped) => change.with_effect(
                WhatIfEffect::NotKnown,
                &format!(
                    "room for {room} more; {mapped} were mapped and not used yet, and the log does not show how much \
                     of that {name} needed"
                ),
            ),
            None => change.with_effect(
                WhatIfEffect::NotKnown,
                &format!(
                    "room for {room} more; one report does not show whether {name} would have stopped there or how \
                     fast it grew"
                ),
            ),
        }
    }
}

/// Returns how much memory the large processes had mapped and not used, and how much they used;
/// `None` if the kernel did not print it.
fn unused_memory(kill: &OomKill) -> Option<(Bytes, Bytes)> {
    let used: Bytes = kill.tasks.iter().map(OomTask::size).sum();
    let is_large = |task: &&OomTask| task.size().get() >= used.get() / 20;
    let mut sum = Bytes::default();
    for task in kill.tasks.iter().filter(is_large) {
        sum = sum.saturating_add(task.unused_memory()?);
    }
    Some((sum, used))
}

/// Returns how much memory the large processes had mapped and not used, if a single report is
/// sufficient to say so.
fn telling_unused_memory(kill: &OomKill) -> Option<Bytes> {
    let (sum, used) = unused_memory(kill)?;
    let says_something = sum >= LEAST_MAPPED
        && sum.get() >= used.get() / 100 * MAPPED_PERCENT
        && sum.get() <= used.get().saturating_mul(RESERVED);
    says_something.then_some(sum)
}

/// The growth of a process between two reports of the same boot.
struct Grown<'a> {
    task: &'a OomTask,
    rate: f64,
    others: f64,
    /// Whether the process mapped more memory in between; otherwise it only used more of what it
    /// had mapped.
    maps: Option<bool>,
    shown_by: String,
}

impl<'a> Grown<'a> {
    /// Computes the growth between two reports. `None` if no process in both reports grew, or if
    /// their times are the same.
    fn growth_between(before: &OomKill, kill: &'a OomKill) -> Option<Self> {
        let seconds = kill.boot_seconds - before.boot_seconds;
        if seconds < 1.0 {
            return None;
        }
        let same = |task: &OomTask| {
            let mut tasks = before.tasks.iter();
            tasks.find(|other| other.pid == task.pid && other.name == task.name)
        };
        let then = |task: &OomTask| same(task).map(OomTask::size);
        let grew = |task: &OomTask| {
            #[expect(clippy::cast_precision_loss, reason = "sizes in bytes, for a rate")]
            let grew = task.size().get() as f64 - then(task)?.get() as f64;
            Some(grew)
        };
        let largest = kill.tasks.iter().filter_map(|task| Some((task, grew(task)?)));
        let (task, most) = largest.max_by(|one, other| one.1.total_cmp(&other.1))?;
        #[expect(clippy::cast_precision_loss, reason = "1 MiB")]
        let least = LEAST_GROWTH as f64;
        if most < least {
            return None;
        }
        let mapped = |task: &OomTask| task.total_vm?.get().checked_sub(same(task)?.total_vm?.get());
        let others = kill.tasks.iter().filter(|other| other.pid != task.pid).filter_map(grew);
        Some(Self {
            task,
            rate: most / seconds,
            others: others.sum::<f64>() / seconds,
            maps: mapped(task).map(|mapped| mapped >= LEAST_GROWTH),
            shown_by: format!("between the report of {} earlier and this one", format_age(seconds)),
        })
    }
}

/// Computes how fast a program that is started again after each kill fills its limit: from the time
/// between the kills of two of its processes. This time includes the restart.
fn measure_restarts(kill: &OomKill, earlier: &[&OomKill]) -> Option<(f64, String)> {
    let victim = kill.victim.as_ref()?;
    let before = earlier.iter().rev().find(|before| {
        let same = before
            .victim
            .as_ref()
            .is_some_and(|other| other.name == victim.name && other.pid != victim.pid);
        same && before.victim_group == kill.victim_group && before.group == kill.group
    })?;
    let seconds = kill.boot_seconds - before.boot_seconds;
    if seconds < 1.0 {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "a size in bytes, for a rate")]
    let rate = victim.resident()?.get() as f64 / seconds;
    let shown_by =
        format!("since the kill of the {} before it, {} earlier", victim.name, format_age(seconds));
    (rate > 0.0).then_some((rate, shown_by))
}

/// Estimates a higher limit, and swap, for a group that reached its limit.
fn estimate_for_group(kill: &OomKill, demand: &Demand) -> Vec<WhatIf> {
    let mut all = Vec::new();
    let name = kill.group.as_ref().map_or("the group".to_owned(), ToString::to_string);
    let Some(memory) = &kill.group_memory else { return all };
    let Some(now) = limit(kill) else { return all };
    let more = demand.mapped.map_or(Bytes::new(now.get() / 2), add_slack);
    let raised = round_up(now.saturating_add(more));
    let change = format!("a limit of {raised} for {name}");
    let change = Change::new(change, WhatIfKind::Limit, raised);
    all.push(demand.estimate_effect(change, raised.saturating_sub(now)));
    let pinned = memory.unevictable.unwrap_or_default();
    let Some(anon) = memory.anon else { return all };
    // the kernel counts a group's shmem as page cache and not as anon; memory that is taken in
    // addition can be swapped, too
    let swappable = anon.saturating_add(memory.shmem.unwrap_or_default()).saturating_sub(pinned);
    let swappable = swappable.saturating_add(more);
    let (change, size, most) = match (memory.swap, memory.memory_and_swap) {
        (Some(swap), _) => match swap.limit {
            Limit::Bytes(limit) if swap.usage >= limit => {
                let more = round_up(limit.saturating_add(more));
                (format!("memory.swap.max of {more} for {name}"), more, more.saturating_sub(limit))
            }
            _ => return all,
        },
        (None, Some(both)) => {
            let Some(limit) = both.limit.bytes().filter(|limit| both.usage >= *limit) else {
                return all;
            };
            let more = round_up(limit.saturating_add(more));
            let change = format!("a limit of memory and swap together of {more} for {name}");
            (change, more.saturating_sub(now), more.saturating_sub(limit))
        }
        (None, None) => return all,
    };
    let change = Change::new(change, WhatIfKind::GroupSwap, size);
    let mut with_swap = demand.estimate_effect(change, most.min(swappable));
    with_swap
        .because
        .push_str("; only if the machine had swap free, which such a report does not show");
    all.push(with_swap);
    all
}

/// Estimates swap, and more memory, for a machine that ran out of memory.
fn estimate_for_host(kill: &OomKill, demand: &Demand) -> Vec<WhatIf> {
    let mut all = Vec::new();
    let Some(host) = &kill.host else { return all };
    let Some(total) = host.total.filter(|total| total.get() > 0) else { return all };
    let more = demand.mapped.map_or(Bytes::new(total.get() / 4), add_slack);
    let swappable = [host.anon, host.shmem].into_iter().flatten().sum::<Bytes>();
    // memory that is taken in addition can be swapped, too
    let swappable = swappable.saturating_sub(host.unevictable.unwrap_or_default());
    let swappable = swappable.saturating_add(more);
    let is_contiguous = kill.invoker.as_ref().is_some_and(|invoker| invoker.order > 0);
    match host.swap_total.zip(host.swap_free) {
        _ if is_contiguous => all.push(Change::new_other("more swap").with_effect(
            WhatIfEffect::NotKnown,
            "the request needed contiguous pages, which swap does not make",
        )),
        Some((swap, free)) if free.get() <= swap.get() / 20 => {
            let size = round_up(swap.saturating_add(more));
            let change = match swap.get() {
                0 => format!("swap of {size} on a disk"),
                _ => format!("swap of {size} on a disk instead of {swap}"),
            };
            let change = Change::new(change, WhatIfKind::Swap, size);
            all.push(demand.estimate_effect(change, size.saturating_sub(swap).min(swappable)));
            all.extend(estimate_compression(host.swap_total, more, swappable));
        }
        Some((_, free)) => all.push(Change::new_other("more swap").with_effect(
            WhatIfEffect::None,
            &format!("{free} of swap were free and were not used"),
        )),
        None => {}
    }
    let larger = round_up(total.saturating_add(more));
    let change = format!("a machine with {larger} of memory instead of {total}");
    let change = Change::new(change, WhatIfKind::Memory, larger);
    all.push(demand.estimate_effect(change, larger.saturating_sub(total)));
    all
}

/// Says which compression ratio would have been needed. The log does not show how well the data
/// compresses.
fn estimate_compression(swap: Option<Bytes>, need: Bytes, swappable: Bytes) -> Option<WhatIf> {
    swap.filter(|swap| swap.get() == 0)?;
    let size = round_up(Bytes::new(need.get().saturating_mul(2))).min(swappable);
    let pool = size.saturating_sub(need);
    if pool.get() == 0 {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "sizes in bytes, for a ratio of three digits")]
    let ratio = size.get() as f64 / pool.get() as f64;
    let change = Change::new(format!("zram of {size}"), WhatIfKind::Zram, size);
    Some(change.with_effect(
        WhatIfEffect::NotKnown,
        &format!(
            "room for {need} more only if the data compresses {ratio:.1} : 1 or better, which a log does not show \
             (pagewise bench measures it on the machine)"
        ),
    ))
}

/// Estimates when the other processes would have filled the memory without the process that grew.
fn estimate_without_grower(kill: &OomKill, demand: &Demand) -> Option<WhatIf> {
    let (name, size) = demand.grower.as_ref()?;
    let change = format!("without {name}, which held {size}");
    let change = Change::new(change, WhatIfKind::WithoutProcess, *size);
    let others =
        match demand.others {
            // growth of less than a page per second is ignored
            Some(others) if others > 4096.0 => others,
            Some(_) => {
                return Some(change.with_effect(
                    WhatIfEffect::Avoided,
                    "the other processes that both reports list did not grow",
                ));
            }
            None if kill.tasks.len() <= 1 && kill.tasks_left_out == 0 && !kill.tasks.is_empty() => {
                return Some(change.with_effect(
                    WhatIfEffect::Avoided,
                    "no other process is in the report's table",
                ));
            }
            None => {
                return Some(change.with_effect(
                    WhatIfEffect::NotKnown,
                    "one report does not show how fast the others grew",
                ));
            }
        };
    #[expect(clippy::cast_precision_loss, reason = "a size in bytes, for a time in words")]
    let later = size.get() as f64 / others;
    let because = format!(
        "by about {}: the others that both reports list grew by {} together",
        format_age(later),
        rate(others)
    );
    Some(change.with_delay(later, &because))
}

/// Estimates the effect of having no shared memory, if shared memory is at least a fifth of what
/// ran out.
fn estimate_without_shmem(kill: &OomKill, demand: &Demand) -> Option<WhatIf> {
    let of_group = kill.constraint == Some(OomConstraint::Cgroup);
    let (shmem, whole) = if of_group {
        (kill.group_memory.as_ref()?.shmem?, limit(kill)?)
    } else {
        let host = kill.host.as_ref()?;
        (host.shmem?, host.total?)
    };
    let change = format!("without the {shmem} of shared memory (tmpfs, /dev/shm, SysV)");
    let change = Change::new(change, WhatIfKind::WithoutShmem, shmem);
    (shmem.get() >= whole.get() / 5).then(|| demand.estimate_effect(change, shmem))
}

/// Adds an eighth: page tables grow, too, and the kernel kills before the last page of RAM and swap
/// is used. (With only 3 % more than was taken, three of four machines that were reproduced in a
/// guest still killed.)
fn add_slack(size: Bytes) -> Bytes {
    size.saturating_add(Bytes::new(size.get() / 8))
}

/// Rounds a size up to what somebody would set: whole 16 MiB; from 1 GiB on, whole 256 MiB; from 8
/// GiB on, whole GiB.
fn round_up(size: Bytes) -> Bytes {
    let step: u64 = match size.get() >> 30 {
        0 => 16 << 20,
        1..8 => 256 << 20,
        _ => 1 << 30,
    };
    size.get().checked_next_multiple_of(step).map_or(size, Bytes::new)
}
