// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explains reports of the OOM killer in sentences: what happened, and what would have prevented
//! it.
//!
//! If a cgroup's limit caused the kill, the explanation is about the cgroup and does not say that
//! the machine is short of memory. What the kernel did not print is left out or reported as
//! unknown. Values that were read now are marked as such, and are never presented as values at the
//! time of the kill.

pub(crate) mod change;
mod elsewhere;
mod hung;
mod limit_of_kill;
mod on_that_machine;
mod programs;
mod reason;
mod rebuild;
mod swap;
mod time_line;
mod what_if;
mod words;

use pagewise_model::{
    AllocationFailure, Bytes, Cgroup, Hierarchy, Interval, KernelLog, Limit, Name, OomConstraint,
    OomExplanation, OomFact, OomKill, OomTask, RecentKills, Snapshot,
};

use crate::text::{count, count_of};
pub use elsewhere::suggest_other_sources;
pub use hung::explain_hung;
use limit_of_kill::SHOWN;
pub(crate) use limit_of_kill::limit;
pub use programs::{explain_programs, explain_programs_of_text};
pub use rebuild::rebuild;
pub use time_line::time_line;
pub use what_if::add_what_if;
pub(crate) use words::format_age;
use words::{format_or_unknown, format_sizes, join_words};

/// The id of the rule that reports kills.
pub const RULE: &str = "oom-kills";

/// A kill counts as recent if it happened at most this many seconds ago.
pub(crate) const RECENT: f64 = 600.0;
/// Maximum number of tasks that an explanation mentions by name.
const TASKS: usize = 4;

/// Explains the most recent kills, newest first.
pub fn explain(interval: &Interval) -> Vec<OomExplanation> {
    let log = &interval.end.kernel_log;
    let kills = log.kills.iter().rev().take(SHOWN);
    kills.map(|kill| with_unit(log, kill, explain_kill(interval, kill))).collect()
}

/// Explains the most recent kills in a log from any machine, newest first. The log is the only
/// source: nothing is read from the machine.
pub fn explain_text(log: &KernelLog) -> Vec<OomExplanation> {
    let unknown = Snapshot::default();
    let kills = log.kills.iter().rev().take(SHOWN);
    let explained = kills.map(|kill| {
        let explained = OomExplanation {
            change: on_that_machine::advise_change(kill),
            ..explain_with(&unknown, None, kill)
        };
        with_unit(log, kill, explained)
    });
    explained.collect()
}

/// Adds to the explanation what systemd reported about the unit of the killed process.
fn with_unit(log: &KernelLog, kill: &OomKill, mut explained: OomExplanation) -> OomExplanation {
    if let Some(unit) = time_line::find_unit_of_kill(log, kill) {
        let text = if unit.is_result {
            format!("{} failed with result oom-kill for it ({})", unit.unit, unit.source)
        } else {
            format!("systemd reports the kill in {} ({})", unit.unit, unit.source)
        };
        explained.facts.push(OomFact { label: "its unit", text });
    }
    explained
}

/// Explains the most recent allocations that failed without a kill, newest first.
pub fn explain_failures(log: &KernelLog) -> Vec<OomExplanation> {
    log.failures.iter().rev().take(SHOWN).map(explain_failure).collect()
}

fn explain_failure(failure: &AllocationFailure) -> OomExplanation {
    let kill = OomKill {
        host: failure.host.clone(),
        boot_seconds: failure.boot_seconds,
        ..OomKill::default()
    };
    let request = reason::Request { gfp_mask: failure.gfp_mask.as_str(), order: failure.order };
    let facts = [
        ("when", Some(describe_time_after_boot(&kill))),
        (
            "asked for",
            Some(format!("{}, {}", describe_request_size(failure.order), failure.gfp_mask)),
        ),
        ("why", reason::describe_zones(request, &failure.zones)),
        ("memory was", describe_machine_memory(&kill)),
        ("harmful", Some(reason::describe_harm_of_failure(request).to_owned())),
    ];
    let facts = facts.into_iter().filter_map(|(label, text)| Some(OomFact { label, text: text? }));
    OomExplanation {
        source: failure.source.clone(),
        unix_seconds: None,
        stamp: failure.stamp.clone(),
        title: format!("an allocation of {} failed; no process was killed for it", failure.name),
        facts: facts.collect(),
        change: on_that_machine::advise_for_failure(request, &failure.zones),
        what_if: Vec::new(),
    }
}

