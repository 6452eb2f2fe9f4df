// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `free` calls buff/cache is largely shmem, which cannot be dropped.

use pagewise_model::{Bytes, Evidence, Finding, Interval, Level, Severity, Snapshot};

use crate::Rule;
use crate::facts::memory_files::{self, ShmemHolder};
use crate::facts::{room, tiers};
use crate::proof::EvidenceList;
use crate::text::quoted;

pub(super) const RULE: Rule = Rule {
    id: "cache-not-cache",
    doc: "A large part of buff/cache is shared memory and files in tmpfs, which the kernel can swap but not drop.",
    diagnose,
};

/// From here on a reader of `free` is wrong by a third of what he takes for cache.
const OF_CACHE_PERCENT: f64 = 33.0;
/// Less of RAM than this misleads nobody.
const OF_RAM_PERCENT: f64 = 5.0;
/// This share of RAM matters also while memory is available.
const MUCH_OF_RAM_PERCENT: f64 = 18.0;

fn diagnose(interval: &Interval) -> Vec<Finding> {
    finding(&interval.end).into_iter().collect()
}

fn finding(host: &Snapshot) -> Option<Finding> {
    let memory = &host.memory;
    let shmem = memory.shmem.get()?;
    let cache: Bytes =
        [memory.buffers.get()?, memory.cached.get()?, memory.slab_reclaimable.get()?]
            .into_iter()
            .sum();
    let share = shmem.percent_of(cache)?.get();
    let of_ram = shmem.percent_of(memory.total.get()?)?.get();
    if share < OF_CACHE_PERCENT || of_ram < OF_RAM_PERCENT {
        return None;
    }
    let is_low = room::room(host).is_some_and(|room| room.level() > Level::Calm);
    if !is_low && of_ram < MUCH_OF_RAM_PERCENT {
        return None;
    }
    let stuck = tiers::swap_is_off(host);
    let held = memory_files::held_by(host);
    Some(Finding {
        id: RULE.id,
        severity: if stuck && is_low { Severity::Warning } else { Severity::Info },
        title: format!("{shmem} of the {cache} in buff/cache cannot be dropped"),
        what: describe(host, shmem, cache, stuck) + &named(shmem, &held),
        why:
            "Shared memory and files in tmpfs are part of the page cache, but no disk has a copy of them, so \
              the kernel can swap them out but not drop them. The command `free` counts them under buff/cache \
              but not under available."
                .to_owned(),
        evidence: EvidenceList::new()
            .named("Shmem", &memory.shmem)
            .named("Cached", &memory.cached)
            .named("Buffers", &memory.buffers)
            .named("SReclaimable", &memory.slab_reclaimable)
            .named("MemFree", &memory.free)
            .named("MemAvailable", &memory.available)
            .named("SwapTotal", &memory.swap_total)
            .all(proof(&held))
            .done(),
        next: next(host, &held),
    })
}

/// Who holds it, as a sentence; nothing where nobody is known to.
fn named(shmem: Bytes, held: &ShmemHolder<'_>) -> String {
    let mounts = held
        .mounts
        .iter()
        .filter_map(|mount| Some(format!("the tmpfs {} holds {}", mount.point, mount.used.get()?)));
    let holders = held.holders.iter().map(|holder| {
        format!("{} holds {} in open files that have no path", holder.name(), holder.bytes)
    });
    let all: Vec<String> = mounts.chain(holders).collect();
    // names of mounts may hold full stops
    let all = all.join(", ").replace(". ", ".");
    if all.is_empty() { all } else { format!(" Of the {shmem} of Shmem, {all}.") }
}

fn proof(held: &ShmemHolder<'_>) -> Vec<Evidence> {
    let mounts = held
        .mounts
        .iter()
        .fold(EvidenceList::new(), |proof, mount| proof.named("used (statfs)", &mount.used));
    let files = held.holders.iter().filter_map(|holder| holder.files.first());
    files.fold(mounts, |proof, file| proof.named("open file of", &file.bytes)).done()
}

fn next(host: &Snapshot, held: &ShmemHolder<'_>) -> Vec<String> {
    let fullest = held.mounts.first().map(|mount| {
        format!("sudo du -x -h --max-depth=2 {} | sort -h | tail", quoted(mount.point.as_str()))
    });
    let general = ["df -h --type=tmpfs", "ipcs --shmems --human"].map(str::to_owned);
    let files = &host.memory_files;
    let all_searched = files.processes_searched > 0 && files.processes_denied == 0;
    let search = (!all_searched).then(|| {
        "sudo find /proc/[0-9]*/fd -lname '*(deleted)' -printf '%p %l\\n\
         '  # deleted files that are still open"
            .to_owned()
    });
    fullest.into_iter().chain(general).chain(search).collect()
}

