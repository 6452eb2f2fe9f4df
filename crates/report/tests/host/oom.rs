// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A service that reached its limit four minutes before the reading.

use pagewise_model::*;

use super::{MIB, found};

const ENDED: f64 = 1_795_183_111.4;

fn mib(mib: u64) -> Option<Bytes> {
    Some(Bytes::new(mib * MIB))
}

fn usage(used: u64, limit: u64, reached: u64) -> Option<OomUsage> {
    let (usage, limit) = (Bytes::new(used * MIB), Limit::Bytes(Bytes::new(limit * MIB)));
    Some(OomUsage { usage, limit, reached })
}

fn kill() -> OomKill {
    let task = |pid, rss, swapped| OomTask {
        pid,
        name: Name::from("nginx"),
        uid: 33,
        rss: Bytes::new(rss * MIB),
        swapped: Bytes::new(swapped * MIB),
        total_vm: Some(Bytes::new((rss + swapped + 40) * MIB)),
        oom_score_adj: 0,
    };
    OomKill {
        source: Source::line("/dev/kmsg", 17_611),
        earlier_boot: None,
        boot_seconds: 4_758.2,
        unix_seconds: Some(ENDED),
        seconds_ago: Some(242.9),
        stamp: None,
        machine: None,
        panic: None,
        zones: Vec::new(),
        constraint: Some(OomConstraint::Cgroup),
        group: Some(Name::from("/system.slice/web.service")),
        victim: Some(OomVictim {
            pid: 980,
            name: Name::from("nginx"),
            uid: Some(33),
            oom_score_adj: Some(0),
            total_vm: mib(120),
            anon: mib(41),
            file: mib(0),
            shmem: mib(4),
            page_tables: mib(1),
        }),
        victim_group: Some(Name::from("/system.slice/web.service")),
        others: Vec::new(),
        whole_group: false,
        repeats: 0,
        invoker: Some(OomInvoker {
            name: Name::from("php-fpm"),
            gfp_mask: Name::from("0xcc0(GFP_KERNEL)"),
            order: 0,
            oom_score_adj: 0,
        }),
        host: None,
        group_memory: Some(OomGroup {
            memory: usage(64, 64, 845_358),
            swap: usage(0, 0, 12),
            anon: mib(58),
            shmem: mib(4),
            ..OomGroup::default()
        }),
        tasks: vec![task(980, 41, 0), task(981, 17, 1)],
        tasks_left_out: 3,
        left_out_rss: Bytes::new(5 * MIB),
        reaped: None,
    }
}

pub(crate) fn kernel_log() -> KernelLog {
    KernelLog {
        records: found(2_456, "/dev/kmsg"),
        oldest_boot_seconds: Some(812.4),
        wrapped: true,
        kills: vec![kill()],
        left_out: 0,
        journal: found(Name::from("persistent"), "/var/log/journal"),
        journal_files: found(3, "/var/log/journal"),
        journal_files_left_out: 1,
        journal_unix_seconds: Some(ENDED - 9.0 * 86_400.0),
        failures: Vec::new(),
        failures_left_out: 0,
        hung_tasks: Vec::new(),
        hung_tasks_left_out: 0,
        program_messages: found(12, "/var/log/journal"),
        program_messages_left_out: 0,
        user_kills: Vec::new(),
        unit_kills: Vec::new(),
        not_understood: 0,
        first_not_understood: None,
    }
}
