// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A cgroup that is short of memory because of its own limit, whatever the host has free.

use pagewise_model::{Bytes, Cgroup, Finding, Interval, Level, Severity, Snapshot};

use crate::Rule;
use crate::facts::groups;
use crate::proof::EvidenceList;
use crate::text::{count, quoted, short_group, writes_and};
use crate::verdict::{self, GroupTrouble, Trouble};

pub(super) const RULE: Rule = Rule {
    id: "group-limit",
    doc: "Because of a cgroup's own memory limit, its tasks wait for memory, the cgroup is nearly full, or a \
          process in it was killed, even though the host may have free memory.",
    diagnose,
};

/// Groups told each by itself; more of them have the same reason more often than not.
const TOLD: usize = 5;

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let troubled = verdict::troubled(interval);
    troubled.iter().take(TOLD).filter_map(|group| finding(&interval.end, group)).collect()
}

fn finding(host: &Snapshot, group: &GroupTrouble<'_>) -> Option<Finding> {
    let limit = group.limit()?;
    let path = short_group(group.limited.path.as_str());
    // `memory-grows` tells who fills it
    let is_shown = |(_, trouble): &&(Level, Trouble)| !matches!(trouble, Trouble::Fills { .. });
    let (_, worst) = group.troubles.iter().find(is_shown)?;
    Some(Finding {
        id: RULE.id,
        severity: if group.level == Level::Critical {
            Severity::Critical
        } else {
            Severity::Warning
        },
        title: match worst {
            Trouble::Kills(_) => format!("a process in {path} was killed at the limit of {limit}"),
            Trouble::Waits { .. } => format!("{path} waits for memory at its limit of {limit}"),
            Trouble::Rereads { .. } => format!("{path} thrashes at its memory limit of {limit}"),
            Trouble::Full { held, .. } => {
                let percent = held.percent_of(limit).map_or(0.0, pagewise_model::Percent::get);
                format!("unreclaimable memory fills {percent:.0} % of the limit of {path}")
            }
            Trouble::Fills { .. } => return None,
        },
        what: describe(host, group, limit),
        why: why(worst),
        evidence: proof(host, group).done(),
        next: raise(host, group, limit).into_iter().chain([look_at(group.limited)]).collect(),
    })
}

fn describe(host: &Snapshot, group: &GroupTrouble<'_>, limit: Bytes) -> String {
    let path = &group.limited.path;
    let reached = group.reached.as_ref().map_or_else(String::new, |at| {
        let times = count(at.reached.delta);
        format!(
            "The cgroup {path} reached its {} ({limit}) {times} times in {:.1} s",
            at.file, at.reached.seconds
        )
    });
    let clause = verdict::of_group(group);
    let text = if reached.is_empty() {
        format!("In the cgroup {path}, {clause}")
    } else {
        format!("{reached}, and {clause}")
    };
    let room = host.memory.available.get();
    let room =
        room.map_or_else(String::new, |room| format!(". The host has {room} of memory available"));
    format!("{text}{room}.")
}

