// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists processes that changed: individually if the process exists in both readings, otherwise
//! grouped by name.

use std::collections::BTreeMap;

use pagewise_model::{Bytes, Interval, Name, Presence, Process, ProgramChange};

use crate::names::Matching;

/// If memory and swap of a program changed by less than this many bytes, the change is noise.
const LEAST: u64 = 1 << 20;

/// Returns the processes and programs that changed, the largest change first.
pub(crate) fn program_changes(interval: &Interval, matching: &Matching) -> Vec<ProgramChange> {
    let Some(start) = interval.start.as_deref() else { return Vec::new() };
    let earlier: BTreeMap<u32, &Process> =
        start.processes.list.iter().map(|it| (it.pid, it)).collect();
    let is_matched = |process: &&Process| matching.processes.contains(&process.pid);
    let (same, new): (Vec<&Process>, Vec<&Process>) =
        interval.end.processes.list.iter().partition(is_matched);
    let same =
        same.into_iter().filter_map(|now| Some(change_of_process(earlier.get(&now.pid)?, now)));
    let gone = start.processes.list.iter().filter(|process| !is_matched(process));
    let all = same.chain(changes_by_name(gone, new.into_iter(), matching));
    // a recording over time is made by a process of Pagewise, which is not a part of the load
    let of_others = all.filter(|change| change.name.as_str() != "pagewise");
    let mut changes: Vec<ProgramChange> = of_others.filter(is_worth_it).collect();
    changes.sort_by(|one, other| {
        let key = |it: &ProgramChange| (it.name.clone(), it.pid);
        moved_bytes(other).cmp(&moved_bytes(one)).then_with(|| key(one).cmp(&key(other)))
    });
    changes
}

/// Returns the change of a process that exists in both readings.
fn change_of_process(then: &Process, now: &Process) -> ProgramChange {
    let cpu = now.cpu_time.get().zip(then.cpu_time.get());
    let cpu = cpu.and_then(|(now, then)| now.get().checked_sub(then.get()));
    let faults = now.major_faults.get().zip(then.major_faults.get());
    ProgramChange {
        name: now.name.clone(),
        pid: Some(now.pid),
        presence: Presence::Same,
        count_before: 1,
        count_after: 1,
        resident_before: then.resident(),
        resident_after: now.resident(),
        swap_before: then.swap.get(),
        swap_after: now.swap.get(),
        cpu_seconds: cpu.map(|millis| millis as f64 / 1000.0),
        major_faults: faults.and_then(|(now, then)| now.checked_sub(then)),
    }
}

/// Groups all other processes by name. A numbered name of one recording is never matched with a
/// number of the other recording.
fn changes_by_name<'a>(
    before: impl Iterator<Item = &'a Process>,
    after: impl Iterator<Item = &'a Process>,
    matching: &Matching,
) -> Vec<ProgramChange> {
    let mut named: BTreeMap<(&'a Name, bool), [Vec<&'a Process>; 2]> = BTreeMap::new();
    let sides = before.map(|it| (it, 0)).chain(after.map(|it| (it, 1)));
    for (process, side) in sides {
        // a numbered name forms a separate group for each reading
        let apart = side == 1 && !matching.is_unambiguous(&process.name);
        named.entry((&process.name, apart)).or_default()[side].push(process);
    }
    named
        .into_iter()
        .map(|((name, _), [before, after])| change_of_namesakes(name, &before, &after))
        .collect()
}

fn change_of_namesakes(name: &Name, before: &[&Process], after: &[&Process]) -> ProgramChange {
    let presence = match (before.is_empty(), after.is_empty()) {
        (false, true) => Presence::Gone,
        (true, _) => Presence::New,
        (false, false) => Presence::Namesake,
    };
    let sum = |all: &[&Process], pick: fn(&Process) -> Option<Bytes>| {
        let known = all.iter().map(|it| pick(it));
        known.reduce(|sum, one| Some(sum?.saturating_add(one?))).flatten()
    };
    ProgramChange {
        name: name.clone(),
        pid: None,
        presence,
        count_before: before.len(),
        count_after: after.len(),
        resident_before: sum(before, Process::resident),
        resident_after: sum(after, Process::resident),
        swap_before: sum(before, |it| it.swap.get()),
        swap_after: sum(after, |it| it.swap.get()),
        cpu_seconds: None,
        major_faults: None,
    }
}

/// Returns the number of bytes by which resident memory and swap of the program changed.
fn moved_bytes(change: &ProgramChange) -> u64 {
    let moved = |before: Option<Bytes>, after: Option<Bytes>| {
        before.unwrap_or_default().get().abs_diff(after.unwrap_or_default().get())
    };
    moved(change.resident_before, change.resident_after)
        .saturating_add(moved(change.swap_before, change.swap_after))
}

fn is_worth_it(change: &ProgramChange) -> bool {
    moved_bytes(change) >= LEAST || change.major_faults.is_some_and(|faults| faults > 0)
}