fn describe(host: &Snapshot, shmem: Bytes, cache: Bytes, stuck: bool) -> String {
    let room = host.memory.free.get().zip(host.memory.available.get());
    let room = room.map_or_else(String::new, |(free, available)| {
        format!(". {free} of memory are free, and {available} are available")
    });
    let swap = if stuck { ", and swap is off" } else { "" };
    format!(
        "{shmem} of the {cache} in buff/cache are shared memory and files in tmpfs (Shmem in \
         /proc/meminfo){swap}{room}."
    )
}

#[cfg(test)]
pub(super) mod tests {
    use pagewise_model::{DeletedFile, DeletedKind, Name, TmpfsMount};

    use super::*;
    use crate::testing::{assert_silent, calm, file, gib, line, mib, only, proof_of, with};

    fn shared(host: &mut Snapshot) {
        host.memory.shmem = line("/proc/meminfo", 23, gib(3));
    }

    pub(crate) fn firing() -> Interval {
        with(shared)
    }

    #[test]
    fn much_of_buff_cache_is_shmem() {
        let finding = only(&RULE, &firing());
        assert_eq!(finding.title, "3.0 GiB of the 5.4 GiB in buff/cache cannot be dropped");
        assert_eq!(
            finding.what,
            "3.0 GiB of the 5.4 GiB in buff/cache are shared memory and files in tmpfs (Shmem in \
             /proc/meminfo). 4.0 GiB of memory are free, and 9.0 GiB are available."
        );
        assert_eq!(finding.severity, Severity::Info);
    }

    #[test]
    fn mounts_and_processes_that_hold_a_good_part_are_named_and_proved() {
        let mount = |point: &str, used| TmpfsMount {
            point: Name::from(point),
            used: file(point, used),
            limit: file(point, gib(8)),
            files: file(point, 12),
        };
        let interval = with(|host| {
            shared(host);
            host.memory_files.mounts = vec![mount("/dev/shm", gib(2)), mount("/run", mib(9))];
            let bytes = file("/proc/812/fd/7", mib(600));
            let process = Name::from("Xwayland");
            let kind = DeletedKind::Memfd;
            host.memory_files.deleted =
                vec![DeletedFile { kind, bytes, pid: 812, process, others: 0 }];
        });
        let finding = only(&RULE, &interval);
        assert!(
            finding.what.ends_with(
                "available. Of the 3.0 GiB of Shmem, the tmpfs /dev/shm holds 2.0 GiB, Xwayland (pid 812) \
                 holds 600.0 MiB in open files that have no path."
            ),
            "{}",
            finding.what
        );
        let proof = proof_of(&finding);
        assert!(proof.contains("/dev/shm = used (statfs) 2.0 GiB\n"), "{proof}");
        assert!(proof.contains("/proc/812/fd/7 = open file of 600.0 MiB\n"), "{proof}");
        assert_eq!(finding.next[0], "sudo du -x -h --max-depth=2 /dev/shm | sort -h | tail");
    }

    #[test]
    fn without_swap_it_stays_where_it_is() {
        let stuck = with(|host| {
            shared(host);
            host.tiers.clear();
            host.memory.swap_total = line("/proc/meminfo", 15, Bytes::new(0));
            host.memory.available = line("/proc/meminfo", 3, gib(1));
        });
        let finding = only(&RULE, &stuck);
        assert_eq!(finding.severity, Severity::Warning);
        assert!(finding.what.contains("and swap is off"));
    }

    #[test]
    fn a_tenth_of_memory_matters_only_while_little_is_available() {
        let some = |host: &mut Snapshot| {
            host.memory.shmem = line("/proc/meminfo", 23, Bytes::new(1700 << 20));
            host.memory.cached = line("/proc/meminfo", 5, gib(2));
        };
        assert_silent(&RULE, &with(some));
        let low = with(|host| {
            some(host);
            host.memory.available = line("/proc/meminfo", 3, gib(1));
        });
        assert_eq!(only(&RULE, &low).severity, Severity::Info);
    }

    #[test]
    fn a_little_shmem_is_silent() {
        assert_silent(&RULE, &calm());
        let tiny = with(|host| {
            host.memory.shmem = line("/proc/meminfo", 23, Bytes::new(300 << 20));
            host.memory.cached = line("/proc/meminfo", 5, Bytes::new(400 << 20));
        });
        assert_silent(&RULE, &tiny);
    }
}
