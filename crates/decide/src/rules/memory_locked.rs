// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: much memory is locked in RAM. It cannot be reclaimed, however much swap there is.
//!
//! `Unevictable` includes memory locked by mlock and SHM_LOCK, ramfs, and secret memory
//! (memfd_secret). It includes neither pages pinned by a device (VFIO, RDMA) nor huge pages of a
//! hugetlb pool.

use pagewise_model::{Bytes, Evidence, Finding, Interval, Process, Severity, Snapshot};

use crate::Rule;
use crate::grade::stranded;
use crate::proof::EvidenceList;
use crate::text::{quoted, shorten_name};

pub(super) const RULE: Rule = Rule {
    id: "memory-locked",
    doc: "A large share of RAM is locked (mlock, SHM_LOCK, ramfs), so the kernel can neither swap nor drop it.",
    diagnose,
};

const WORTH_PERCENT: f64 = 25.0;
/// Share of RAM, in percent, from which on locked memory is a warning: all other programs have to
/// share the remaining RAM.
const MUCH_PERCENT: f64 = 50.0;
/// Maximum number of ramfs mounts that are named.
const NAMED: usize = 3;

fn diagnose(interval: &Interval) -> Vec<Finding> {
    finding(&interval.end).into_iter().collect()
}

fn finding(host: &Snapshot) -> Option<Finding> {
    let total = host.memory.total.get()?;
    let held = host.memory.unevictable.get()?;
    let percent = held.percent_of(total)?.get();
    if percent < WORTH_PERCENT {
        return None;
    }
    let mlocked = host.memory.mlocked.get();
    let unlocked = mlocked.map(|mlocked| held.saturating_sub(mlocked));
    if let Some(unlocked) = unlocked.filter(|unlocked| unlocked.get() > held.get() / 2) {
        return Some(finding_without_mlock(host, held, total, unlocked));
    }
    let owner = largest(host);
    let named = owner.map_or_else(String::new, |(process, bytes)| {
        format!(
            "; {} (pid {}) locked the most: {bytes}",
            shorten_name(process.name.as_str()),
            process.pid
        )
    });
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: if percent >= MUCH_PERCENT { Severity::Warning } else { Severity::Info },
        title: format!("{percent:.0} % of RAM is locked and cannot be reclaimed"),
        what: format!("{} of RAM are unevictable{named}.", held.part_of(total)),
        why: "Locked memory stays in RAM even if no program has used it for days, so under memory pressure the \
              kernel reclaims pages of other programs instead. Databases, key stores and virtual machines lock \
              memory on purpose; all other programs then have to fit into the rest of RAM."
            .to_owned(),
        evidence: proof(host, owner),
        next: vec![
            "grep -H VmLck /proc/[0-9]*/status | sort -k2 -n -r | head".to_owned(),
            "ipcs -m; grep ramfs /proc/self/mounts".to_owned(),
        ],
    })
}

/// Returns the finding about unevictable memory that was not locked with mlock.
fn finding_without_mlock(host: &Snapshot, held: Bytes, total: Bytes, unlocked: Bytes) -> Finding {
    let percent = held.percent_of(total).map_or(0.0, pagewise_model::Percent::get);
    let mounts: Vec<&str> =
        host.memory_files.ramfs.iter().take(NAMED).map(pagewise_model::Name::as_str).collect();
    let mounted = match mounts.as_slice() {
        [] => String::new(),
        [one] => format!(" A ramfs is mounted at {one}; the kernel does not count what is in it."),
        more => format!(
            " ramfs is mounted at {}; the kernel does not count what is in it.",
            more.join(", ")
        ),
    };
    let size = |point: &&str| format!("sudo du -x -s -h {}", quoted(point));
    Finding {
        id: RULE.id,
        about: None,
        severity: stranded::severity(host, unlocked),
        title: format!("{percent:.0} % of RAM cannot be reclaimed, and mlock is not the reason"),
        what: format!(
            "{} of RAM are unevictable, and mlock explains only {} of it: the rest are files in a ramfs, shared memory \
             locked with SHM_LOCK, or secret memory.{mounted}",
            held.part_of(total),
            held.saturating_sub(unlocked)
        ),
        why: "A file in a ramfs stays in RAM until it is deleted: a ramfs has no size limit, and the kernel can \
              neither drop nor swap its files, although they count as page cache. Locked shared memory stays until \
              it is unlocked or removed. No process in ps or top shows either as its own."
            .to_owned(),
        evidence: proof(host, None),
        next: mounts
            .iter()
            .map(size)
            .chain(["grep ramfs /proc/[0-9]*/mounts | sort -u -k2,2 | head; ipcs -m".to_owned()])
            .collect(),
    }
}