/// Returns the OOM kills of the last ten minutes, or of the interval if that is longer.
pub fn recent_kills(interval: &Interval) -> RecentKills {
    let kills = interval.end.kernel_log.kills.iter();
    let recent = kills.filter(|kill| is_recent(interval, kill)).cloned();
    let (groups, host) = recent.partition(|kill| kill.constraint == Some(OomConstraint::Cgroup));
    RecentKills { host, groups }
}

/// Whether the kill is recent enough to affect the verdict.
pub(crate) fn is_recent(interval: &Interval, kill: &OomKill) -> bool {
    let since = interval.seconds().unwrap_or(0.0).max(RECENT);
    !reason::is_by_hand(kill) && kill.seconds_ago.is_some_and(|seconds| seconds <= since)
}

fn explain_kill(interval: &Interval, kill: &OomKill) -> OomExplanation {
    let host = &interval.end;
    let now = Some(host).filter(|_| kill.earlier_boot.is_none());
    OomExplanation { change: change::advise_change(host, kill), ..explain_with(host, now, kill) }
}

/// Explains a kill, without the changes that would have prevented it.
fn explain_with(host: &Snapshot, now: Option<&Snapshot>, kill: &OomKill) -> OomExplanation {
    let request = kill.invoker.as_ref().map(reason::Request::of_invoker);
    let of_zones = request.filter(|_| kill.constraint == Some(OomConstraint::Host));
    let why = reason::explain_kernel_thread(host, kill)
        .or_else(|| reason::explain_by_zones(of_zones?, &kill.zones))
        .or_else(|| reason::explain_by_low_memory(kill))
        .or_else(|| reason::explain_by_main_holder(kill));
    let machine = kill.machine.as_ref().map(ToString::to_string);
    let facts = [
        ("when", Some(describe_time(kill))),
        ("machine", machine),
        ("why", why),
        ("the group held", describe_held(kill)),
        ("memory was", describe_machine_memory(kill)),
        ("victim", describe_victim(kill)),
        ("who held it", name_largest_tasks(kill)),
        ("asked for by", describe_request(kill)),
        ("why no swap", Some(swap::explain_why_not(host, kill))),
        ("alive now", now.and_then(|host| name_running_tasks(host, kill))),
        ("since boot", now.and_then(|host| describe_count_since_boot(host, kill))),
    ];
    let facts = facts.into_iter().filter_map(|(label, text)| Some(OomFact { label, text: text? }));
    OomExplanation {
        title: title(kill),
        facts: facts.collect(),
        change: Vec::new(),
        what_if: Vec::new(),
        source: kill.source.clone(),
        unix_seconds: kill.unix_seconds,
        stamp: kill.stamp.clone(),
    }
}

/// Returns a title that says which process was killed, and because of which limit.
pub(crate) fn title(kill: &OomKill) -> String {
    if let Some(panic) = &kill.panic {
        return format!("the machine ran out of memory and the kernel panicked ({panic})");
    }
    let Some(victim) = &kill.victim else { return describe_no_victim(kill) };
    let others = match kill.others.len() as u64 {
        0 => String::new(),
        1 => " with 1 other process".to_owned(),
        others => format!(" with {} other processes", count(others)),
    };
    format!("{} (pid {}) was killed{others} {}", victim.name, victim.pid, cause(kill))
}

/// Returns a clause that says what ran out of memory: `by the limit of /a (64.0 MiB), not by the
/// machine`.
fn cause(kill: &OomKill) -> String {
    match kill.constraint {
        _ if kill.invoker.as_ref().is_some_and(|invoker| invoker.order == -1) => {
            "because somebody asked the kernel to kill a process (SysRq f)".to_owned()
        }
        Some(OomConstraint::Host) if reason::is_by_min_ttl(kill) => {
            "because multi-gen LRU kills rather than evict pages that were used within min_ttl_ms".to_owned()
        }
        Some(OomConstraint::Host) => match reason::lacking_zone(kill) {
            Some(zone) => format!("because zone {zone} ran out of memory; other memory of the machine was free"),
            None if reason::unusable_high_memory(kill).is_some() => {
                "because the low memory of a 32-bit kernel ran out; other memory of the machine was free".to_owned()
            }
            None => "because the whole machine ran out of memory".to_owned(),
        },
        Some(OomConstraint::Cpuset) => {
            "because the NUMA nodes allowed by the cpuset of the allocating task ran out of memory; other \
             nodes may have had free memory"
                .to_owned()
        }
        Some(OomConstraint::Policy) => {
            "because the NUMA nodes allowed by the memory policy of the allocating task ran out of memory; \
             other nodes may have had free memory"
                .to_owned()
        }
        Some(OomConstraint::Cgroup) => {
            let group = kill.group.as_ref().map_or("its cgroup".to_owned(), |group| format!("the cgroup {group}"));
            let limit = limit(kill).map_or_else(String::new, |limit| format!(" ({limit})"));
            format!("because {group} reached its memory limit{limit}, not because the machine was out of memory")
        }
        None => "for lack of memory; the kernel printed no report with the reason".to_owned(),
    }
}