fn why(worst: &Trouble) -> String {
    match worst {
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
            .named(at.limit_name(), at.reading)
            .change(&format!("reached {}", at.limit_name()), &at.reached),
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

/// A limit that all the group holds would fit into with a tenth to spare, if the host has that much.
fn raise(host: &Snapshot, group: &GroupTrouble<'_>, limit: Bytes) -> Option<String> {
    let limited = group.limited;
    let swapped = limited.swap_current.get().unwrap_or(Bytes::new(0));
    let held = limited.current.get()?.get().checked_add(swapped.get())?;
    let requested =
        held.max(limit.get()).checked_add(held / 10)?.checked_next_multiple_of(1 << 20)?;
    let more = requested.checked_sub(limit.get())?;
    host.memory.available.get().filter(|available| more <= available.get() / 2)?;
    let mebibytes = requested >> 20;
    let (property, file) = match &group.reached {
        Some(at) => (at.property(), at.reading.source.path()),
        None => ("MemoryMax", limited.max.source.path()),
    };
    Some(match groups::system_unit(limited) {
        Some(unit) => writes_and(
            format!("sudo systemctl set-property {} {property}={mebibytes}M", quoted(unit)),
            &format!("permanent; undo with {property}={}", limit.get()),
        ),
        None => writes_and(
            format!("echo {mebibytes}M | sudo tee {}", quoted(file)),
            &format!("until the cgroup is created again; undo with {}", limit.get()),
        ),
    })
}

/// What the group met.
fn look_at(group: &Cgroup) -> String {
    let folder = group.events.max.source.path().rsplit_once('/');
    let folder = folder.or_else(|| group.current.source.path().rsplit_once('/'));
    match folder {
        Some((folder, _)) => {
            format!("grep -r . {} --include='memory.*' -s | head -60", quoted(folder))
        }
        None => "systemd-cgtop --order=memory --iterations=1".to_owned(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::{Cgroup, Limit};

    use super::*;
    use crate::testing::{assert_silent, calm, file, line, mib, only, proof_of, stall, with};

    const GROUP: &str = "/sys/fs/cgroup/system.slice/db.service";

    fn db(host: &mut Snapshot) -> &mut Cgroup {
        host.cgroups
            .groups
            .iter_mut()
            .find(|group| group.path.as_str().ends_with("db.service"))
            .unwrap()
    }

    /// A service that is held at 1 GiB and swaps 100 MiB, on a machine with gigabytes to spare.
    pub(in crate::rules) fn firing() -> Interval {
        let mut interval = with(|host| {
            stall(&mut host.psi.memory.some, 34.0, 9.0);
            let group = db(host);
            group.max = file(&format!("{GROUP}/memory.max"), Limit::Bytes(mib(1024)));
            group.swap_current = file(&format!("{GROUP}/memory.swap.current"), mib(100));
            group.pressure.some.avg60 =
                line(&format!("{GROUP}/memory.pressure"), 1, pagewise_model::Percent::new(9.0));
        });
        db(&mut interval.end).events.max = line(&format!("{GROUP}/memory.events"), 3, 4998);
        interval
    }

    #[test]
    fn the_limit_is_told_and_one_that_fits() {
        let finding = only(&RULE, &firing());
        assert_eq!(
            finding.title,
            "/system.slice/db.service waits for memory at its limit of 1.0 GiB"
        );
        let reached = "/system.slice/db.service reached its memory.max (1.0 GiB) 4,998 times";
        assert!(finding.what.contains(reached), "{}", finding.what);
        assert_eq!(
            finding.next.first().unwrap(),
            "sudo systemctl set-property db.service MemoryMax=1237M  # writes; permanent; undo \
             with MemoryMax=1073741824"
        );
        assert!(proof_of(&finding).contains("memory.events:3 = reached max +4998"));
    }

    /// A cache that fills its limit with memory that cannot be dropped, without swap.
    pub(in crate::rules) fn firing_full() -> Interval {
        with(|host| {
            let group = db(host);
            group.max = file(&format!("{GROUP}/memory.max"), Limit::Bytes(mib(1024)));
            group.current = file(&format!("{GROUP}/memory.current"), mib(1000));
            group.file = line(&format!("{GROUP}/memory.stat"), 2, mib(60));
            group.swap_max = file(&format!("{GROUP}/memory.swap.max"), Limit::Bytes(Bytes::new(0)));
        })
    }

    /// A group of version 1 that reads its own code again and again.
    pub(in crate::rules) fn firing_v1() -> Interval {
        const V1: &str = "/sys/fs/cgroup/memory/system.slice/db.service";
        let grown = |host: &mut Snapshot, times: u64| {
            let group = db(host);
            *group = Cgroup { path: group.path.clone(), ..Cgroup::default() };
            group.max = file(&format!("{V1}/memory.limit_in_bytes"), Limit::Bytes(mib(64)));
            group.current = file(&format!("{V1}/memory.usage_in_bytes"), mib(64));
            group.events.max = file(&format!("{V1}/memory.failcnt"), 10 * times);
            group.refault_file = line(&format!("{V1}/memory.stat"), 30, 5_000 * times);
            group.pgmajfault = line(&format!("{V1}/memory.stat"), 31, 500 * times);
        };
        let mut interval = with(|host| stall(&mut host.psi.memory.full, 30.0, 12.0));
        grown(interval.start.as_deref_mut().unwrap(), 1);
        grown(&mut interval.end, 2);
        interval
    }

    #[test]
    fn a_limit_of_a_group_above_counts() {
        let mut interval = firing();
        db(&mut interval.end).max = file(&format!("{GROUP}/memory.max"), Limit::Max);
        assert_silent(&RULE, &interval);
        let parent = "/sys/fs/cgroup/system.slice";
        let slice = |host: &mut Snapshot, times| {
            let slice = |group: &&mut Cgroup| group.path.as_str() == "/system.slice";
            let slice = host.cgroups.groups.iter_mut().find(slice).unwrap();
            slice.max = file(&format!("{parent}/memory.max"), Limit::Bytes(mib(1024)));
            slice.events.max = line(&format!("{parent}/memory.events"), 3, times);
            slice.pressure.some.avg60 =
                line(&format!("{parent}/memory.pressure"), 1, pagewise_model::Percent::new(9.0));
        };
        slice(&mut interval.end, 9);
        slice(interval.start.as_mut().unwrap(), 1);
        assert!(only(&RULE, &interval).title.starts_with("/system.slice waits"));
    }

    #[test]
    fn a_limit_that_the_group_below_reached_is_not_its_parents() {
        let mut interval = firing();
        for host in interval.start.as_deref_mut().into_iter().chain([&mut interval.end]) {
            let times = db(host).events.max.get().unwrap();
            let slice = &mut host.cgroups.groups[1];
            slice.max = file("/sys/fs/cgroup/system.slice/memory.max", Limit::Bytes(mib(9000)));
            slice.events.max = line("/sys/fs/cgroup/system.slice/memory.events", 3, times);
            stall(&mut slice.pressure.some, 34.0, 9.0);
        }
        assert!(only(&RULE, &interval).title.starts_with("/system.slice/db.service waits"));
    }

    #[test]
    fn a_limit_that_was_not_reached_again_is_no_reason() {
        let mut interval = firing();
        db(&mut interval.end).events.max = line(&format!("{GROUP}/memory.events"), 3, 0);
        assert_silent(&RULE, &interval);
    }

    #[test]
    fn what_cannot_be_dropped_nearly_fills_the_limit() {
        let finding = only(&RULE, &firing_full());
        assert_eq!(
            finding.title,
            "unreclaimable memory fills 92 % of the limit of /system.slice/db.service"
        );
        assert_eq!(finding.severity, Severity::Warning);
        let swapping = with(|host| {
            let barred = db(&mut firing_full().end).clone();
            *db(host) = Cgroup { swap_max: db(host).swap_max.clone(), ..barred };
        });
        assert_silent(&RULE, &swapping);
    }

    #[test]
    fn a_group_full_of_page_cache_is_not_short() {
        let mut interval = firing_full();
        db(&mut interval.end).file = line(&format!("{GROUP}/memory.stat"), 2, mib(600));
        assert_silent(&RULE, &interval);
    }

    #[test]
    fn version_1_has_no_pressure_and_refaults_stand_for_it() {
        let finding = only(&RULE, &firing_v1());
        let title = "/system.slice/db.service thrashes at its memory limit of 64.0 MiB";
        assert_eq!(finding.title, title);
        assert_eq!(finding.severity, Severity::Critical, "the host counts the group's waiting");
        assert!(proof_of(&finding).contains("memory.failcnt = reached max +10"));
    }

    #[test]
    fn no_limit_is_offered_that_the_machine_cannot_give() {
        let mut interval = firing();
        interval.end.memory.available = line("/proc/meminfo", 3, mib(150));
        assert!(only(&RULE, &interval).next.first().unwrap().starts_with("grep "));
    }

    #[test]
    fn nothing_is_said_of_groups_without_trouble() {
        assert_silent(&RULE, &calm());
    }
}
