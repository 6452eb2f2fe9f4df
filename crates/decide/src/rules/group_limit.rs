// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: a cgroup is short of memory because of its own limit, even if the host has free memory.

use pagewise_facts::groups::{self, AtLimit, GroupPair};
use pagewise_facts::io_limit::find_throttling_limit;
use pagewise_facts::{reclaim, settings};
use pagewise_model::{Bytes, Cgroup, Finding, Interval, Level, Limit, Severity, Snapshot, Subject};

use crate::Rule;
use crate::io_limit;
use crate::limit_change::{Effect, Lasts, LimitChange};
use crate::limits;
use crate::proof::EvidenceList;
use crate::text::{
    count, mark_writing_with_caution, quoted, shorten_group, write_command_with_undo,
};
use crate::verdict::{self, GroupTrouble, Trouble};

pub(super) const RULE: Rule = Rule {
    id: "group-limit",
    doc: "Because of a cgroup's own memory limit, its tasks wait for memory, the cgroup is nearly full, or a \
          process in it was killed, even though the host may have free memory.",
    diagnose,
};

/// Maximum number of groups that get a finding of their own; further groups usually have the same
/// cause.
pub(super) const TOLD: usize = 5;

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let troubled = verdict::find_troubled(interval);
    let of_others = troubled.iter().filter(|group| !groups::is_own(&group.limited.path));
    of_others.take(TOLD).filter_map(|group| finding(interval, group)).collect()
}

/// Anonymous memory of a group that stays resident while the group's page cache is refaulted:
/// multi-gen LRU does not age the pages of a cgroup as long as it finds droppable file pages at the
/// first reclaim priority (`get_nr_to_scan` in mm/vmscan.c of Linux 6.12).
struct KeptAnon {
    anon: Bytes,
    /// How much of the anonymous memory fits into free swap.
    room: Bytes,
}

/// If anonymous memory is less than this share of the limit, in percent, a change is not
/// worthwhile.
const MUCH_PERCENT: f64 = 50.0;

fn find_kept_anon(interval: &Interval, group: &Cgroup, limit: Bytes) -> Option<KeptAnon> {
    let host = &interval.end;
    let pair = groups::pairs(interval).into_iter().find(|pair| pair.now.path == group.path)?;
    let refaults = pair.change(|group| &group.refault_file)?;
    let is_rereading = reclaim::are_harmful(&refaults, &pair.change(|group| &group.pgmajfault)?);
    let may_swap = host.mglru.is_on()? && settings::number(host, "vm.swappiness")?.value > 0;
    let (anon, room) = (group.anon.get()?, groups::swap_room(host, group)?);
    let is_much = anon.percent_of(limit)?.get() >= MUCH_PERCENT
        && room.percent_of(limit)?.get() >= verdict::ROOM_PERCENT;
    (is_rereading && may_swap && is_much && has_swapped_nothing(&pair)?)
        .then_some(KeptAnon { anon, room })
}

fn has_swapped_nothing(pair: &GroupPair<'_>) -> Option<bool> {
    let held = |group: &Cgroup| group.swap_current.get();
    let came_back = pair.change(|group| &group.refault_anon)?;
    Some(held(pair.now)? <= held(pair.before?)? && came_back.delta == 0)
}

