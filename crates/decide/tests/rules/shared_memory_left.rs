// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Segments and queues that nobody uses.

use pagewise_model::{MessageQueue, Severity};

use super::*;
use crate::testing::{assert_silent, calm, gib, line, mib, only, proof_of, with};

const SHM: &str = "/proc/sysvipc/shm";
const MSG: &str = "/proc/sysvipc/msg";

fn segment(id: u64, held: Bytes, attached: u64) -> SharedSegment {
    let at = 2 + u32::try_from(id).unwrap();
    SharedSegment {
        id,
        size: line(SHM, at, held),
        resident: line(SHM, at, held),
        swapped: line(SHM, at, Bytes::new(0)),
        attached: line(SHM, at, attached),
        uid: line(SHM, at, 26),
        creator: 812,
        detached_at: line(SHM, at, 1_000_000),
    }
}

fn having(segments: Vec<SharedSegment>) -> Interval {
    with(|host| {
        host.taken.unix_seconds = 1_000_600.0;
        host.memory_files.segments = segments;
    })
}

pub(in crate::rules) fn host_with_finding() -> Interval {
    having(vec![segment(9, gib(2), 4), segment(7, gib(1), 0), segment(8, mib(10), 0)])
}

pub(in crate::rules) fn host_with_queue_finding() -> Interval {
    with(|host| {
        host.memory_files.queues = vec![MessageQueue {
            id: 3,
            bytes: line(MSG, 2, mib(400)),
            messages: line(MSG, 2, 51_200),
            uid: line(MSG, 2, 26),
            ..MessageQueue::default()
        }];
    })
}

#[test]
fn the_segment_is_named_with_its_owner_and_how_to_remove_it() {
    let finding = only(&RULE, &host_with_finding());
    assert_eq!(finding.severity, Severity::Info);
    assert_eq!(finding.title, "1.0 GiB of shared memory is attached to no process");
    assert_eq!(
        finding.what,
        "2 segments of System V shared memory hold 1.0 GiB, and no process is attached: id 7 of user 26 has \
         1.0 GiB, created by pid 812, which has ended, last used 10 minutes ago; id 8 of user 26 has 10.0 MiB, \
         created by pid 812, which has ended, last used 10 minutes ago."
    );
    assert_eq!(
        finding.next,
        [
            "ipcs -m -i 7",
            "sudo ipcrm -m 7  # writes; the data in the segment is lost; first make sure that no program needs it"
        ]
    );
    assert!(proof_of(&finding).contains("/proc/sysvipc/shm:9 = segment 7 attachments 0"));
}

#[test]
fn a_third_of_ram_is_a_warning() {
    assert_eq!(only(&RULE, &having(vec![segment(7, gib(6), 0)])).severity, Severity::Warning);
}

#[test]
fn messages_that_nobody_reads_are_told() {
    let finding = only(&RULE, &host_with_queue_finding());
    assert_eq!(
        finding.what,
        "51,200 messages in 1 queue take 400.0 MiB; the fullest queue, id 3 of user 26, has 400.0 MiB."
    );
}

#[test]
fn what_is_attached_small_or_not_known_is_no_trouble() {
    assert_silent(&RULE, &calm());
    assert_silent(&RULE, &having(vec![segment(9, gib(6), 1)]));
    assert_silent(&RULE, &having(vec![segment(9, mib(100), 0)]));
    let mut unknown = segment(7, gib(6), 0);
    unknown.attached = Reading::not_read();
    assert_silent(&RULE, &having(vec![unknown]));
    let mut old = segment(7, gib(6), 0);
    old.resident = Reading::absent("this kernel does not print it", pagewise_model::Source::none());
    assert_silent(&RULE, &having(vec![old]));
}
