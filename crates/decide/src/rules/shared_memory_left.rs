// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rule: System V shared memory exists without a process that uses it, or message queues that
//! nobody reads.
//!
//! Both exist until they are removed, so that a program that crashes leaves them behind. A segment
//! to which no process is attached may still be needed, because some programs attach to it again
//! after a restart.

use pagewise_model::{Bytes, Finding, Interval, Reading, SharedSegment, Snapshot, Subject};

use crate::Rule;
use crate::grade::stranded;
use crate::proof::EvidenceList;
use crate::text::{count_of, format_roughly, mark_writing_with_caution};

pub(super) const RULE: Rule = Rule {
    id: "shared-memory-left",
    doc: "System V shared memory to which no process is attached, or messages in System V queues, take memory until \
          somebody removes them.",
    diagnose,
};

/// Minimum share of RAM, in percent, of such memory for a finding.
const WORTH_PERCENT: f64 = 2.0;
/// Maximum number of segments and queues that are named.
const NAMED: usize = 3;

fn diagnose(interval: &Interval) -> Vec<Finding> {
    let host = &interval.end;
    [find_segments(host), find_queues(host)].into_iter().flatten().collect()
}

fn is_worth_finding(host: &Snapshot, held: Bytes) -> Option<bool> {
    Some(held.percent_of(host.memory.total.get()?)?.get() >= WORTH_PERCENT)
}

fn find_segments(host: &Snapshot) -> Option<Finding> {
    let all = host.memory_files.segments.iter();
    let left =
        all.filter(|it| it.attached.get() == Some(0) && it.held_bytes() > Some(Bytes::new(0)));
    let left: Vec<&SharedSegment> = left.collect();
    let held: Bytes = left.iter().filter_map(|it| it.held_bytes()).sum();
    let largest = left.first().filter(|_| is_worth_finding(host, held) == Some(true))?;
    let named = left.iter().take(NAMED);
    let each: Vec<String> = named.clone().map(|segment| describe(host, segment)).collect();
    let proof = named.clone().fold(EvidenceList::new(), |proof, segment| {
        let rest = format!("segment {}", segment.id);
        proof
            .named(&format!("{rest} attachments"), &segment.attached)
            .named(&format!("{rest} in RAM"), &segment.resident)
            .named(&format!("{rest} in swap"), &segment.swapped)
    });
    let remove = format!("sudo ipcrm -m {}", largest.id);
    Some(Finding {
        id: RULE.id,
        about: None,
        severity: stranded::severity(host, held),
        title: format!("{held} of shared memory is attached to no process"),
        what: format!(
            "{} of System V shared memory {} {held}, and no process is attached: {}.",
            count_of(left.len() as u64, "segment"),
            if left.len() == 1 { "holds" } else { "hold" },
            each.join("; ")
        ),
        why: "The kernel keeps a segment of System V shared memory until it is removed, even after the last process \
              that used it has ended, usually in a crash. Its pages count as shmem, so they can be swapped but not \
              dropped. A program that attaches to it again finds its data there; after ipcrm that data is lost."
            .to_owned(),
        evidence: proof.named("Shmem", &host.memory.shmem).into_evidence(),
        next: vec![
            format!("ipcs -m -i {}", largest.id),
            mark_writing_with_caution(remove, "the data in the segment is lost; first make sure that no program needs it"),
        ],
    })
}

fn describe(host: &Snapshot, segment: &SharedSegment) -> String {
    let held = segment.held_bytes().unwrap_or_default();
    let owner = segment.uid.get().map_or_else(String::new, |uid| format!(" of user {uid}"));
    let creator = describe_creator(host, segment.creator);
    format!(
        "id {}{owner} has {held}, {creator}{}",
        segment.id,
        describe_age(host, &segment.detached_at, ", last used")
    )
}

/// Names the creator of a segment: its id, and the process that has this id now, if there is one.
fn describe_creator(host: &Snapshot, pid: u32) -> String {
    if host.processes.list.is_empty() {
        return format!("created by pid {pid}");
    }
    match host.processes.list.iter().find(|process| process.pid == pid) {
        Some(process) => format!("created by pid {pid}, which is {} now", process.name),
        None => format!("created by pid {pid}, which has ended"),
    }
}

fn describe_age(host: &Snapshot, at: &Reading<u64>, verb: &str) -> String {
    let seconds = at.get().map(|at| host.taken.unix_seconds - at as f64);
    let known = seconds.filter(|seconds| *seconds >= 0.0);
    known.map_or_else(String::new, |seconds| format!("{verb} {} ago", format_roughly(seconds)))
}

fn find_queues(host: &Snapshot) -> Option<Finding> {
    let all = &host.memory_files.queues;
    let held: Bytes = all.iter().filter_map(|queue| queue.bytes.get()).sum();
    let fullest = all.first().filter(|_| is_worth_finding(host, held) == Some(true))?;
    let messages: u64 =
        all.iter().filter_map(|queue| queue.messages.get()).fold(0, u64::saturating_add);
    let owner = fullest.uid.get().map_or_else(String::new, |uid| format!(" of user {uid}"));
    let bytes = fullest.bytes.get().unwrap_or_default();
    Some(Finding {
        id: RULE.id,
        about: Some(Subject::part("message queues")),
        severity: stranded::severity(host, held),
        title: format!("{held} of messages wait in System V message queues"),
        what: format!(
            "{} in {} take {held}; the fullest queue, id {}{owner}, has {bytes}{}.",
            count_of(messages, "message"),
            count_of(all.len() as u64, "queue"),
            fullest.id,
            describe_age(host, &fullest.received_at, ", last read")
        ),
        why: "The kernel keeps a message in memory of its own until a program receives it, and a queue until it is \
              removed, even if all programs that used it have ended. This memory can be neither dropped nor swapped."
            .to_owned(),
        evidence: EvidenceList::new()
            .named(&format!("queue {} bytes", fullest.id), &fullest.bytes)
            .named(&format!("queue {} messages", fullest.id), &fullest.messages)
            .into_evidence(),
        next: vec![
            format!("ipcs -q -i {}", fullest.id),
            mark_writing_with_caution(
                format!("sudo ipcrm -q {}", fullest.id),
                "the messages are lost; first make sure that no program needs them",
            ),
        ],
    })
}

#[cfg(test)]
#[path = "../../tests/rules/shared_memory_left.rs"]
pub(super) mod tests;