fn finding(interval: &Interval, group: &GroupTrouble<'_>) -> Option<Finding> {
    let host = &interval.end;
    let limit = group.limit()?;
    let kept = find_kept_anon(interval, group.limited, limit).filter(|_| group.waits());
    let throttled = find_throttling_limit(interval, group.limited).filter(|_| group.waits());
    let by_io = throttled.as_ref().map_or_else(String::new, io_limit::describe);
    let path = shorten_group(group.limited.path.as_str());
    // what fills the limit is reported by the rule `memory-grows`
    let is_shown = |(_, trouble): &&(Level, Trouble)| !matches!(trouble, Trouble::Fills { .. });
    let (_, worst) = group.troubles.iter().find(is_shown)?;
    Some(Finding {
        id: RULE.id,
        about: Some(Subject::Cgroup(group.limited.path.clone())),
        severity: if group.level == Level::Critical {
            Severity::Critical
        } else {
            Severity::Warning
        },
        title: match worst {
            Trouble::Kills(_) => format!("a process in {path} was killed at the limit of {limit}"),
            Trouble::Waits { .. } if group.is_slowed() => {
                format!("{path} waits for memory above its memory.high of {limit}")
            }
            Trouble::Waits { .. } => format!("{path} waits for memory at its limit of {limit}"),
            Trouble::Rereads { .. } => format!("{path} thrashes at its memory limit of {limit}"),
            Trouble::Full { held, .. } => {
                let percent = held.percent_of(limit).map_or(0.0, pagewise_model::Percent::get);
                format!("unreclaimable memory fills {percent:.0} % of the limit of {path}")
            }
            Trouble::Fills { .. } => return None,
        },
        what: format!("{}{by_io}", describe(host, group, limit, kept.as_ref())),
        why: format!("{}{}", why(group, worst), kept.as_ref().map_or("", |_| NOT_AGED)),
        evidence: throttled
            .iter()
            .fold(
                kept.iter().fold(proof(host, group), |proof, _| proof.value(&host.mglru.enabled)),
                |proof, throttled| io_limit::add_evidence(throttled, proof),
            )
            .into_evidence(),
        next: kept
            .iter()
            .flat_map(|_| {
                let off = write_command_with_undo(
                    "n",
                    host.mglru.enabled.get().unwrap_or_default(),
                    "/sys/kernel/mm/lru_gen/enabled",
                    "for the whole host, until the next boot",
                );
                [age_command(group.limited), off]
            })
            .chain(raise_command(host, group, limit))
            .chain(throttled.as_ref().map(io_limit::command_that_shows))
            .chain([events_command(group.limited)])
            .collect(),
    })
}

/// A further possible cause; see the measurements in docs/measured/claims.md.
const NOT_AGED: &str = " Here, the cause may be another one: with multi-gen LRU on, the kernel may drop files in use \
                        and keep anonymous memory that nobody uses, because it does not age the pages of a cgroup as \
                        long as it finds files to drop. In guests with 6.12 and 7.2, such a cgroup read 13 to 16 times \
                        as many pages again as with the classic LRU, and a higher vm.swappiness changed nothing. The \
                        first command ages this cgroup alone, and measures whether its refaults fall. Only if they do \
                        not, the second one is left: it switches multi-gen LRU off, for the whole host.";

fn describe(
    host: &Snapshot,
    group: &GroupTrouble<'_>,
    limit: Bytes,
    kept: Option<&KeptAnon>,
) -> String {
    let path = &group.limited.path;
    let reached = group.reached.as_ref().map_or_else(String::new, |at| match &at.reached {
        _ if at.is_slowed => {
            let used = group.limited.current.get().unwrap_or_default();
            format!("The cgroup {path} uses {used} with a {} of {limit}", at.file)
        }
        Some(reached) => format!(
            "The cgroup {path} reached its {} ({limit}) {} times in {:.1} s",
            at.file,
            count(reached.delta),
            reached.seconds
        ),
        None => String::new(),
    });
    let clause = verdict::describe_group(group);
    let text = if reached.is_empty() {
        format!("In the cgroup {path}, {clause}")
    } else {
        format!("{reached}, and {clause}")
    };
    let room = host.memory.available.get();
    let room =
        room.map_or_else(String::new, |room| format!(". The host has {room} of memory available"));
    let kept = kept.map_or_else(String::new, |KeptAnon { anon, room }| {
        format!(
            " Meanwhile none of its {anon} of anonymous memory was swapped out, although swap has {room} free for it."
        )
    });
    format!("{text}{room}.{kept}")
}

fn why(group: &GroupTrouble<'_>, worst: &Trouble) -> String {
    match worst {
        Trouble::Waits { .. } if group.is_slowed() => {
            "A cgroup that uses more than its memory.high is slowed down, even if the host has free memory: for \
             each allocation the kernel first tries to reclaim memory of the cgroup, and then lets the task sleep, \
             up to two seconds at a time and longer the more the cgroup is above memory.high. The kernel kills \
             nothing at this limit. Either it is too small for the memory that the tasks regularly use, or the \
             tasks use more memory than they should."
        }
        Trouble::Kills(_) => {
            "When a cgroup is at its memory limit, the kernel has to reclaim a page of the cgroup for each \
             new one, and if it can reclaim none, it kills a process in the cgroup. Free memory of the host \
             does not help, because the limit applies to the cgroup alone."
        }
        Trouble::Waits { .. } | Trouble::Rereads { .. } => {
            "When a cgroup is at its memory limit, the kernel has to reclaim a page of the cgroup for each \
             new one. The tasks of the cgroup wait meanwhile, even if the host has free memory. Either the \
             limit is too small for the memory that the tasks regularly use, or the tasks use more memory \
             than they should."
        }
        Trouble::Full { .. } | Trouble::Fills { .. } => {
            "The kernel can swap anonymous memory and shmem but not drop them, and it can neither drop nor \
             swap most kernel memory. When such memory fills the limit of a cgroup and swap has no room, no \
             memory is left for page cache, and the kernel kills a process in the cgroup at the next \
             allocation."
        }
    }
    .to_owned()
}

