// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A slower swap tier is filled before, or in turn with, a faster one.
//!
//! Left out: a device in compressed RAM that stores nothing behind a disk that is not full is `zram-unused`, and
//! disks with zswap in front of them are RAM first, so `zram-zswap-stacked` speaks of those.

use pagewise_model::{Bytes, Finding, Interval, Severity, Snapshot, Tier};

use crate::Rule;
use crate::facts::{groups, pressure, tiers};
use crate::proof::EvidenceList;
use crate::text::{quoted, short, writes_and};

pub(super) const RULE: Rule = Rule {
    id: "tier-order",
    doc: "A slower swap area has the same or a higher priority than a faster one, so the kernel does not \
          fill the faster area first.",
    diagnose,
};

struct Inversion<'a> {
    slow: &'a Tier,
    fast: &'a Tier,
    slow_priority: i32,
    fast_priority: i32,
}

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let worst = inversions(&interval.end).max_by_key(|inversion| inversion.slow.used.get());
    worst.map(|inversion| finding(interval, &inversion)).into_iter().collect()
}

fn inversions(host: &Snapshot) -> impl Iterator<Item = Inversion<'_>> {
    let pairs = host.tiers.iter().flat_map(|slow| host.tiers.iter().map(move |fast| (slow, fast)));
    pairs.filter_map(|(slow, fast)| inversion(slow, fast))
}

fn inversion<'a>(slow: &'a Tier, fast: &'a Tier) -> Option<Inversion<'a>> {
    let (slow_priority, fast_priority) = (slow.priority.get()?, fast.priority.get()?);
    let compressed_first = slow.zswap_in_front.get() == Some(true);
    let inverted = tiers::is_faster(fast, slow) && slow_priority >= fast_priority;
    let told_elsewhere = slow_priority > fast_priority
        && fast.used.get()? == Bytes::new(0)
        && fast.kind.is_ram()
        && !slow.is_full()?;
    (inverted && !compressed_first && !told_elsewhere).then_some(Inversion {
        slow,
        fast,
        slow_priority,
        fast_priority,
    })
}

fn finding(interval: &Interval, inversion: &Inversion<'_>) -> Finding {
    let Inversion { slow, fast, .. } = inversion;
    let (slow_name, fast_name) = (short(slow.path.as_str()), short(fast.path.as_str()));
    let title = if inversion.slow_priority > inversion.fast_priority {
        format!("swap fills {slow_name} before the faster {fast_name}")
    } else {
        format!("swap fills {slow_name} and the faster {fast_name} in turn")
    };
    Finding {
        id: RULE.id,
        severity: severity(interval, slow),
        title,
        what: describe(inversion),
        why:
            "The kernel fills the swap area with the highest priority first (areas of equal priority in turn), \
              and never moves a swapped page to another area. Pages that were swapped out to the slower area \
              stay there and are read back at its speed, even if the faster area has room."
                .to_owned(),
        evidence: EvidenceList::new()
            .named(&format!("{} priority", slow.path), &slow.priority)
            .named(&format!("{} used", slow.path), &slow.used)
            .named(&format!("{} size", slow.path), &slow.size)
            .named(&format!("{} priority", fast.path), &fast.priority)
            .named(&format!("{} used", fast.path), &fast.used)
            .done(),
        next: next(&interval.end, inversion),
    }
}

fn severity(interval: &Interval, slow: &Tier) -> Severity {
    let holds = slow.used.get().is_some_and(|used| used > Bytes::new(0));
    match pressure::level(&interval.end.psi) {
        Some(_) if holds => Severity::Critical,
        _ if holds => Severity::Warning,
        _ => Severity::Info,
    }
}

fn describe(inversion: &Inversion<'_>) -> String {
    let shown = |tier: &Tier, priority| {
        let used = tier.used.get().zip(tier.size.get());
        let used =
            used.map_or_else(String::new, |(used, size)| format!(" and holds {used} of {size}"));
        let full = if tier.is_full() == Some(true) { " (full)" } else { "" };
        format!("{} has priority {priority}{used}{full}", tier.path)
    };
    format!(
        "The swap area {}. The faster swap area {}.",
        shown(inversion.slow, inversion.slow_priority),
        shown(inversion.fast, inversion.fast_priority)
    )
}

