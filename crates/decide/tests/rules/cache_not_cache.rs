// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shared memory that looks like page cache.

use pagewise_model::{DeletedFile, DeletedKind, Name, TmpfsMount};

use super::*;
use crate::testing::{assert_silent, calm, file, gib, line, mib, only, proof_of, with};

fn shared(host: &mut Snapshot) {
    host.memory.shmem = line("/proc/meminfo", 23, gib(3));
}

pub(crate) fn host_with_finding() -> Interval {
    with(shared)
}

#[test]
fn much_of_buff_cache_is_shmem() {
    let finding = only(&RULE, &host_with_finding());
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
            vec![DeletedFile { kind, bytes, pid: 812, process, others: 0, mapped: false }];
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

fn tmpfs(used: Bytes) -> TmpfsMount {
    TmpfsMount { point: Name::from("/run"), used: file("/run", used), ..TmpfsMount::default() }
}

#[test]
fn shmem_that_nothing_explains_may_be_system_v_shared_memory() {
    let mut interval = host_with_finding();
    interval.end.memory_files.mounts = vec![tmpfs(mib(100))];
    let finding = only(&RULE, &interval);
    let rest = " 2.9 GiB of Shmem are in no tmpfs and no open file that was found: they may be System V shared \
                memory, memory that processes share after a fork, or files of a container.";
    assert!(finding.what.ends_with(rest), "{}", finding.what);
    assert_eq!(finding.next[0], "ipcs --shmems --human");

    let at = "/proc/sysvipc/shm";
    let segment = SharedSegment {
        id: 7,
        resident: line(at, 2, gib(2)),
        swapped: line(at, 2, mib(0)),
        attached: line(at, 2, 3),
        ..SharedSegment::default()
    };
    interval.end.memory_files.segments = vec![segment];
    let finding = only(&RULE, &interval);
    let held = " Of the 3.0 GiB of Shmem, the System V shared memory with id 7 holds 2.0 GiB.";
    assert!(finding.what.ends_with(held), "{}", finding.what);
    assert!(proof_of(&finding).contains("/proc/sysvipc/shm:2 = segment 7 in RAM 2.0 GiB"));

    interval.end.memory_files.segments.clear();
    interval.end.memory_files.mounts[0].used = pagewise_model::Reading::not_read();
    assert!(!only(&RULE, &interval).what.contains("no tmpfs"));
}