fn describe_no_victim(kill: &OomKill) -> String {
    let place = match &kill.group {
        Some(group) => format!("{group} was at its memory limit"),
        None => "the machine was out of memory".to_owned(),
    };
    let limit = limit(kill).map_or_else(String::new, |limit| format!(" ({limit})"));
    let again = match kill.repeats {
        0 => String::new(),
        repeats => {
            let earlier = count_of(repeats, "earlier report");
            format!("; the kernel log contains {earlier} of the same kind")
        }
    };
    format!("{place}{limit} and no process could be killed{again}")
}

fn describe_time(kill: &OomKill) -> String {
    let since_boot = if kill.boot_seconds <= 0.0 {
        "the log has no time since boot".to_owned()
    } else {
        describe_time_after_boot(kill)
    };
    match kill.seconds_ago {
        Some(seconds) => format!("{} ago, {since_boot}", format_age(seconds)),
        None => since_boot,
    }
}

/// Returns the time of the kill since boot: `44 seconds after boot`. If the kill was in an earlier
/// boot, the text says so.
pub(crate) fn describe_time_after_boot(kill: &OomKill) -> String {
    let after = format_age(kill.boot_seconds);
    match kill.earlier_boot {
        Some(_) => format!("in an earlier boot, {after} after it began"),
        None => format!("{after} after boot"),
    }
}

/// Describes the memory of the group whose limit was reached.
fn describe_held(kill: &OomKill) -> Option<String> {
    let group = kill.group_memory.as_ref()?;
    let parts = [
        ("anon", group.anon),
        ("file", group.file),
        ("shmem", group.shmem),
        ("kernel", group.kernel),
    ];
    let mut lines = format_sizes(&parts);
    lines.extend(group.swap.map(|swap| match swap.limit {
        Limit::Bytes(limit) => format!("swap {} of {limit}", swap.usage),
        Limit::Max => format!("swap {} (no limit of its own)", swap.usage),
    }));
    if let (None, Some(swapped)) = (group.swap, group.swapped) {
        lines.push(format!("swap {swapped}"));
    }
    (!lines.is_empty()).then(|| lines.join(", "))
}

/// Describes the memory of the whole machine at the time of the kill.
fn describe_machine_memory(kill: &OomKill) -> Option<String> {
    let host = kill.host.as_ref()?;
    let slab = host.slab_reclaimable.zip(host.slab_unreclaimable);
    let parts = [
        ("anon", host.anon),
        ("file", host.file),
        ("shmem", host.shmem),
        ("slab", slab.map(|(one, other)| one.saturating_add(other))),
        ("page tables", host.page_tables),
        ("free", host.free),
    ];
    let mut lines = format_sizes(&parts);
    let other = host.other().filter(|other| other.get() > 0);
    lines.extend(other.map(|other| format!("other {other} (zram's pool, drivers and the like)")));
    let of = host.total.map_or_else(String::new, |total| format!(" of {total}"));
    let swap = match host.swap_total.zip(host.swap_free) {
        Some((total, _)) if total.get() == 0 => "; no swap".to_owned(),
        Some((total, free)) => format!("; swap {free} free of {total}"),
        None => String::new(),
    };
    (!lines.is_empty()).then(|| format!("{}{of}{swap}", lines.join(", ")))
}

/// Describes the memory of the victim, as a share of the limit or of the machine's memory.
fn describe_victim(kill: &OomKill) -> Option<String> {
    let victim = kill.victim.as_ref()?;
    let size = victim.resident()?;
    let parts =
        format_sizes(&[("anon", victim.anon), ("file", victim.file), ("shmem", victim.shmem)]);
    let whole = match kill.constraint {
        Some(OomConstraint::Cgroup) => limit(kill).map(|limit| (limit, "the limit")),
        _ => kill.host.as_ref().and_then(|host| Some((host.total?, "all memory"))),
    };
    let share = whole.and_then(|(whole, of)| {
        Some(format!(", {:.0} % of {of}", size.percent_of(whole)?.get().min(100.0)))
    });
    let score = victim.oom_score_adj.filter(|&adjustment| adjustment != 0);
    let score = score.map_or_else(String::new, |score| format!("; its oom_score_adj was {score}"));
    Some(format!("{size} ({}){}{score}", parts.join(", "), share.unwrap_or_default()))
}