/// Only a tier whose contents surely fit back into memory is switched off and on again: into that
/// of the machine, and into that of the groups that they belong to.
fn next(host: &Snapshot, inversion: &Inversion<'_>) -> Vec<String> {
    let look = "swapon --show=NAME,TYPE,SIZE,USED,PRIO".to_owned();
    let used = inversion.fast.used.get().unwrap_or_default();
    let room = host.memory.available.get().unwrap_or_default();
    let fits = used.get() <= room.get() / 2 && !groups::any_would_burst(host);
    match inversion.slow_priority.checked_add(1).filter(|&priority| priority <= i32::from(i16::MAX))
    {
        Some(above) if fits => {
            let path = quoted(inversion.fast.path.as_str());
            let command =
                format!("sudo swapoff {path} && sudo swapon -p {} {path}", above.max(100));
            vec![writes_and(command, &format!("swapoff brings {used} back into RAM")), look]
        }
        _ => vec![look],
    }
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::Limit;

    use pagewise_model::TierKind;

    use super::*;
    use crate::testing::{assert_silent, calm, file, gib, line, mib, only, tier, with};

    fn tiers(disk: Bytes, disk_priority: i32, zram: Bytes, zram_priority: i32) -> Interval {
        with(|host| {
            host.tiers = vec![
                tier("/swap file", TierKind::File, disk, disk_priority),
                tier("/dev/zram0", TierKind::Zram, zram, zram_priority),
            ];
        })
    }

    pub(crate) fn firing() -> Interval {
        tiers(gib(4), 50, mib(300), 5)
    }

    #[test]
    fn a_full_disk_in_front_of_zram() {
        let finding = only(&RULE, &firing());
        assert_eq!(finding.title, "swap fills /swap file before the faster /dev/zram0");
        assert_eq!(
            finding.what,
            "The swap area /swap file has priority 50 and holds 4.0 GiB of 4.0 GiB (full). The faster swap \
             area /dev/zram0 has priority 5 and holds 300.0 MiB of 4.0 GiB."
        );
        assert_eq!(finding.severity, Severity::Warning);
        assert!(finding.next[0].starts_with("sudo swapoff /dev/zram0 && sudo swapon -p 100 "));
    }

    #[test]
    fn equal_priorities_are_filled_in_turn() {
        let finding = only(&RULE, &tiers(mib(10), -2, mib(10), -2));
        assert_eq!(finding.title, "swap fills /swap file and the faster /dev/zram0 in turn");
    }

    #[test]
    fn a_spinning_disk_before_flash() {
        let interval = with(|host| {
            let disk = |path, spins, priority| {
                let mut tier = tier(path, TierKind::Partition, mib(1), priority);
                tier.disk.rotational = file("/sys/block/sda/queue/rotational", spins);
                tier
            };
            host.tiers = vec![disk("/dev/sda2", true, -2), disk("/dev/nvme0n1p3", false, -3)];
        });
        assert_eq!(
            only(&RULE, &interval).title,
            "swap fills /dev/sda2 before the faster /dev/nvme0n1p3"
        );
    }

    #[test]
    fn contents_that_may_not_fit_into_memory_are_not_moved() {
        let mut interval = firing();
        interval.end.memory.available = line("/proc/meminfo", 3, mib(400));
        assert_eq!(only(&RULE, &interval).next, ["swapon --show=NAME,TYPE,SIZE,USED,PRIO"]);
    }

    #[test]
    fn nor_those_that_their_group_has_no_room_for() {
        let mut interval = firing();
        let group = &mut interval.end.cgroups.groups[2];
        group.max = file("/sys/fs/cgroup/db/memory.max", Limit::Bytes(gib(1)));
        group.current = file("/sys/fs/cgroup/db/memory.current", gib(1));
        group.swap_current = file("/sys/fs/cgroup/db/memory.swap.current", mib(1));
        assert_eq!(only(&RULE, &interval).next, ["swapon --show=NAME,TYPE,SIZE,USED,PRIO"]);
    }

    #[test]
    fn right_order_and_what_other_rules_tell_are_silent() {
        assert_silent(&RULE, &calm());
        assert_silent(&RULE, &tiers(mib(10), -2, mib(10), 100));
        assert_silent(&RULE, &tiers(mib(10), 50, Bytes::new(0), 5));
        let mut zswap = firing();
        zswap.end.tiers[0].zswap_in_front = file("/sys/module/zswap/parameters/enabled", true);
        assert_silent(&RULE, &zswap);
    }
}
