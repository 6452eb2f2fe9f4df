// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines whether two snapshots are of the same host and boot.
//!
//! Equal boot ids prove it. The ids can be equal if both hosts were read directly or are from the
//! same recording, but not in two different recordings, because each of them hashes its ids with a
//! random key. In this case the relation is derived from other facts: one boot has a single start
//! time, kernel and size of RAM, counters that only increase, and processes with equal start times
//! (to 10 ms). Facts that contradict it are listed as reasons.

use std::collections::BTreeMap;

use pagewise_model::{
    Bytes, Millis, Name, Process, Quantity, Reading, Relation, Snapshot, duration,
};

/// How two readings are related (for example the same boot), and the reasons for that conclusion.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) relation: Relation,
    pub(crate) reasons: Vec<String>,
}

/// Maximum error of a clock that is adjusted gradually, as a share of the time between the
/// readings: the kernel slews a clock by at most 500 ppm.
const SLEWED: f64 = 0.0005;
/// Number of seconds by which a clock may have been set, in addition to gradual adjustments.
const SET: f64 = 2.0;
/// If at least this many processes have equal ids and start times, both readings are of the same
/// boot.
const SHARED: usize = 3;
/// Processes that started within this time after the boot are not considered, because their start
/// times are similar in every boot.
const AFTER_BOOT: Millis = Millis::new(20_000);
/// If the sizes of RAM differ by less than this, in percent, they may be of the same machine: the
/// total differs slightly between kernels.
const RAM_PERCENT: f64 = 2.0;

pub(crate) fn determine_relation(before: &Snapshot, after: &Snapshot) -> Found {
    if let Some(same) = compare_boot_ids(before, after) {
        return same;
    }
    let other_host = hardware_differences(before, after);
    if !other_host.is_empty() {
        return Found { relation: Relation::AnotherHost, reasons: other_host };
    }
    let shared = shared_processes(before, after);
    let against = evidence_against_one_boot(before, after, shared);
    if !against.is_empty() {
        return Found { relation: Relation::AnotherBoot, reasons: against };
    }
    Found {
        relation: Relation::SameBoot,
        reasons: vec![evidence_for_one_boot(before, after, shared)],
    }
}

fn compare_boot_ids(before: &Snapshot, after: &Snapshot) -> Option<Found> {
    let (one, other) = (before.taken.boot_id.value()?, after.taken.boot_id.value()?);
    let found = |relation, reason: &str| Found { relation, reasons: vec![reason.to_owned()] };
    if one == other {
        let reason = if is_later(before, after) {
            "both have the same boot id"
        } else {
            "both have the same boot id, and the second was read before the first: give them in the other order \
             for rates"
        };
        return Some(found(Relation::SameBoot, reason));
    }
    let differ = !is_hashed(one) && !is_hashed(other);
    let same_name = before.host.name.value() == after.host.name.value();
    differ.then(|| {
        if same_name {
            found(Relation::AnotherBoot, "the boot ids differ")
        } else {
            found(Relation::AnotherHost, "the host names and the boot ids differ")
        }
    })
}

/// Whether the boot id is from a recording, in which it has 16 hexadecimal digits; the kernel's own
/// is a UUID with hyphens.
pub(crate) fn is_hashed(boot_id: &Name) -> bool {
    !boot_id.as_str().contains('-')
}

/// Whether the second reading was made after the first, as far as their times are known.
fn is_later(before: &Snapshot, after: &Snapshot) -> bool {
    after.taken.monotonic_seconds > before.taken.monotonic_seconds
}

/// Time since boot in seconds; `None` if it was not recorded.
pub(crate) fn uptime(host: &Snapshot) -> Option<f64> {
    let read = host.taken.uptime.get().map(|uptime| uptime.get() as f64 / 1000.0);
    let recorded = Some(host.taken.monotonic_seconds).filter(|seconds| *seconds > 0.0);
    recorded.or(read)
}

/// Time at which the host booted, in seconds since 1970.
fn boot_time(host: &Snapshot) -> Option<f64> {
    let now = Some(host.taken.unix_seconds).filter(|seconds| *seconds > 0.0)?;
    Some(now - uptime(host)?)
}