fn proof(host: &Snapshot, group: &GroupTrouble<'_>) -> EvidenceList {
    let limited = group.limited;
    let proof = match &group.reached {
        Some(at) => EvidenceList::new()
            .named(limit_name(at), at.reading)
            .changed(&format!("reached {}", limit_name(at)), at.reached.as_ref()),
        None => EvidenceList::new().named("max", &limited.max),
    };
    let proof = proof
        .named("current", &limited.current)
        .named("anon", &limited.anon)
        .named("shmem", &limited.shmem)
        .named("swap.current", &limited.swap_current)
        .named("swap.max", &limited.swap_max)
        .named("some avg10", &limited.pressure.some.avg10)
        .named("some avg60", &limited.pressure.some.avg60)
        .named("full avg60", &limited.pressure.full.avg60);
    let proof = group.troubles.iter().fold(proof, |proof, (_, trouble)| match trouble {
        Trouble::Kills(kills) => proof.change("oom_kill", kills),
        Trouble::Rereads { refaults, major_faults } => {
            proof.change("refaults", refaults).change("pgmajfault", major_faults)
        }
        Trouble::Waits { .. } | Trouble::Full { .. } | Trouble::Fills { .. } => proof,
    });
    proof.named("MemAvailable", &host.memory.available)
}

/// Returns the command that sets a higher limit: one into which everything that the group holds
/// fits with a margin. `None` if the host does not have that much memory.
fn raise_command(host: &Snapshot, group: &GroupTrouble<'_>, limit: Bytes) -> Option<String> {
    let limited = group.limited;
    let was_killed = group.troubles.iter().any(|(_, it)| matches!(it, Trouble::Kills(_)));
    let requested = limits::raised_limit(limited, limit, was_killed)?.get();
    let more = requested.checked_sub(limit.get())?;
    host.memory.available.get().filter(|available| more <= available.get() / 2)?;
    if let Some((above, room)) =
        groups::least_room_above(host, limited).filter(|(_, room)| room.get() < more)
    {
        return Some(format!(
            "# a higher limit of {} changes nothing: {} above it has a limit of its own with {room} left",
            limited.path, above.path
        ));
    }
    let change = LimitChange {
        group: limited,
        limit: group.reached.as_ref().map_or(&limited.max, |at| at.reading),
        to: Limit::Bytes(Bytes::new(requested)),
        effect: Effect::Raises,
        lasts: Lasts::Permanent,
        note: "",
    };
    change.command()
}

/// Returns the command that ages the group's pages.
fn age_command(group: &Cgroup) -> String {
    let command = format!("sudo pagewise age --cgroup {}", quoted(group.path.as_str()));
    mark_writing_with_caution(command, "ages this cgroup at most 6 times; nothing to undo")
}

/// Returns the command that shows the group's limit events.
fn events_command(group: &Cgroup) -> String {
    let folder = group.events.max.source.path().rsplit_once('/');
    let folder = folder.or_else(|| group.current.source.path().rsplit_once('/'));
    match folder {
        Some((folder, _)) => {
            format!("grep -r . {} --include='memory.*' -s | head -60", quoted(folder))
        }
        None => "systemd-cgtop --order=memory --iterations=1".to_owned(),
    }
}

/// Returns the name of the limit that was reached: `max` or `high`.
fn limit_name(at: &AtLimit<'_>) -> &'static str {
    at.file.trim_start_matches("memory.")
}

#[cfg(test)]
#[path = "../../tests/rules/group_limit.rs"]
pub(super) mod tests;