fn largest(host: &Snapshot) -> Option<(&Process, Bytes)> {
    let locking = |process: &Process| process.locked.get().filter(|&locked| locked > Bytes::new(0));
    let known = host.processes.list.iter();
    let known = known.filter_map(|process| Some((process, locking(process)?)));
    known.max_by_key(|(_, bytes)| *bytes)
}

fn proof(host: &Snapshot, owner: Option<(&Process, Bytes)>) -> Vec<Evidence> {
    let proof = EvidenceList::new()
        .named("Unevictable", &host.memory.unevictable)
        .named("Mlocked", &host.memory.mlocked)
        .named("MemTotal", &host.memory.total);
    match owner {
        Some((process, _)) => proof.named("VmLck", &process.locked).into_evidence(),
        None => proof.into_evidence(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::testing::{assert_silent, calm, gib, line, mib, only, with};

    fn interval_with(held: Bytes) -> Interval {
        with(|host| {
            host.memory.unevictable = line("/proc/meminfo", 12, held);
            host.memory.mlocked = line("/proc/meminfo", 13, held);
            host.processes.list[0].locked = line("/proc/4121/status", 19, mib(5000));
        })
    }

    pub(crate) fn host_with_finding() -> Interval {
        interval_with(gib(5))
    }

    #[test]
    fn a_third_of_ram_is_worth_knowing_and_half_a_warning() {
        let finding = only(&RULE, &host_with_finding());
        assert_eq!(finding.title, "31 % of RAM is locked and cannot be reclaimed");
        assert_eq!(finding.severity, Severity::Info);
        assert!(finding.what.contains("; postgres (pid 4121) locked the most: 4.9 GiB"));
        assert_eq!(only(&RULE, &interval_with(gib(8))).severity, Severity::Warning);
    }

    #[test]
    fn nobody_is_named_where_nobody_says_so() {
        let mut interval = host_with_finding();
        interval.end.processes.list[0].locked = line("/proc/4121/status", 19, Bytes::new(0));
        assert_eq!(only(&RULE, &interval).what, "5.0 of 16.0 GiB of RAM are unevictable.");
    }

    /// A host with a ramfs that contains 5 GiB of files.
    pub(crate) fn host_with_ramfs_finding() -> Interval {
        let mut interval = host_with_finding();
        interval.end.memory.mlocked = line("/proc/meminfo", 13, Bytes::new(0));
        interval.end.memory_files.ramfs = vec!["/srv/scratch".into()];
        interval
    }

    #[test]
    fn a_ramfs_is_named_where_mlock_is_not_the_reason() {
        let finding = only(&RULE, &host_with_ramfs_finding());
        assert_eq!(finding.title, "31 % of RAM cannot be reclaimed, and mlock is not the reason");
        assert_eq!(finding.severity, Severity::Warning);
        assert_eq!(
            finding.what,
            "5.0 of 16.0 GiB of RAM are unevictable, and mlock explains only 0 B of it: the rest are files in a \
             ramfs, shared memory locked with SHM_LOCK, or secret memory. A ramfs is mounted at /srv/scratch; the \
             kernel does not count what is in it."
        );
        assert_eq!(finding.next[0], "sudo du -x -s -h /srv/scratch");
        let mut without = host_with_ramfs_finding();
        without.end.memory_files.ramfs.clear();
        assert!(only(&RULE, &without).what.ends_with("or secret memory."));
    }

    #[test]
    fn a_little_is_usual() {
        assert_silent(&RULE, &calm());
        assert_silent(&RULE, &interval_with(gib(3)));
    }
}
