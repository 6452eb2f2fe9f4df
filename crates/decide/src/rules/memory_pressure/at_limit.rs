// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A cgroup that waits at its own limit, on a machine that has memory to spare.

use pagewise_model::{Finding, Interval, Severity, Snapshot};

use super::{RULE, look_at_worst, most_pressed, proof, thrashing, waited};
use crate::facts::groups::{self, AtLimit};
use crate::facts::zones;
use crate::text::{count, put, quoted, short, writes};

/// The limit that the most pressed group waits at, where the machine itself is not short.
pub(super) fn of(interval: &Interval) -> Option<AtLimit<'_>> {
    let host = &interval.end;
    let pressed = most_pressed(host).into_iter().next()?;
    zones::all_above_low(host).filter(|&spare| spare)?;
    groups::at_limit(interval, pressed)
}

pub(super) fn finding(interval: &Interval, severity: Severity, at: &AtLimit<'_>) -> Finding {
    let host = &interval.end;
    let proof = proof(interval, thrashing(interval).as_ref());
    let path = &at.group.path;
    let told = waited(host).unwrap_or_default();
    let room = host.memory.available.get();
    let room = room.map_or_else(String::new, |room| format!(", while {room} are available"));
    Finding {
        id: RULE.id,
        severity,
        title: format!("{} waits for memory at its limit of {}", short(path.as_str()), at.limit),
        what: format!(
            "{told} {path} reached its {} of {} {} times in {:.1} s{room}.",
            at.file,
            at.limit,
            count(at.reached.delta),
            at.reached.seconds,
        ),
        why: "A cgroup at its limit has to give up a page for each new one, however much the \
              machine has free, and its tasks wait for that. Either the limit is too small for what \
              they work on, or they work on more than they should."
            .to_owned(),
        evidence: proof
            .named(at.what(), at.reading)
            .named("current", &at.group.current)
            .named("swap.current", &at.group.swap_current)
            .change(&format!("reached {}", at.what()), &at.reached)
            .named("MemAvailable", &host.memory.available)
            .done(),
        next: raise(host, at).into_iter().chain(look_at_worst(host)).collect(),
    }
}

/// A limit that all the group holds would fit into, where the machine has that much to give.
fn raise(host: &Snapshot, at: &AtLimit<'_>) -> Option<String> {
    let held = at.group.current.get()?.get().checked_add(at.group.swap_current.get()?.get())?;
    let mebibytes = held.checked_next_multiple_of(1 << 20)? >> 20;
    let more = (mebibytes << 20).checked_sub(at.limit.get()).filter(|&more| more > 0)?;
    host.memory.available.get().filter(|available| more <= available.get() / 2)?;
    Some(match groups::system_unit(at.group) {
        Some(unit) => writes(format!(
            "sudo systemctl set-property {} {}={mebibytes}M",
            quoted(unit),
            at.property()
        )),
        None => put(format!("{mebibytes}M"), at.reading.source.path()),
    })
}

#[cfg(test)]
pub(in crate::rules) mod tests {
    use pagewise_model::{Cgroup, Limit};

    use super::*;
    use crate::testing::{file, line, mib, only, proof_of, stall, with};

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
        let reached = "/system.slice/db.service reached its memory.max of 1.0 GiB 4,998 times";
        assert!(finding.what.contains(reached), "{}", finding.what);
        assert_eq!(
            finding.next.first().unwrap(),
            "sudo systemctl set-property db.service MemoryMax=1124M  # writes"
        );
        assert!(proof_of(&finding).contains("memory.events:3 = reached max +4998"));
    }

    #[test]
    fn a_limit_of_a_group_above_counts() {
        let mut interval = firing();
        db(&mut interval.end).max = file(&format!("{GROUP}/memory.max"), Limit::Max);
        let at_own = |interval: &Interval| only(&RULE, interval).title.contains("limit");
        assert!(!at_own(&interval));
        let parent = "/sys/fs/cgroup/system.slice";
        let slice = |host: &mut Snapshot, times| {
            let slice = |group: &&mut Cgroup| group.path.as_str() == "/system.slice";
            let slice = host.cgroups.groups.iter_mut().find(slice).unwrap();
            slice.max = file(&format!("{parent}/memory.max"), Limit::Bytes(mib(1024)));
            slice.events.max = line(&format!("{parent}/memory.events"), 3, times);
        };
        slice(&mut interval.end, 9);
        slice(interval.start.as_mut().unwrap(), 1);
        assert!(at_own(&interval));
    }

    #[test]
    fn a_limit_that_was_not_reached_again_is_no_reason() {
        let mut interval = firing();
        db(&mut interval.end).events.max = line(&format!("{GROUP}/memory.events"), 3, 0);
        assert!(only(&RULE, &interval).title.starts_with("somebody waited"));
    }

    #[test]
    fn nor_is_one_on_a_machine_that_is_short_itself() {
        let mut interval = firing();
        for zone in &mut interval.end.zones {
            zone.free_pages = zone.min_pages.clone();
        }
        assert!(only(&RULE, &interval).title.starts_with("somebody waited"));
    }

    #[test]
    fn no_limit_is_offered_that_the_machine_cannot_give() {
        let mut interval = firing();
        interval.end.memory.available = line("/proc/meminfo", 3, mib(150));
        assert!(only(&RULE, &interval).next.first().unwrap().starts_with("cat "));
    }
}