fn hardware_differences(before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let mut reasons = Vec::new();
    let (one, other) = (&before.host, &after.host);
    reasons.extend(differs("the architecture", &one.architecture, &other.architecture));
    reasons.extend(differs("the size of a page", &one.page_size, &other.page_size));
    reasons.extend(differs("the number of CPUs", &one.cpus, &other.cpus));
    reasons.extend(ram_difference(&before.memory.total, &after.memory.total));
    reasons
}

fn differs<T: Quantity + PartialEq>(
    what: &str,
    one: &Reading<T>,
    other: &Reading<T>,
) -> Option<String> {
    let (one, other) = (one.value()?, other.value()?);
    (one != other).then(|| format!("{what} is {} before and {} after", one.shown(), other.shown()))
}

fn ram_difference(one: &Reading<Bytes>, other: &Reading<Bytes>) -> Option<String> {
    let (before, after) = (one.get()?, other.get()?);
    let share = before.get().abs_diff(after.get()) as f64 * 100.0 / before.get().max(1) as f64;
    (share > RAM_PERCENT).then(|| format!("RAM is {before} before and {after} after"))
}

/// Returns the number of processes with equal ids and start times that started long after the boot.
fn shared_processes(before: &Snapshot, after: &Snapshot) -> usize {
    let begun = |process: &Process| process.start_time.get().filter(|begun| *begun > AFTER_BOOT);
    let earlier: BTreeMap<u32, Millis> =
        before.processes.list.iter().filter_map(|it| Some((it.pid, begun(it)?))).collect();
    let is_shared =
        |it: &&Process| earlier.get(&it.pid).copied() == begun(it) && begun(it).is_some();
    after.processes.list.iter().filter(is_shared).count()
}

fn evidence_against_one_boot(before: &Snapshot, after: &Snapshot, shared: usize) -> Vec<String> {
    let mut reasons = Vec::new();
    if let Some((one, other)) = different_kernels(before, after) {
        reasons.push(format!("the kernel is {one} before and {other} after"));
    }
    reasons.extend(evidence_of_another_start(before, after, shared));
    if is_later(before, after) {
        reasons.extend(find_decreased_counter(before, after));
    }
    reasons
}

/// Returns the kernels of both readings, if both are known and their versions differ.
pub(crate) fn different_kernels<'a>(
    before: &'a Snapshot,
    after: &'a Snapshot,
) -> Option<(&'a Name, &'a Name)> {
    let kernels = (before.taken.kernel.value()?, after.taken.kernel.value()?);
    (version(kernels.0) != version(kernels.1)).then_some(kernels)
}

/// Returns the numeric part of a kernel release, which is the only part that recordings contain.
fn version(release: &Name) -> &str {
    let text = release.as_str();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].trim_end_matches('.')
}

/// Returns facts which show that the two readings are of different boots. If a process exists in
/// both readings, they are of the same boot, even if the clock was set in between.
fn evidence_of_another_start(before: &Snapshot, after: &Snapshot, shared: usize) -> Option<String> {
    if shared >= SHARED {
        return None;
    }
    let (Some(one), Some(other)) = (boot_time(before), boot_time(after)) else {
        return Some("when they were booted is not known for both".to_owned());
    };
    let between = (after.taken.unix_seconds - before.taken.unix_seconds).abs();
    let apart = (other - one).abs();
    let order = if other > one { "after" } else { "before" };
    (apart > SET + SLEWED * between).then(|| {
        format!("the second was booted {} {order} the first", duration::format_rough(apart))
    })
}

/// Returns facts which show different boots: a counter that only increases while a kernel runs is
/// smaller in the second reading.
fn find_decreased_counter(before: &Snapshot, after: &Snapshot) -> Option<String> {
    let is_less = |name: &&&str| {
        let (one, other) = (before.vmstat.get(name).get(), after.vmstat.get(name).get());
        one.zip(other).is_some_and(|(one, other)| other < one)
    };
    let name = ["pgfault", "pgpgin", "pswpout"].iter().find(is_less)?;
    Some(format!("the counter {name} is lower after than before"))
}

fn evidence_for_one_boot(before: &Snapshot, after: &Snapshot, shared: usize) -> String {
    let alike = "the same kernel, the same RAM and the same CPUs";
    let mut reason = match shared {
        0 => format!("both were booted at the same time and have {alike}"),
        _ => format!("both have {alike}, and {shared} processes that began at the same time"),
    };
    if !is_later(before, after) {
        reason.push_str(
            "; the second was read before the first: give them in the other order for rates",
        );
    }
    reason
}
