// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands that would have prevented a kill, each with how long it lasts and how to undo it.

use pagewise_facts::{groups, tiers};
use pagewise_model::{Bytes, Cgroup, Hierarchy, Limit, Name, OomConstraint, OomKill, Snapshot};

use super::{find_group, limit};
use crate::text::{quoted, writes_and};

const MORE: &str = "1.5 times the limit; ";
const LESS: &str = "three quarters of what the process held when it was killed; ";

/// Commands that may prevent another such kill, the most useful first. Never empty: there is always
/// a command that shows more.
pub(crate) fn advise_change(host: &Snapshot, kill: &OomKill) -> Vec<String> {
    let mut commands: Vec<String> = may_be_killed(kill).into_iter().collect();
    match kill.constraint {
        Some(OomConstraint::Cgroup) => {
            commands.extend(allow_swap(host, kill));
            commands.extend(raise(host, kill));
        }
        Some(OomConstraint::Cpuset | OomConstraint::Policy) => {
            commands.push(
                "numastat -m  # shows the free memory of each node; package numactl".to_owned(),
            );
        }
        Some(OomConstraint::Host) | None => commands.extend(suggest_limit_for_victim(host, kill)),
    }
    if kill.constraint != Some(OomConstraint::Cgroup) && tiers::swap_is_off(host) {
        commands.push(
            "pagewise bench  # measures how well memory compresses here; makes no permanent change"
                .to_owned(),
        );
    }
    let alive = kill.victim_group.as_ref().filter(|path| find_group(host, path).is_some());
    commands.push(match alive {
        Some(group) => format!(
            "pagewise scan --cgroup {}  # estimates how much memory compression would free",
            quoted(group.as_str())
        ),
        None => "pagewise scan  # estimates how much memory compression would free".to_owned(),
    });
    commands
}

/// The group as it is now, its systemd unit, and its folder.
struct GroupNow<'a> {
    unit: Option<&'a str>,
    folder: String,
    v2: bool,
}

fn place<'a>(host: &'a Snapshot, path: &Name) -> Option<(&'a Cgroup, GroupNow<'a>)> {
    let group = find_group(host, path)?;
    let file = group.max.source.path().rsplit_once('/')?.0.to_owned();
    let v2 = host.cgroups.hierarchy == Hierarchy::V2;
    let unit = groups::system_unit(group).filter(|_| v2);
    Some((group, GroupNow { unit, folder: file, v2 }))
}

/// Command that raises the limit by half of its value at the kill, if more than twice that amount
/// is available.
fn raise(host: &Snapshot, kill: &OomKill) -> Option<String> {
    let (group, place) = place(host, kill.group.as_ref()?)?;
    let Limit::Bytes(now) = group.max.get()? else { return None };
    let more = limit(kill)?.get() / 2;
    host.memory.available.get().filter(|available| available.get() / 2 > more)?;
    let raised = mebibytes(Bytes::new(now.get().saturating_add(more)))?;
    Some(match place.unit {
        Some(unit) => {
            property(unit, "MemoryMax", &format!("{raised}M"), &now.get().to_string(), MORE)
        }
        None => {
            let file = if place.v2 { "memory.max" } else { "memory.limit_in_bytes" };
            put(
                &format!("{raised}M"),
                &format!("{}/{file}", place.folder),
                &now.get().to_string(),
                MORE,
            )
        }
    })
}

/// Command that allows swap for a group that is barred from it, if the host has swap.
fn allow_swap(host: &Snapshot, kill: &OomKill) -> Option<String> {
    let (group, place) = place(host, kill.group.as_ref()?)?;
    let barred = group.swap_max.get() == Some(Limit::Bytes(Bytes::new(0)));
    let room = host.tiers.iter().any(|tier| tier.is_full() == Some(false));
    if !barred || !room || !place.v2 {
        return None;
    }
    Some(match place.unit {
        Some(unit) => property(unit, "MemorySwapMax", "infinity", "0", ""),
        None => put("max", &format!("{}/memory.swap.max", place.folder), "0", ""),
    })
}

/// Command that limits the victim's unit, below what it held when the machine ran out of memory.
fn suggest_limit_for_victim(host: &Snapshot, kill: &OomKill) -> Option<String> {
    let (group, place) = place(host, kill.victim_group.as_ref()?)?;
    let held = kill.victim.as_ref()?.resident()?;
    let unit = place.unit.filter(|_| group.max.get() == Some(Limit::Max))?;
    let less = mebibytes(Bytes::new(held.get() / 4 * 3)).filter(|&less| less > 0)?;
    Some(property(unit, "MemoryMax", &format!("{less}M"), "infinity", LESS))
}

/// Command that makes a process killable again, if the group had only processes that are exempt
/// from the OOM killer.
fn may_be_killed(kill: &OomKill) -> Option<String> {
    let barred = kill.tasks.iter().find(|task| task.oom_score_adj == -1000);
    // after a reboot the pid may belong to another process
    let task = barred.filter(|_| kill.victim.is_none() && kill.earlier_boot.is_none())?;
    Some(writes_and(
        format!("echo 0 | sudo tee /proc/{}/oom_score_adj", task.pid),
        "until the process ends; undo: the same with -1000",
    ))
}

fn property(unit: &str, name: &str, value: &str, before: &str, note: &str) -> String {
    writes_and(
        format!("sudo systemctl set-property {} {name}={value}", quoted(unit)),
        &format!("{note}permanent; undo: the same with {name}={before}"),
    )
}

fn put(value: &str, path: &str, before: &str, note: &str) -> String {
    writes_and(
        format!("echo {value} | sudo tee {}", quoted(path)),
        &format!(
            "{note}until the cgroup is removed or the machine reboots; undo: the same with {before}"
        ),
    )
}

/// A size in MiB, rounded up.
fn mebibytes(size: Bytes) -> Option<u64> {
    Some(size.get().checked_next_multiple_of(1 << 20)? >> 20)
}