/// Names the largest tasks in the report's list.
fn name_largest_tasks(kill: &OomKill) -> Option<String> {
    let shown = kill.tasks.iter().take(TASKS).map(task);
    let mut lines: Vec<String> = shown.collect();
    let rest = kill.tasks.get(TASKS..).unwrap_or_default();
    let number = rest.len() as u64 + kill.tasks_left_out;
    if number > 0 {
        let size: Bytes = rest.iter().map(OomTask::size).sum();
        let size = size.saturating_add(kill.left_out_rss);
        lines.push(format!("{} smaller processes: {size}", count(number)));
    }
    (!lines.is_empty()).then(|| lines.join(" · "))
}

fn task(task: &OomTask) -> String {
    let swapped = match task.swapped.get() {
        0 => String::new(),
        _ => format!(" and {} in swap", task.swapped),
    };
    let barred = if task.oom_score_adj == -1000 { ", never killed" } else { "" };
    format!("{} {}: {}{swapped}{barred}", task.name, task.pid, task.rss)
}

/// Describes the allocation that failed, if another task than the victim requested it, or if it was
/// for more than one page.
fn describe_request(kill: &OomKill) -> Option<String> {
    let invoker = kill.invoker.as_ref().filter(|invoker| invoker.order != -1)?;
    let same = kill.victim.as_ref().is_some_and(|victim| victim.name == invoker.name);
    let pages = describe_request_size(invoker.order);
    (!same || invoker.order > 0).then(|| format!("{}: {pages}, {}", invoker.name, invoker.gfp_mask))
}

/// Formats the size of an allocation: `one page`, `8 contiguous pages`.
fn describe_request_size(order: i64) -> String {
    match u32::try_from(order).ok().and_then(|order| 1u64.checked_shl(order)) {
        Some(1) | None => "one page".to_owned(),
        Some(pages) => format!("{} contiguous pages", count(pages)),
    }
}

/// Names the tasks in the report's list that still run, and says how their size changed.
fn name_running_tasks(host: &Snapshot, kill: &OomKill) -> Option<String> {
    let now = |task: &OomTask| {
        let mut processes = host.processes.list.iter();
        let same = processes.find(|it| it.pid == task.pid && it.name == task.name)?;
        let now = same.resident()?.saturating_add(same.swap.get().unwrap_or_default());
        Some(format!("{} {}: {now} (then {})", task.name, task.pid, task.size()))
    };
    let lines: Vec<String> = kill.tasks.iter().take(TASKS).filter_map(now).collect();
    (!lines.is_empty()).then(|| lines.join(" · "))
}

/// Says how many kills there were according to the kernel's counters.
fn describe_count_since_boot(host: &Snapshot, kill: &OomKill) -> Option<String> {
    let mut lines = Vec::new();
    if let (Some(memory), Some(_)) =
        (kill.group_memory.as_ref().and_then(|it| it.memory), &kill.group)
    {
        lines
            .push(format!("the cgroup had reached its limit {}", count_of(memory.reached, "time")));
    }
    let group = kill.group.as_ref().and_then(|path| find_group(host, path));
    let in_group = group.and_then(|group| group.events.oom_kill.get());
    lines.extend(in_group.map(|kills| format!("{} killed in it until now", count_killed(kills))));
    let all = host.vmstat.get("oom_kill").get();
    lines.extend(all.map(|kills| format!("{} killed on this machine", count_killed(kills))));
    (!lines.is_empty()).then(|| join_words(&lines))
}

fn count_killed(processes: u64) -> String {
    match processes {
        1 => "1 process was".to_owned(),
        processes => format!("{} processes were", count(processes)),
    }
}

/// Whether this cgroup no longer exists. `false` if this is unknown: in a container, the log
/// contains paths of the host, and on a host with too many groups not all of them were read.
pub(crate) fn is_gone(host: &Snapshot, path: &Name) -> bool {
    let cgroups = &host.cgroups;
    let all_known = cgroups.hierarchy != Hierarchy::None
        && !cgroups.groups.is_empty()
        && cgroups.left_out == 0
        && host.host.container.value().is_none();
    all_known && find_group(host, path).is_none()
}

/// Finds the cgroup with this path on the host as it is now.
pub(crate) fn find_group<'a>(host: &'a Snapshot, path: &Name) -> Option<&'a Cgroup> {
    host.cgroups.groups.iter().find(|group| group.path == *path)
}

/// Says how long ago the kill was (`3 minutes ago`), or that this is unknown.
pub(crate) fn describe_age(kill: &OomKill) -> String {
    format_or_unknown(kill.seconds_ago.map(|seconds| format!("{} ago", format_age(seconds))))
}
