// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes reports of the OOM killer, which tests then change.

use pagewise_model::{
    Bytes, Limit, Name, OomConstraint, OomGroup, OomHost, OomInvoker, OomKill, OomTask, OomUsage,
    OomVictim, Source,
};

use super::{gib, mib};

/// Makes a process that the OOM killer killed, with this anonymous memory and 1 MiB of shmem.
pub fn victim(pid: u32, name: &str, anon: Bytes) -> OomVictim {
    OomVictim {
        pid,
        name: Name::from(name),
        uid: Some(33),
        oom_score_adj: Some(0),
        anon: Some(anon),
        file: Some(Bytes::new(0)),
        shmem: Some(mib(1)),
        ..OomVictim::default()
    }
}

fn task(pid: u32, name: &str, rss: Bytes) -> OomTask {
    OomTask { pid, name: Name::from(name), rss, ..OomTask::default() }
}

fn invoker(name: &str) -> Option<OomInvoker> {
    let (name, gfp_mask) = (Name::from(name), Name::from("0xcc0(GFP_KERNEL)"));
    Some(OomInvoker { name, gfp_mask, order: 0, oom_score_adj: 0 })
}

/// Makes the usage of a memory limit, with how often the limit was reached.
pub fn usage(usage: Bytes, limit: Limit, reached: u64) -> Option<OomUsage> {
    Some(OomUsage { usage, limit, reached })
}

/// Makes an OOM kill an hour ago, 44 seconds after boot, without any other details.
pub fn blank(source: Source) -> OomKill {
    OomKill { source, boot_seconds: 44.0, seconds_ago: Some(3600.0), ..OomKill::default() }
}

/// Makes an OOM kill that happened because a service that must not swap reached its limit.
pub fn by_limit() -> OomKill {
    let zero = Limit::Bytes(Bytes::new(0));
    OomKill {
        constraint: Some(OomConstraint::Cgroup),
        group: Some(Name::from("/system.slice/web.service")),
        victim: Some(victim(980, "nginx", mib(41))),
        victim_group: Some(Name::from("/system.slice/web.service")),
        invoker: invoker("nginx"),
        group_memory: Some(OomGroup {
            memory: usage(mib(64), Limit::Bytes(mib(64)), 845_358),
            swap: usage(Bytes::new(0), zero, 0),
            anon: Some(mib(58)),
            file: Some(mib(1)),
            shmem: Some(mib(4)),
            kernel: Some(mib(1)),
            ..OomGroup::default()
        }),
        tasks: vec![task(980, "nginx", mib(42)), task(981, "nginx", mib(17))],
        ..blank(Source::line("/dev/kmsg", 700))
    }
}

/// Makes an OOM kill that happened because a machine without swap ran out of memory.
pub fn by_host() -> OomKill {
    let zero = Some(Bytes::new(0));
    OomKill {
        constraint: Some(OomConstraint::Host),
        victim: Some(victim(77, "java", gib(12))),
        victim_group: Some(Name::from("/system.slice/db.service")),
        invoker: invoker("sh"),
        host: Some(OomHost {
            total: Some(gib(16)),
            high_memory: zero,
            anon: Some(gib(13)),
            file: Some(mib(3)),
            shmem: Some(gib(1)),
            unevictable: zero,
            slab_reclaimable: Some(mib(100)),
            slab_unreclaimable: Some(mib(200)),
            page_tables: Some(mib(50)),
            free: Some(mib(60)),
            free_cma: zero,
            swap_total: zero,
            swap_free: zero,
        }),
        tasks: vec![task(77, "java", gib(12)), task(4121, "postgres", gib(1))],
        ..blank(Source::line("/dev/kmsg", 500))
    }
}
