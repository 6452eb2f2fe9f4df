// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands that would have prevented a kill, each with how long it lasts and how to undo it.

use pagewise_facts::{groups, tiers};
use pagewise_model::{Bytes, Cgroup, Limit, OomConstraint, OomKill, Reading, Snapshot};

use super::{find_group, limit, on_that_machine, reason};
use crate::limit_change::{Effect, Lasts, LimitChange};
use crate::text::{mark_writing_with_undo, quoted, write_command_with_undo};

const MORE: &str = "1.5 times the limit";

/// Returns commands that may prevent another kill like this one, the most useful first. The list is
/// never empty: it contains at least a command that shows more.
pub(crate) fn advise_change(host: &Snapshot, kill: &OomKill) -> Vec<String> {
    let mut commands: Vec<String> = make_killable(host, kill).into_iter().collect();
    let now = Some(host).filter(|_| kill.earlier_boot.is_none());
    if reason::is_by_min_ttl(kill) {
        let set = now.and_then(|host| host.mglru.min_ttl.get()).map(pagewise_model::Millis::get);
        let set = set.filter(|ttl| *ttl > 0);
        commands.extend(
            set.map(|ttl| write_command_with_undo(0, ttl, reason::MIN_TTL, "until the next boot")),
        );
        commands.push(
            "grep -rs min_ttl_ms /etc/tmpfiles.d /run/tmpfiles.d /usr/lib/tmpfiles.d".to_owned(),
        );
        return commands;
    }
    if reason::is_by_hand(kill) {
        return vec!["# nothing to cure: somebody asked the kernel to kill (SysRq f)".to_owned()];
    }
    if let Some(panic) = kill.panic.as_ref().filter(|panic| panic.as_str().contains("panic_on_oom"))
    {
        let value = if panic.as_str().contains("compulsory") { 2 } else { 1 };
        commands.push(mark_writing_with_undo(
            "sudo sysctl vm.panic_on_oom=0",
            "cures the panic, not the shortage; until the next boot",
            &format!("sudo sysctl vm.panic_on_oom={value}"),
        ));
    }
    if reason::lacking_zone(kill).is_some() || reason::unusable_high_memory(kill).is_some() {
        commands.extend(on_that_machine::advise_change(kill));
        return commands;
    }
    match kill.constraint {
        Some(OomConstraint::Cgroup) => {
            let before = commands.len();
            commands.extend(allow_swap(host, kill));
            commands.extend(raise_limit(host, kill));
            if commands.len() == before {
                commands.extend(on_that_machine::advise_for_group(kill));
            }
        }
        Some(OomConstraint::Cpuset | OomConstraint::Policy) => {
            commands.push(
                "numastat -m  # shows the free memory of each node; package numactl".to_owned(),
            );
            commands.extend(measure_compression(host));
        }
        Some(OomConstraint::Host) | None => {
            // suggested before a limit, because without swap a limit only makes a process die
            // sooner
            commands.extend(measure_compression(host));
            commands.extend(on_that_machine::warn_of_limit(kill));
        }
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

/// Returns the command that measures how much zram would hold, for a machine without swap.
fn measure_compression(host: &Snapshot) -> Option<String> {
    let bench =
        "pagewise bench  # measures how well memory compresses here; makes no permanent change";
    tiers::is_swap_off(host).then(|| bench.to_owned())
}

/// Returns the command that raises the limit by half of its value at the kill, if more than twice
/// that amount is available.
fn raise_limit(host: &Snapshot, kill: &OomKill) -> Option<String> {
    let group = find_group(host, kill.group.as_ref()?)?;
    let Limit::Bytes(now) = group.max.get()? else { return None };
    let more = limit(kill)?.get() / 2;
    host.memory.available.get().filter(|available| available.get() / 2 > more)?;
    // otherwise an ancestor would reach its own limit instead
    let above = groups::least_room_above(host, group);
    if above.is_some_and(|(_, room)| room.get() < more) {
        return None;
    }
    let raised = round_to_mib(Bytes::new(now.get().saturating_add(more)))?;
    limit_command(group, &group.max, Limit::Bytes(raised), Effect::Raises, MORE)
}

/// Returns the command that allows swap for a group that must not use it, if the host has swap.
fn allow_swap(host: &Snapshot, kill: &OomKill) -> Option<String> {
    let group = find_group(host, kill.group.as_ref()?)?;
    let barred = group.swap_max.get() == Some(Limit::Bytes(Bytes::new(0)));
    let room = host.tiers.iter().any(|tier| tier.is_full() == Some(false));
    if !barred || !room {
        return None;
    }
    limit_command(group, &group.swap_max, Limit::Max, Effect::AllowsSwap, "")
}

/// Returns the command that allows the OOM killer to kill a process, if the group had only
/// processes that are exempt.
fn make_killable(host: &Snapshot, kill: &OomKill) -> Option<String> {
    let barred = kill.tasks.iter().find(|task| task.oom_score_adj == -1000);
    let task = barred.filter(|_| kill.victim.is_none() && kill.earlier_boot.is_none())?;
    // the pid may belong to another process by now; the undo would exempt that process
    let mut processes = host.processes.list.iter();
    processes.find(|process| process.pid == task.pid && process.name == task.name)?;
    let file = format!("/proc/{}/oom_score_adj", task.pid);
    Some(write_command_with_undo(0, -1000, &file, "until the process ends"))
}

fn limit_command(
    group: &Cgroup,
    limit: &Reading<Limit>,
    to: Limit,
    effect: Effect,
    note: &str,
) -> Option<String> {
    LimitChange { group, limit, to, effect, lasts: Lasts::Permanent, note }.command()
}

/// Rounds a size up to whole MiB.
fn round_to_mib(size: Bytes) -> Option<Bytes> {
    size.get().checked_next_multiple_of(1 << 20).map(Bytes::new)
}
