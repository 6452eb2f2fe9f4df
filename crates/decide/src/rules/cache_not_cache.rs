// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: most of what `free` prints as buff/cache is shmem, which cannot be dropped.

use pagewise_facts::memory_files::{self, Holder};
use pagewise_facts::tiers;
use pagewise_model::{
    Bytes, DeletedKind, Evidence, Finding, Interval, Level, Severity, SharedSegment, Snapshot,
    TmpfsMount,
};

use crate::Rule;
use crate::grade::headroom;
use crate::proof::EvidenceList;
use crate::text::{process, quoted};

pub(super) const RULE: Rule = Rule {
    id: "cache-not-cache",
    doc: "A large part of buff/cache is shared memory and files in tmpfs, which the kernel can swap but not drop.",
    diagnose,
};

/// Minimum share of shmem in the cache, in percent, for a finding: at this share, `free` prints a
/// third more than can be dropped.
const OF_CACHE_PERCENT: f64 = 33.0;
/// If shmem is a smaller share of RAM than this, in percent, there is no finding.
const OF_RAM_PERCENT: f64 = 5.0;
/// If shmem is at least this share of RAM, in percent, there is a finding even if memory is
/// available.
const MUCH_OF_RAM_PERCENT: f64 = 18.0;
/// Maximum number of mounts, and of processes, that are named.
const NAMED: usize = 3;
/// Users of a smaller share of shmem than this, in percent, are not named.
const OF_SHMEM_PERCENT: f64 = 5.0;

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
    let is_low = headroom::level_of_host(host) > Some(Level::Calm);
    if !is_low && of_ram < MUCH_OF_RAM_PERCENT {
        return None;
    }
    let stuck = tiers::is_swap_off(host);
    let held = find_holder(host);
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: if stuck && is_low { Severity::Warning } else { Severity::Info },
        title: format!("{shmem} of the {cache} in buff/cache cannot be dropped"),
        what: describe(host, shmem, cache, stuck)
            + &name_holder(shmem, &held)
            + &name_rest(host, shmem),
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
            .into_evidence(),
        next: next(host, &held),
    })
}

/// Returns a sentence that names the mounts and processes that hold most of shmem; empty if none is
/// known.
fn name_holder(shmem: Bytes, held: &ShmemHolder<'_>) -> String {
    let mounts = held
        .mounts
        .iter()
        .filter_map(|mount| Some(format!("the tmpfs {} holds {}", mount.point, mount.used.get()?)));
    let holders = held.holders.iter().map(|holder| {
        format!(
            "{} holds {} in open files that have no path",
            process(holder.process.as_str(), holder.pid),
            holder.bytes
        )
    });
    let segments = held.segments.iter().filter_map(|segment| {
        let (id, held) = (segment.id, segment.held_bytes()?);
        Some(format!("the System V shared memory with id {id} holds {held}"))
    });
    let all: Vec<String> = mounts.chain(holders).chain(segments).collect();
    let all = all.join(", ");
    if all.is_empty() { all } else { format!(" Of the {shmem} of Shmem, {all}.") }
}

/// Returns a sentence about shmem that nothing which was read accounts for, if that is most of it.
/// Empty if the use of a tmpfs is unknown, because it could account for this shmem.
fn name_rest(host: &Snapshot, shmem: Bytes) -> String {
    let files = &host.memory_files;
    let mounts: Option<Bytes> = files.mounts.iter().map(|mount| mount.used.get()).sum();
    let Some(mounts) = mounts.filter(|_| !files.mounts.is_empty()) else { return String::new() };
    let holders = memory_files::find_holders(files, |kind| kind != DeletedKind::Tmpfs);
    let open: Bytes = holders.iter().map(|holder| holder.bytes).sum();
    let segments: Bytes = files.segments.iter().filter_map(SharedSegment::held_bytes).sum();
    let rest = shmem.saturating_sub([mounts, open, segments].into_iter().sum());
    if rest.get() <= shmem.get() / 2 {
        return String::new();
    }
    let segments = if files.segments.is_empty() { "System V shared memory, " } else { "" };
    format!(
        " {rest} of Shmem are in no tmpfs and no open file that was found: they may be {segments}memory that processes \
         share after a fork, or files of a container."
    )
}

fn proof(held: &ShmemHolder<'_>) -> Vec<Evidence> {
    let mounts = held
        .mounts
        .iter()
        .fold(EvidenceList::new(), |proof, mount| proof.named("used (statfs)", &mount.used));
    let files = held.holders.iter().filter_map(|holder| holder.files.first());
    let proof = files.fold(mounts, |proof, file| proof.named("open file of", &file.bytes));
    let named = |proof: EvidenceList, segment: &&SharedSegment| {
        proof.named(&format!("segment {} in RAM", segment.id), &segment.resident)
    };
    held.segments.iter().fold(proof, named).into_evidence()
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
    let is_rest = host.memory.shmem.get().is_some_and(|shmem| !name_rest(host, shmem).is_empty());
    let mut commands: Vec<String> = fullest.into_iter().chain(general).chain(search).collect();
    // the first command should be about the most likely cause
    let at = commands.iter().position(|command| command.starts_with("ipcs"));
    if let Some(at) = at.filter(|_| is_rest) {
        commands[..=at].rotate_right(1);
    }
    commands
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

/// The mounts and processes that hold most of shmem, and how much.
#[derive(Debug)]
struct ShmemHolder<'a> {
    mounts: Vec<&'a TmpfsMount>,
    holders: Vec<Holder<'a>>,
    segments: Vec<&'a SharedSegment>,
}

/// Finds the mounts that hold most of shmem, and the processes with files that never had a path
/// (memfd). Deleted files are counted for their mount.
fn find_holder(host: &Snapshot) -> ShmemHolder<'_> {
    let shmem = host.memory.shmem.get().unwrap_or_default();
    let is_part = |bytes: Bytes| {
        bytes > Bytes::default()
            && bytes.percent_of(shmem).is_some_and(|share| share.get() >= OF_SHMEM_PERCENT)
    };
    let files = &host.memory_files;
    let mounts = files.mounts.iter().filter(|mount| mount.used.get().is_some_and(is_part));
    let holders = memory_files::find_holders(files, |kind| kind != DeletedKind::Tmpfs).into_iter();
    ShmemHolder {
        mounts: mounts.take(NAMED).collect(),
        holders: holders.filter(|holder| is_part(holder.bytes)).take(NAMED).collect(),
        segments: files
            .segments
            .iter()
            .filter(|segment| segment.held_bytes().is_some_and(is_part))
            .take(NAMED)
            .collect(),
    }
}

#[cfg(test)]
#[path = "../../tests/rules/cache_not_cache.rs"]
pub(super) mod tests;
